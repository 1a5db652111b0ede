package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
)

// GraphInfo describes a graph that the draw command can draw.
type GraphInfo struct {
	Name, About string
	// Build builds the graph. A nil saver is sufficient for drawing.
	Build func(checkpoint.Saver) (treadle.AnyGraph, error)
}

// Graphs returns the graphs that the draw command can draw, the default first.
func Graphs() []GraphInfo {
	return []GraphInfo{
		{"jokes", "a joke writer: fan-out with Send, a pick, an interrupt (see treadle jokes)", func(s checkpoint.Saver) (treadle.AnyGraph, error) { return NewJokes(0, s) }},
		{"demo", "an agent: model and tools in a loop, with memory (see treadle demo)", newAssistantGraph},
		{"essay", "an essay writer: a subgraph for research, and a branch after the review", newEssay},
	}
}

// Served returns the graphs for a server, which provides a saver and a store. The assistant
// uses one user's memories for all callers, and writes notes only if notes names a directory.
func Served(model llm.Model, notes string) ([]treadle.AnyGraph, error) {
	m, err := newMemories(context.Background(), []string{"users", "served", "memories"}, nil, model, never)
	if err != nil {
		return nil, err
	}
	jokes, err := NewJokes(0, nil)
	if err != nil {
		return nil, err
	}
	assistant, err := newAgent(model, &noteDir{path: notes}, m, treadle.Options{})
	if err != nil {
		return nil, err
	}
	essay, err := newEssay(nil)
	return []treadle.AnyGraph{jokes, assistant, essay}, err
}

// FindGraph returns the graph with the given name, or the default if name is empty.
func FindGraph(name string) (GraphInfo, error) {
	all := Graphs()
	var names []string
	for _, g := range all {
		if g.Name == name || name == "" {
			return g, nil
		}
		names = append(names, g.Name)
	}
	return GraphInfo{}, fmt.Errorf("unknown graph %q: use one of %s", name, strings.Join(names, ", "))
}
