// Package grow lets many versions of one list share their memory.
//
// A graph keeps every version of its state: the checkpoint before a step and
// the one after it are both alive. Copying a list at each append would make a
// run of n steps cost n² element copies. Here a list's versions are prefixes of
// one backing array. Whoever moves the array's used length forward by
// compare-and-swap owns the new part for ever; whoever loses the race (a fork)
// copies. Nobody writes below the used length, so an old prefix never changes.
//
// Every slice that leaves this package is clipped (its capacity is its length),
// so a caller's own append copies instead of writing into the shared array.
package grow

import "sync/atomic"

// A Reducer folds updates into a channel's value without reflection. Types
// offer one through a method `Reducer() grow.Reducer`; a type outside this
// module offers an ordinary Reduce method instead.
type Reducer interface {
	// Reduce folds update into val and returns the new value. acc is the
	// private part that the previous Reduce of the same value returned, nil at
	// first. With claim false the call must leave acc's memory as it is: it is
	// a look at what the value would become, not the commit of it.
	Reduce(val, acc, update any, claim bool) (newVal, newAcc any, err error)
	// Start is the value before the first update; ok is false if the first
	// update is to be taken as the value.
	Start() (val any, ok bool)
}

// An Appender is a Reducer whose values are lists that mostly grow at their
// end, so that storing the new elements is enough to store the new value.
type Appender interface {
	Reducer
	// Len is the number of elements of val.
	Len(val any) int
	// At is element i of val.
	At(val any, i int) any
	// Build is the list value made of n elements, each filled by fill, which
	// is given a pointer to the element.
	Build(n int, fill func(i int, elem any) error) (any, error)
}

// A Rewriter is an Appender whose Reduce may also change what is there already.
type Rewriter interface {
	Appender
	// Kept is how many elements at the beginning of was are still at the
	// beginning of now. Too few is only a waste: the others are stored again.
	Kept(was, now any) int
}

type tail[T any] struct {
	arr  []T // len(arr) is its capacity
	used atomic.Int64
}

// Append returns val with items behind it and the new private part. Both val
// and the result are clipped.
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
	t := &tail[T]{arr: make([]T, max(4, 2*m))}
	copy(t.arr, val)
	copy(t.arr[n:], items)
	t.used.Store(int64(m))
	return t.arr[:m:m], t
}

// List is the Reducer of slice types whose updates append.
type List[L ~[]T, T any] struct{}

// Reduce implements [Reducer].
func (List[L, T]) Reduce(val, acc, update any, claim bool) (any, any, error) {
	var old L
	if val != nil {
		old = val.(L)
	}
	next, acc := Append([]T(old), acc, []T(update.(L)), claim)
	return L(next), acc, nil
}

// Start implements [Reducer].
func (List[L, T]) Start() (any, bool) { return L(nil), true }

// Len implements [Appender].
func (List[L, T]) Len(val any) int { return len(val.(L)) }

// At implements [Appender].
func (List[L, T]) At(val any, i int) any { return val.(L)[i] }

// Build implements [Appender].
func (List[L, T]) Build(n int, fill func(int, any) error) (any, error) {
	out := make(L, n)
	for i := range out {
		if err := fill(i, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Func is the Reducer of a plain function of value and update.
type Func[T, U any] struct {
	Fn func(T, U) (T, error)
	// FirstWins: the first update is the value (T and U are one type).
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
