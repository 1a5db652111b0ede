package treadle

import (
	"fmt"
	"iter"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/draw"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/internal/schema"
)

// An AnyGraph is a graph whose types are unknown at compile time. Every
// *Graph[In, Out] implements it. Package dynamic runs it with JSON input and output, for
// servers and command-line tools.
type AnyGraph interface {
	Name() string
	Schemas() (Schemas, error)
	Shape() draw.Shape
	// Subgraphs yields the subgraphs with the path of their nodes: "outer/inner" for a
	// subgraph of a subgraph.
	Subgraphs() iter.Seq2[string, AnyGraph]

	graph() *core
}

// Schemas contains the JSON schemas of a graph's types.
type Schemas struct {
	Input   *jsonschema.Schema `json:"input"`
	Output  *jsonschema.Schema `json:"output"`
	State   *jsonschema.Schema `json:"state"`
	Context *jsonschema.Schema `json:"context,omitempty"` // if declared with ContextType
}

// Schemas returns the JSON schemas of the graph's input, output, state, and context. For a
// workflow, it returns the schemas of its function's parameter and result.
//
// Field tags describe fields as in llm.NewTool: jsonschema is the description,
// enum lists the values, and default is the default value. No field is required. The
// descriptions, enums, and defaults are for clients. A run does not apply them: it
// checks the types of its input, calls their Validate methods, and does not write fields
// that the input omits. [Builder.Initial] sets starting values.
func (g *Graph[In, Out]) Schemas() (Schemas, error) { return g.core.Schemas() }

// Schemas implements [AnyGraph].
func (g *core) Schemas() (Schemas, error) {
	var out Schemas
	var err error
	object := func(fields []pregel.FieldSpec) *jsonschema.Schema {
		s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
		for _, f := range fields {
			fs, fieldErr := schema.Field(f.Type, f.Tag, schema.Described)
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
		out.Context, err = schema.Of(t, schema.Described)
	}
	return out, err
}
