package draw

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The two nodes that every graph has and nobody defines.
const (
	start = "__start__"
	end   = "__end__"
)

// Interrupt is the key of a node's metadata that says where a run stops: "before",
// "after" or "before,after".
const Interrupt = "__interrupt"

// Shape is a drawable picture of a graph.
type Shape struct {
	// Name is the graph's name.
	Name string
	// Nodes come in the order of their definition, "__start__" first and
	// "__end__" last if it is reached.
	Nodes []Node
	// Edges come in the order in which they are to be listed.
	Edges []Edge
}

// Node is one box of a picture.
type Node struct {
	// ID is unique in the shape. The nodes of an expanded subgraph are
	// "parent:child"; the part before the last colon is the frame they are in.
	ID string
	// Name is what is shown; empty means the last part of the ID.
	Name string
	// Metadata is printed under the name, sorted by key; the Interrupt last.
	Metadata map[string]any
	// Graph is the subgraph that this node runs, if any. Renderers show the
	// node closed; [Shape.Expand] opens it.
	Graph *Shape
}

// Edge is one arrow of a picture.
type Edge struct {
	From        string `json:"source"`
	To          string `json:"target"`
	Label       string `json:"data,omitempty"`
	Conditional bool   `json:"conditional,omitempty"`
}

// MarshalJSON gives LangGraph's form of a drawable graph:
//
//	{"nodes":[{"id","type","data":{"id","name"},"metadata"}],
//	 "edges":[{"source","target","data","conditional"}]}
//
// The start and the end do not run and have only an id.
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
		out.Edges = []Edge{} // clients iterate over it: never null
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

// title is the text of the node's box.
func (n Node) title() string {
	if n.Name != "" {
		return n.Name
	}
	_, name := cutLast(n.ID)
	return name
}

// terminal reports whether n is a start or an end, also of a subgraph.
func (n Node) terminal() bool {
	_, name := cutLast(n.ID)
	return name == start || name == end
}

// notes are the lines under the node's name.
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

// show prints a metadata value as LangGraph would: by Python's names for the
// constants that differ. Whatever is not a plain word or number goes through
// JSON, since printing a pointer would make two drawings of one graph differ.
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

// cutLast splits an id into the frame that holds it and its own name.
func cutLast(id string) (frame, name string) {
	i := strings.LastIndexByte(id, ':')
	if i < 0 {
		return "", id
	}
	return id[:i], id[i+1:]
}
