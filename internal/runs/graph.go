package runs

import (
	"encoding/json"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/treadletype"
)

// graph is a served graph with what requests are checked against.
type graph struct {
	treadle.AnyGraph
	schemas treadletype.Schemas
	nodes   []string
}

func newGraph(g treadle.AnyGraph) (*graph, error) {
	s, err := g.Schemas()
	if err != nil {
		return nil, err
	}
	out := &graph{AnyGraph: g, schemas: s}
	for _, n := range g.Shape().Nodes {
		out.nodes = append(out.nodes, n.Name)
	}
	return out, nil
}

// known leaves out the names that no node has, as LangGraph does.
func (g *graph) known(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n != "*" && !slices.Contains(g.nodes, n) })
}

// context is the part of a client's context that the graph has declared.
func (g *graph) context(c map[string]any) json.RawMessage {
	if g.schemas.Context == nil || c == nil {
		return nil
	}
	known := map[string]any{}
	for key, v := range c {
		if _, ok := g.schemas.Context.Properties[key]; ok {
			known[key] = v
		}
	}
	raw, err := json.Marshal(known)
	if err != nil { // it was JSON when it came
		return nil
	}
	return raw
}

// KnownFields leaves out the keys of an object that are no fields of the state, as
// LangGraph does. What is no object stays as it is.
func (g *graph) knownFields(raw json.RawMessage, state bool) json.RawMessage {
	s := g.schemas.Input
	if state {
		s = g.schemas.State
	}
	if len(raw) == 0 || raw[0] != '{' || s == nil || s.Properties == nil {
		return raw
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return raw
	}
	n := len(object)
	for key := range object {
		if _, ok := s.Properties[key]; !ok {
			delete(object, key)
		}
	}
	if len(object) == n {
		return raw
	}
	out, err := json.Marshal(object)
	if err != nil {
		return raw
	}
	return out
}
