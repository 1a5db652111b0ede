package draw

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The two nodes that every graph has without defining them.
const (
	start = "__start__"
	end   = "__end__"
)

// Interrupt is the key of node metadata that marks breakpoints: "before", "after", or
// "before,after".
const Interrupt = "__interrupt"

// A Shape is a drawable representation of a graph.
type Shape struct {
	// Name is the graph's name.
	Name string
	// Nodes are in definition order, with "__start__" first and, if it is reachable,
	// "__end__" last.
	Nodes []Node
	// Edges are in display order.
	Edges []Edge
}

// A Node is a box in a diagram.
type Node struct {
	// ID is unique in the shape. The IDs of nodes in an expanded subgraph are
	// "parent:child"; the part before the last colon is their frame.
	ID string
	// Name is the displayed name; empty means the last part of the ID.
	Name string
	// Metadata is printed below the name, sorted by key, with Interrupt last.
	Metadata map[string]any
	// Graph is the subgraph that this node runs, if any. Renderers show the node
	// collapsed; [Shape.Expand] expands it.
	Graph *Shape
}

// An Edge is an arrow in a diagram.
type Edge struct {
	From        string `json:"source"`
	To          string `json:"target"`
	Label       string `json:"data,omitempty"`
	Conditional bool   `json:"conditional,omitempty"`
}

// MarshalJSON encodes the shape in LangGraph's format for drawable graphs:
//
//	{"nodes":[{"id","type","data":{"id","name"},"metadata"}],
//	 "edges":[{"source","target","data","conditional"}]}
//
// The start and end nodes do not run and have only an ID.
func (s Shape) MarshalJSON() ([]byte, error) {
	type data struct {
		ID   []string `json:"id"`
		Name string   `json:"name"`
	}
	type node struct {
		ID       string         `json:"id"`
		Type     string         `json:"type,omitempty"`
		Data     *data          `json:"data,omitempty"`
		Metadata map[string]any `json:"metadata,omitempty"`
	}
	out := struct {
		Nodes []node `json:"nodes"`
		Edges []Edge `json:"edges"`
	}{Nodes: []node{}, Edges: s.Edges}
	if out.Edges == nil {
		out.Edges = []Edge{} // clients iterate over it, so it must not be null
	}
	for _, n := range s.Nodes {
		j := node{ID: n.ID, Metadata: n.Metadata}
		if !n.terminal() {
			class := "Node"
			if n.Graph != nil {
				class = "Graph"
			}
			j.Type, j.Data = "runnable", &data{[]string{"treadle", class}, n.title()}
		}
		out.Nodes = append(out.Nodes, j)
	}
	return json.Marshal(out)
}

// title returns the text of the node's box.
func (n Node) title() string {
	if n.Name != "" {
		return n.Name
	}
	_, name := cutLast(n.ID)
	return name
}

// terminal reports whether n is a start or end node, including those of a subgraph.
func (n Node) terminal() bool {
	_, name := cutLast(n.ID)
	return name == start || name == end
}

// notes returns the lines below the node's name.
func (n Node) notes() []string {
	var lines []string
	keys := slices.Sorted(maps.Keys(n.Metadata))
	if i := slices.Index(keys, Interrupt); i >= 0 {
		keys = append(slices.Delete(keys, i, i+1), Interrupt)
	}
	for _, k := range keys {
		lines = append(lines, k+" = "+show(n.Metadata[k]))
	}
	return lines
}

// show formats a metadata value as LangGraph would, with Python's names for constants.
// Values other than plain words and numbers are encoded as JSON, because printing a
// pointer would make two diagrams of the same graph differ.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return v
	case error:
		return v.Error()
	case fmt.Stringer:
		return v.String()
	}
	if b, err := json.Marshal(v); err == nil {
		return string(b)
	}
	return fmt.Sprintf("%T", v)
}

// cutLast splits an ID into its frame and its own name.
func cutLast(id string) (frame, name string) {
	i := strings.LastIndexByte(id, ':')
	if i < 0 {
		return "", id
	}
	return id[:i], id[i+1:]
}
