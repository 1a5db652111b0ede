package runs

import (
	"encoding/json"
	"slices"

	"github.com/treadle-go/treadle"
)

// graph is a served graph with the schemas and node names that requests are checked against.
type graph struct {
	treadle.AnyGraph
	schemas treadle.Schemas
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

// known returns the names that are "*" or names of nodes. Like LangGraph, it drops the others.
func (g *graph) known(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n != "*" && !slices.Contains(g.nodes, n) })
}

// context returns the part of a client's context that the graph declares.
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
	if err != nil { // it was decoded from JSON
		return nil
	}
	return raw
}

// knownFields removes the keys of an object that are not fields of the input or, if state is
// set, of the state, as LangGraph does. It returns any other value unchanged.
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
