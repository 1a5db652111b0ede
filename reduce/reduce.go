package reduce

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// List is a slice whose updates append. A List is written like any slice,
// reduce.List[string]{"a"}, and can be used wherever a []T is expected.
type List[T any] []T

// Reduce returns l followed by u.
func (l List[T]) Reduce(u List[T]) List[T] { return slices.Clip(slices.Concat(l, u)) }

// Reducer returns a reducer that lets the engine append without copying.
func (List[T]) Reducer() Reducer { return Appending[List[T], T]{} }

// JSONType returns the type that represents List in JSON schemas.
func (List[T]) JSONType() reflect.Type { return reflect.TypeFor[[]T]() }

// MarshalJSON encodes an empty list as [], never as null.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// Set is a set whose updates add members. Its JSON form is a list in a fixed order.
type Set[T comparable] map[T]struct{}

// SetOf returns the set of the given members.
func SetOf[T comparable](members ...T) Set[T] {
	s := make(Set[T], len(members))
	for _, m := range members {
		s[m] = struct{}{}
	}
	return s
}

// Has reports whether v is a member.
func (s Set[T]) Has(v T) bool {
	_, ok := s[v]
	return ok
}

// Reduce returns the union of both sets.
func (s Set[T]) Reduce(u Set[T]) Set[T] {
	out := make(Set[T], len(s)+len(u))
	maps.Copy(out, s)
	maps.Copy(out, u)
	return out
}

// Reducer returns a reducer that lets the engine call Reduce without reflection.
func (Set[T]) Reducer() Reducer { return plain(Set[T].Reduce) }

// JSONType returns the type that represents Set in JSON schemas.
func (Set[T]) JSONType() reflect.Type { return reflect.TypeFor[[]T]() }

// MarshalJSON encodes the members as a list ordered by their JSON.
func (s Set[T]) MarshalJSON() ([]byte, error) {
	items := make([][]byte, 0, len(s))
	for v := range s {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		items = append(items, raw)
	}
	slices.SortFunc(items, bytes.Compare)
	return slices.Concat([]byte("["), bytes.Join(items, []byte(",")), []byte("]")), nil
}

// UnmarshalJSON decodes a list.
func (s *Set[T]) UnmarshalJSON(raw []byte) error {
	var members []T
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	*s = SetOf(members...)
	return nil
}

// Map is a map whose updates set keys.
type Map[K comparable, V any] map[K]V

// Reduce returns m with the keys of u set to u's values.
func (m Map[K, V]) Reduce(u Map[K, V]) Map[K, V] {
	out := make(Map[K, V], len(m)+len(u))
	maps.Copy(out, m)
	maps.Copy(out, u)
	return out
}

// Reducer returns a reducer that lets the engine call Reduce without reflection.
func (Map[K, V]) Reducer() Reducer { return plain(Map[K, V].Reduce) }

// JSONType returns the type that represents Map in JSON schemas.
func (Map[K, V]) JSONType() reflect.Type { return reflect.TypeFor[map[K]V]() }

// MarshalJSON encodes an empty map as {}, never as null.
func (m Map[K, V]) MarshalJSON() ([]byte, error) {
	if m == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[K]V(m))
}

// Number is a constraint for the numbers that [Sum] can add.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Sum is a number whose updates are added to it. Its JSON form is the number.
type Sum[T Number] struct{ N T }

// SumOf returns the Sum n.
func SumOf[T Number](n T) Sum[T] { return Sum[T]{n} }

// Reduce returns s + u.
func (s Sum[T]) Reduce(u Sum[T]) Sum[T] { return Sum[T]{s.N + u.N} }

// Reducer returns a reducer that lets the engine call Reduce without reflection.
func (Sum[T]) Reducer() Reducer { return plain(Sum[T].Reduce) }

// JSONType returns the type that represents Sum in JSON schemas.
func (Sum[T]) JSONType() reflect.Type { return reflect.TypeFor[T]() }

// MarshalJSON encodes the number.
func (s Sum[T]) MarshalJSON() ([]byte, error) { return json.Marshal(s.N) }

// UnmarshalJSON decodes a number.
func (s *Sum[T]) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &s.N) }

// String returns the number as text.
func (s Sum[T]) String() string { return fmt.Sprint(s.N) }

// Max keeps the greatest of its updates. The zero Max has no value yet. Its JSON form
// is the value, or null.
type Max[T cmp.Ordered] struct {
	N  T
	Ok bool // reports whether there is a value
}

// MaxOf returns a Max whose value is v.
func MaxOf[T cmp.Ordered](v T) Max[T] { return Max[T]{v, true} }

// Reduce returns the greater of m and u.
func (m Max[T]) Reduce(u Max[T]) Max[T] {
	switch {
	case !m.Ok:
		return u
	case !u.Ok || u.N < m.N:
		return m
	}
	return u
}

// Reducer returns a reducer that lets the engine call Reduce without reflection.
func (Max[T]) Reducer() Reducer {
	return Func[Max[T], Max[T]]{Fn: func(m, u Max[T]) (Max[T], error) { return m.Reduce(u), nil }, FirstWins: true}
}

// JSONType returns the type that represents Max in JSON schemas.
func (Max[T]) JSONType() reflect.Type { return reflect.TypeFor[T]() }

// MarshalJSON encodes the value, or null.
func (m Max[T]) MarshalJSON() ([]byte, error) {
	if !m.Ok {
		return []byte("null"), nil
	}
	return json.Marshal(m.N)
}

// UnmarshalJSON decodes a value or null.
func (m *Max[T]) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		*m = Max[T]{}
		return nil
	}
	m.Ok = true
	return json.Unmarshal(raw, &m.N)
}

// String returns the value as text, or "none".
func (m Max[T]) String() string {
	if !m.Ok {
		return "none"
	}
	return fmt.Sprint(m.N)
}

func plain[T any](fn func(T, T) T) Reducer {
	return Func[T, T]{Fn: func(a, b T) (T, error) { return fn(a, b), nil }}
}
