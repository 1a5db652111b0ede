package dynamic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/inside"
	"github.com/treadle-go/treadle/internal/pregel"
)

// A Thread is a handle to a thread of a graph, with JSON input and output. Like a
// [treadle.Thread], it holds no state.
type Thread struct {
	thread *treadle.Thread[pregel.Input, *pregel.Record]
	graph  *treadle.Graph[pregel.Input, *pregel.Record] // runs the graph if the ID is empty; otherwise nil
	name   string                                       // of the graph
}

// Open returns a handle to a thread of g. With an empty ID, nothing is saved, and only
// RunJSON and StreamJSON work.
func Open(g treadle.AnyGraph, id string, opts ...treadle.RunOption) *Thread {
	graph := inside.Graph(g).(*treadle.Graph[pregel.Input, *pregel.Record])
	if id != "" {
		return &Thread{thread: graph.Thread(id, opts...), name: g.Name()}
	}
	if len(opts) > 0 {
		graph = graph.With(opts...)
	}
	return &Thread{thread: graph.Thread(""), graph: graph, name: g.Name()}
}

// ID returns the thread's ID.
func (t *Thread) ID() string { return t.thread.ID() }

// At is like [treadle.Thread.At].
func (t *Thread) At(id checkpoint.ID) *Thread {
	return &Thread{thread: t.thread.At(id), graph: t.graph, name: t.name}
}

// Nested is like [treadle.Thread.Nested].
func (t *Thread) Nested(namespace ...string) (*Thread, error) {
	in, err := t.thread.Nested(namespace...)
	if err != nil {
		return nil, err
	}
	return &Thread{thread: in, name: t.name}, nil
}

// State is like [treadle.Thread.State].
func (t *Thread) State(ctx context.Context) (*treadle.Snapshot, error) { return t.thread.State(ctx) }

// History is like [treadle.Thread.History].
func (t *Thread) History(ctx context.Context, opts *treadle.HistoryOptions) iter.Seq2[*treadle.Snapshot, error] {
	return t.thread.History(ctx, opts)
}

// Signal is like [treadle.Thread.Signal]; value may also be a json.RawMessage.
func (t *Thread) Signal(ctx context.Context, name string, value any) error {
	return t.thread.Signal(ctx, name, value)
}

// RunJSON runs the graph with an input, or continues from the latest checkpoint if input
// is nil. Input and output are objects with the JSON names of the fields.
func (t *Thread) RunJSON(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	var out *pregel.Record
	var err error
	if t.graph != nil {
		out, err = t.graph.Run(ctx, jsonInput(input))
	} else {
		out, err = t.thread.Run(ctx, jsonInput(input))
	}
	if out == nil {
		return nil, err
	}
	raw, encErr := json.Marshal(out)
	if err == nil {
		err = encErr
	}
	return raw, err
}

// StreamJSON is like RunJSON, but yields events. Its last event is a
// treadle.Finished[json.RawMessage].
func (t *Thread) StreamJSON(ctx context.Context, input json.RawMessage, opts ...treadle.StreamOption) iter.Seq2[treadle.Event, error] {
	if t.graph != nil {
		return t.graph.Stream(ctx, jsonInput(input), opts...)
	}
	return t.thread.Stream(ctx, jsonInput(input), opts...)
}

func jsonInput(raw json.RawMessage) pregel.Input {
	return pregel.Input{JSON: raw, Continue: raw == nil, AsRecord: true}
}

// CommandJSON continues the thread with a command in LangGraph's format: {"resume": answer
// or answers by ID, "update": fields, "goto": names or {"node", "input"}}.
// A goto with an input may also have a "timeout" in seconds. The
// update may also be a list of [name, value] pairs with repeated names.
// On a thread without a checkpoint, a command without answers is the
// input: its update is the input, and its goto adds to the first nodes.
func (t *Thread) CommandJSON(ctx context.Context, command json.RawMessage, opts ...treadle.StreamOption) iter.Seq2[treadle.Event, error] {
	in, err := commandInput(command)
	if err != nil {
		return func(yield func(treadle.Event, error) bool) {
			yield(nil, fmt.Errorf("graph %q: command: %w", t.name, err))
		}
	}
	return t.thread.Stream(ctx, in, opts...)
}

// UpdateJSON is like [treadle.Thread.Update], but takes values by their JSON names; null
// writes nothing.
func (t *Thread) UpdateJSON(ctx context.Context, values json.RawMessage, opts ...treadle.UpdateOption) (checkpoint.ID, error) {
	return t.thread.Update(ctx, values, opts...)
}

// BulkUpdateJSON is like [treadle.Thread.BulkUpdate], but takes steps in the format of
// LangGraph's supersteps: [{"updates": [{"values": fields, "command": {"update", "goto"},
// "as_node": name}]}], where an update has values or a command.
func (t *Thread) BulkUpdateJSON(ctx context.Context, supersteps json.RawMessage) (checkpoint.ID, error) {
	var steps []struct {
		Updates []struct {
			Values  json.RawMessage `json:"values"`
			Command json.RawMessage `json:"command"`
			As      string          `json:"as_node"`
		} `json:"updates"`
	}
	if err := json.Unmarshal(supersteps, &steps); err != nil {
		return checkpoint.ID{}, fmt.Errorf("graph %q: thread %q: supersteps: %w", t.name, t.ID(), err)
	}
	out := make([][]treadle.Edit, len(steps))
	for i, s := range steps {
		for j, u := range s.Updates {
			edit := treadle.Edit{Values: u.Values, As: u.As}
			if u.Command != nil && string(u.Command) != "null" {
				in, err := commandInput(u.Command)
				if err == nil && in.Resume != nil {
					err = errors.New("update cannot answer an interrupt")
				}
				if err != nil {
					return checkpoint.ID{}, &treadle.UpdateError{Graph: t.name, Msg: fmt.Sprintf("supersteps: step %d, update %d: command: %v", i, j, err)}
				}
				edit.Values = in.Also
			}
			out[i] = append(out[i], edit)
		}
	}
	return t.thread.BulkUpdate(ctx, out...)
}
