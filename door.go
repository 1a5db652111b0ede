package treadle

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pregel"
)

// AnyGraph is a graph whose types are not known at compile time: every
// *Graph[In, Out] is one. Servers and command lines work with it; values go in
// and come out as JSON by the fields' JSON names.
type AnyGraph interface {
	Name() string
	Schemas() (Schemas, error)
	Shape() Shape
	// Open returns a handle on a thread; with an empty id nothing is kept and
	// only RunJSON and StreamJSON work.
	Open(thread string, opts ...Option) AnyThread

	compiled() *pregel.Plan
}

// AnyThread is a thread whose types are not known at compile time.
type AnyThread interface {
	ID() string
	// RunJSON runs with an input, or goes on from the last checkpoint if it is nil.
	RunJSON(ctx context.Context, input json.RawMessage) (json.RawMessage, error)
	StreamJSON(ctx context.Context, input json.RawMessage, opts ...StreamOption) iter.Seq2[Event, error]
	State(ctx context.Context) (*Snapshot, error)
	History(ctx context.Context, opts ...HistoryOption) iter.Seq2[*Snapshot, error]
	UpdateJSON(ctx context.Context, values json.RawMessage, opts ...UpdateOption) (checkpoint.ID, error)
}

// Schemas are the JSON schemas of a graph's types.
type Schemas struct {
	Input   *jsonschema.Schema `json:"input"`
	Output  *jsonschema.Schema `json:"output"`
	State   *jsonschema.Schema `json:"state"`
	Context *jsonschema.Schema `json:"context,omitempty"` // if declared with ContextType
}

// Open implements [AnyGraph].
func (g *Graph[In, Out]) Open(thread string, opts ...Option) AnyThread {
	return g.Thread(thread, opts...)
}

// ContextJSON is [Context] for callers who have JSON; the graph must declare
// its [ContextType].
func ContextJSON(raw json.RawMessage) Option {
	return runOption(func(s *pregel.Settings) { s.Context = raw })
}

// Schemas returns the JSON schemas of the graph's input, output, state and
// context.
func (g *Graph[In, Out]) Schemas() (Schemas, error) {
	var out Schemas
	var err error
	object := func(fields []pregel.FieldSpec) *jsonschema.Schema {
		s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
		for _, f := range fields {
			var fs *jsonschema.Schema
			fs, fieldErr := schemaOf(f.Type)
			if fieldErr != nil {
				err = fmt.Errorf("graph %q: field %s: %w", g.Name(), f.Name, fieldErr)
				continue
			}
			if f.Name == pregel.Root {
				return fs
			}
			s.Properties[f.Name] = fs
			s.PropertyOrder = append(s.PropertyOrder, f.Name)
		}
		return s
	}
	in, state, result := g.plan.FieldSpecs()
	out.Input, out.State, out.Output = object(in), object(state), object(result)
	if t := g.plan.ContextType(); t != nil && err == nil {
		out.Context, err = schemaOf(t)
	}
	return out, err
}

// schemaOf is the JSON schema of a Go type. The accumulating types of this
// package look in JSON like what they hold.
func schemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	if t.Implements(reflect.TypeFor[interface{ schemaType() reflect.Type }]()) {
		t = reflect.Zero(t).Interface().(interface{ schemaType() reflect.Type }).schemaType()
	}
	return jsonschema.ForType(t, &jsonschema.ForOptions{IgnoreInvalidTypes: true})
}

func (l List[T]) schemaType() reflect.Type   { return reflect.TypeFor[[]T]() }
func (s Set[T]) schemaType() reflect.Type    { return reflect.TypeFor[[]T]() }
func (m Map[K, V]) schemaType() reflect.Type { return reflect.TypeFor[map[K]V]() }
func (s Sum[T]) schemaType() reflect.Type    { return reflect.TypeFor[T]() }
func (m Max[T]) schemaType() reflect.Type    { return reflect.TypeFor[T]() }

func jsonInput(raw json.RawMessage) pregel.Input {
	if raw == nil {
		return pregel.Input{Continue: true}
	}
	return pregel.Input{JSON: raw}
}

func (g *Graph[In, Out]) runJSON(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	rec, err := g.plan.InvokeRecord(ctx, jsonInput(input), g.settings())
	raw, encErr := json.Marshal(rec)
	if err == nil {
		err = encErr
	}
	return raw, err
}

func (g *Graph[In, Out]) streamJSON(ctx context.Context, input json.RawMessage, opts []StreamOption) iter.Seq2[Event, error] {
	in := jsonInput(input)
	in.AsRecord = true
	return g.stream(ctx, in, opts, func(at Origin, out any) Event {
		raw, err := json.Marshal(out)
		if err != nil {
			raw = nil // every field was encoded on its way already
		}
		return Finished[json.RawMessage]{Origin: at, Output: raw}
	})
}
