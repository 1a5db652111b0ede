package reduce

import "sync/atomic"

// A Reducer merges updates into the value of a field. A graph uses it if the field's
// type has a method
//
//	Reducer() reduce.Reducer
//
// Otherwise it calls the type's method Reduce, which is enough for most types. A
// slice type whose updates append returns [Appending], so that an append does not
// copy the slice.
type Reducer interface {
	// Reduce merges update into val and returns the new value. acc is data of the
	// reducer: the newAcc that Reduce returned with val, or nil. If claim is false,
	// Reduce must not change the memory of acc, because the new value may not be
	// kept.
	Reduce(val, acc, update any, claim bool) (newVal, newAcc any, err error)
	// Start returns the value before the first update. If ok is false, the first
	// update becomes the value.
	Start() (val any, ok bool)
}

// An Appender is a Reducer of lists that mostly grow at their end. A checkpoint of
// such a list stores only the new elements.
type Appender interface {
	Reducer
	// Len returns the number of elements of val.
	Len(val any) int
	// At returns element i of val.
	At(val any, i int) any
	// Build returns a list of n elements. It calls fill with a pointer to each.
	Build(n int, fill func(i int, elem any) error) (any, error)
}

// A Rewriter is an Appender whose Reduce may also change elements that are
// already in the list.
type Rewriter interface {
	Appender
	// Kept returns how many elements at the beginning of was are still at the
	// beginning of now. A smaller number is allowed, but more is stored then.
	Kept(was, now any) int
}

// tail is the array that versions of a list share. A graph keeps every version
// of its state, because the checkpoint before a step and the one after it are
// both in use. Each version is a prefix of the array. The append that moves used
// forward by compare-and-swap owns the new part; one that loses the race, on a
// fork, copies. Nothing below used is ever written, so an old prefix never
// changes.
type tail[T any] struct {
	arr  []T // len(arr) is its capacity
	used atomic.Int64
}

// Append returns val followed by items, and the acc for the next call, for the
// method Reduce of a [Reducer]. The capacity of the result is its length, so that an
// append by the caller copies it instead of writing into the shared array.
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
	// The identity check makes a stale private part harmless: it counts only
	// while the value really is a prefix of its array.
	if t, ok := acc.(*tail[T]); ok && m <= len(t.arr) && n > 0 && &t.arr[0] == &val[0] &&
		t.used.CompareAndSwap(int64(n), int64(m)) {
		copy(t.arr[n:m], items)
		return t.arr[:m:m], t
	}
	room := m
	if len(items) > n { // one long update, which says little about those to come
		room = max(n, m/4)
	}
	t := &tail[T]{arr: make([]T, max(4, m+room))}
	copy(t.arr, val)
	copy(t.arr[n:], items)
	t.used.Store(int64(m))
	return t.arr[:m:m], t
}

// Appending is the [Reducer] of a slice type L whose updates append:
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

// Func is the [Reducer] of a function that merges an update into a value.
type Func[T, U any] struct {
	Fn func(T, U) (T, error)
	// FirstWins takes the first update as the value; T and U must be one type.
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
