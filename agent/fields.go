package agent

import (
	"context"
	"reflect"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/inside"
	"github.com/treadle-go/treadle/internal/pregel"
)

// Fields declares fields of the thread's state that a middleware reads in its wrappers
// and tools. Create one with [NewFields].
type Fields struct{ typ reflect.Type }

// NewFields declares the fields of the struct T. As for a hook, a field that is not part
// of the agent's state is private to middleware and saved with the thread. A tool or hook
// writes it with a [treadle.Command] or its result.
func NewFields[T any]() *Fields { return &Fields{reflect.TypeFor[T]()} }

// FieldsFrom returns the fields of T as of the start of the model call or tool call that
// ctx belongs to. The second result is false if no middleware of the agent declares T;
// see [Middleware].Fields.
func FieldsFrom[T any](ctx context.Context) (T, bool) {
	v, ok := pregel.ReadOf(ctx, reflect.TypeFor[T]()).(T)
	return v, ok
}

// reads returns the node option that declares the fields of all middleware.
func (a *agent[S]) reads() []treadle.NodeOption {
	var types []reflect.Type
	for _, m := range a.Middleware {
		if m != nil && m.Fields != nil && m.Fields.typ != nil {
			types = append(types, m.Fields.typ)
		}
	}
	if types == nil {
		return nil
	}
	return []treadle.NodeOption{inside.Reads(types...).(treadle.NodeOption)}
}
