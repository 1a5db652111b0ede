package reduce

import "sync/atomic"

// A Reducer merges updates into the value of a field. A graph uses it if the field's
// type has a method
//
//	Reducer() reduce.Reducer
//
// Otherwise, it calls the type's method Reduce, which is sufficient for most types. A
// slice type whose updates append returns [Appending], so that an append does not copy
// the slice.
type Reducer interface {
	// Reduce merges update into val and returns the new value. acc is private data of
	// the reducer: the newAcc that Reduce returned with val, or nil. If claim is false,
	// Reduce must not modify the memory of acc, because the new value may be discarded.
	Reduce(val, acc, update any, claim bool) (newVal, newAcc any, err error)
	// Start returns the value before the first update. If ok is false, the first
	// update becomes the value.
	Start() (val any, ok bool)
}

// An Appender is a Reducer of lists that usually grow at the end. A checkpoint of such
// a list stores only the new elements.
type Appender interface {
	Reducer
	// Len returns the number of elements in val.
	Len(val any) int
	// At returns element i of val.
	At(val any, i int) any
	// Build returns a list of n elements. It calls fill with a pointer to each element.
	Build(n int, fill func(i int, elem any) error) (any, error)
}

// A Rewriter is an Appender whose Reduce may also change existing elements of the list.
type Rewriter interface {
	Appender
	// Kept returns the number of elements at the start of was that are still at the
	// start of now. A smaller number is allowed, but more is then stored.
	Kept(was, now any) int
}

// tail is the array shared by the versions of a list. A graph keeps every version of
// its state, because the checkpoints before and after a step are both in use. Each
// version is a prefix of the array. The append that advances used by compare-and-swap
// owns the new part; an append that loses the race, on a fork, copies. Nothing below
// used is ever written, so an old prefix never changes.
type tail[T any] struct {
	arr  []T // len(arr) is the capacity
	used atomic.Int64
}

// Append returns val followed by items, and the acc for the next call. It is meant for
// the Reduce method of a [Reducer]. The capacity of the result is its length, so that
// an append by the caller copies the result instead of writing into the shared array.
func Append[T any](val []T, acc any, items []T, claim bool) ([]T, any) {
	if len(items) == 0 {
		return val, acc
	}
	n, m := len(val), len(val)+len(items)
	if !claim {
		out := make([]T, m)
		copy(out, val)
		copy(out[n:], items)
		return out, nil
	}
	// The identity check makes a stale acc harmless: it counts only while the value is
	// a prefix of its array.
	if t, ok := acc.(*tail[T]); ok && m <= len(t.arr) && n > 0 && &t.arr[0] == &val[0] &&
		t.used.CompareAndSwap(int64(n), int64(m)) {
		copy(t.arr[n:m], items)
		return t.arr[:m:m], t
	}
	room := m
	if len(items) > n { // one long update, which predicts little about later ones
		room = max(n, m/4)
	}
	t := &tail[T]{arr: make([]T, max(4, m+room))}
	copy(t.arr, val)
	copy(t.arr[n:], items)
	t.used.Store(int64(m))
	return t.arr[:m:m], t
}

// Appending is the [Reducer] for a slice type L whose updates append:
//
//	func (Log) Reducer() reduce.Reducer { return reduce.Appending[Log, Entry]{} }
type Appending[L ~[]T, T any] struct{}

// Reduce implements [Reducer].
func (Appending[L, T]) Reduce(val, acc, update any, claim bool) (any, any, error) {
	var old L
	if val != nil {
		old = val.(L)
	}
	next, acc := Append([]T(old), acc, []T(update.(L)), claim)
	return L(next), acc, nil
}

// Start implements [Reducer].
func (Appending[L, T]) Start() (any, bool) { return L(nil), true }

// Len implements [Appender].
func (Appending[L, T]) Len(val any) int { return len(val.(L)) }

// At implements [Appender].
func (Appending[L, T]) At(val any, i int) any { return val.(L)[i] }

// Build implements [Appender].
func (Appending[L, T]) Build(n int, fill func(int, any) error) (any, error) {
	out := make(L, n)
	for i := range out {
		if err := fill(i, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Func is a [Reducer] that merges updates with a function.
type Func[T, U any] struct {
	Fn func(T, U) (T, error)
	// FirstWins makes the first update the value; T and U must then be the same type.
	FirstWins bool
}

// Reduce implements [Reducer].
func (f Func[T, U]) Reduce(val, _, update any, _ bool) (any, any, error) {
	if val == nil && f.FirstWins {
		return update, nil, nil
	}
	var old T
	if val != nil {
		old = val.(T)
	}
	u, _ := update.(U) // a nil update of an interface type is its zero value
	next, err := f.Fn(old, u)
	if err != nil {
		return nil, nil, err
	}
	return next, nil, nil
}

// Start implements [Reducer].
func (f Func[T, U]) Start() (any, bool) {
	if f.FirstWins {
		return nil, false
	}
	var zero T
	return zero, true
}
