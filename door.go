package treadle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/draw"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/internal/schema"
	"github.com/treadle-go/treadle/treadletype"
)

// An AnyGraph is a graph whose types are unknown at compile time. Every
// *Graph[In, Out] implements it. Its inputs and outputs are JSON objects with the JSON names
// of the fields. It is intended for servers and command-line tools.
type AnyGraph interface {
	Name() string
	Schemas() (treadletype.Schemas, error)
	Shape() draw.Shape
	// Subgraphs yields the subgraphs with the path of their nodes: "outer/inner" for a
	// subgraph of a subgraph.
	Subgraphs() iter.Seq2[string, AnyGraph]
	// Open returns a handle to a thread. With an empty ID, nothing is saved, and
	// only RunJSON and StreamJSON work.
	Open(thread string, opts ...RunOption) AnyThread

	compiled() *pregel.Plan
}

// An AnyThread is a thread whose types are unknown at compile time.
type AnyThread interface {
	ID() string
	// RunJSON runs the graph with an input, or continues from the latest checkpoint if input
	// is nil.
	RunJSON(ctx context.Context, input json.RawMessage) (json.RawMessage, error)
	// StreamJSON is like RunJSON, but yields events. Its last event is a
	// Finished[json.RawMessage].
	StreamJSON(ctx context.Context, input json.RawMessage, opts ...StreamOption) iter.Seq2[Event, error]
	// CommandJSON continues the thread with a command in LangGraph's format: {"resume": answer
	// or answers by ID, "update": fields, "goto": names or {"node", "input"}}.
	// A goto with an input may also have a "timeout" in seconds. The
	// update may also be a list of [name, value] pairs with repeated names.
	// On a thread without a checkpoint, a command without answers is the
	// input: its update is the input, and its goto adds to the first nodes.
	CommandJSON(ctx context.Context, command json.RawMessage, opts ...StreamOption) iter.Seq2[Event, error]
	// At and Nested are like [Thread.At] and [Thread.Nested].
	At(id checkpoint.ID) AnyThread
	Nested(namespace ...string) (AnyThread, error)
	State(ctx context.Context) (*Snapshot, error)
	// Signal is like [Thread.Signal]; value may also be a json.RawMessage.
	Signal(ctx context.Context, name string, value any) error
	History(ctx context.Context, o *HistoryOptions) iter.Seq2[*Snapshot, error]
	// UpdateJSON is like [Thread.Update], but takes values by their JSON names; null writes
	// nothing.
	UpdateJSON(ctx context.Context, values json.RawMessage, opts ...UpdateOption) (checkpoint.ID, error)
	// BulkUpdateJSON is like [Thread.BulkUpdate], but takes steps in the format of LangGraph's
	// supersteps: [{"updates": [{"values": fields, "command": {"update", "goto"},
	// "as_node": name}]}], where an update has values or a command.
	BulkUpdateJSON(ctx context.Context, supersteps json.RawMessage) (checkpoint.ID, error)
}

// Open implements [AnyGraph].
func (g *core) Open(thread string, opts ...RunOption) AnyThread {
	return &anyThread{g.handle(thread, opts)}
}

// Any returns a handle to the thread with JSON input and output.
func (t *handle) Any() AnyThread { return &anyThread{*t} }

// anyThread is a handle with JSON input and output.
type anyThread struct{ handle }

// checkRun is like check, but for a run, which needs neither a thread nor a saver.
func (t *anyThread) checkRun(ctx context.Context) error {
	if t.id == "" {
		return nil
	}
	return t.check(ctx)
}

// At implements [AnyThread].
func (t *anyThread) At(id checkpoint.ID) AnyThread { return &anyThread{t.at(id)} }

// Nested implements [AnyThread].
func (t *anyThread) Nested(namespace ...string) (AnyThread, error) {
	h, err := t.nested(namespace)
	if err != nil {
		return nil, err
	}
	return &anyThread{h}, nil
}

// RunJSON implements [AnyThread].
func (t *anyThread) RunJSON(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	if err := t.checkRun(ctx); err != nil {
		return nil, err
	}
	return t.core.runJSON(ctx, input)
}

// StreamJSON implements [AnyThread].
func (t *anyThread) StreamJSON(ctx context.Context, input json.RawMessage, opts ...StreamOption) iter.Seq2[Event, error] {
	if err := t.checkRun(ctx); err != nil {
		return func(yield func(Event, error) bool) { yield(nil, err) }
	}
	return t.core.streamJSON(ctx, input, opts)
}

// UpdateJSON implements [AnyThread].
func (t *anyThread) UpdateJSON(ctx context.Context, values json.RawMessage, opts ...UpdateOption) (checkpoint.ID, error) {
	return t.update(ctx, values, opts)
}

// BulkUpdateJSON implements [AnyThread].
func (t *anyThread) BulkUpdateJSON(ctx context.Context, supersteps json.RawMessage) (checkpoint.ID, error) {
	var steps []struct {
		Updates []struct {
			Values  json.RawMessage `json:"values"`
			Command json.RawMessage `json:"command"`
			As      string          `json:"as_node"`
		} `json:"updates"`
	}
	if err := json.Unmarshal(supersteps, &steps); err != nil {
		return checkpoint.ID{}, fmt.Errorf("graph %q: thread %q: supersteps: %w", t.core.Name(), t.id, err)
	}
	out := make([][]Edit, len(steps))
	for i, s := range steps {
		for j, u := range s.Updates {
			edit := Edit{Values: u.Values, As: u.As}
			if u.Command != nil && string(u.Command) != "null" {
				in, err := commandInput(u.Command)
				if err == nil && in.Resume != nil {
					err = errors.New("an update cannot answer a question")
				}
				if err != nil {
					return checkpoint.ID{}, &UpdateError{Graph: t.core.Name(), Msg: fmt.Sprintf("supersteps: step %d, update %d: command: %v", i, j, err)}
				}
				edit.Values = in.Also
			}
			out[i] = append(out[i], edit)
		}
	}
	return t.BulkUpdate(ctx, out...)
}

// Schemas returns the JSON schemas of the graph's input, output, state, and context. For a
// workflow, it returns the schemas of its function's parameter and result.
//
// Field tags describe fields as in llm.NewTool: jsonschema is the description,
// enum lists the values, and default is the default value. No field is required. The
// descriptions, enums, and defaults are for clients. A run does not apply them: it
// checks the types of its input, calls their Validate methods, and does not write fields
// that the input omits. [Builder.Initial] sets starting values.
func (g *core) Schemas() (treadletype.Schemas, error) {
	var out treadletype.Schemas
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

func jsonInput(raw json.RawMessage) pregel.Input {
	if raw == nil {
		return pregel.Input{Continue: true}
	}
	return pregel.Input{JSON: raw}
}

func (g *core) runJSON(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	rec, err := g.plan.InvokeRecord(ctx, jsonInput(input), g.settings())
	raw, encErr := json.Marshal(rec)
	if err == nil {
		err = encErr
	}
	return raw, err
}

func (g *core) streamJSON(ctx context.Context, input json.RawMessage, opts []StreamOption) iter.Seq2[Event, error] {
	in := jsonInput(input)
	in.AsRecord = true
	return g.stream(ctx, in, opts, g.finishJSON)
}

// finishJSON returns the last event of an untyped stream.
func (g *core) finishJSON(at Origin, out any) Event {
	if g.noOutput {
		return Finished[json.RawMessage]{Origin: at}
	}
	raw, err := json.Marshal(out)
	if err != nil { // a type that cannot be encoded, in a graph without a saver
		raw = nil
	}
	return Finished[json.RawMessage]{Origin: at, Output: raw}
}

// CommandJSON implements [AnyThread].
func (t *anyThread) CommandJSON(ctx context.Context, command json.RawMessage, opts ...StreamOption) iter.Seq2[Event, error] {
	in, err := commandInput(command)
	if err != nil {
		return func(yield func(Event, error) bool) {
			yield(nil, fmt.Errorf("graph %q: command: %w", t.core.Name(), err))
		}
	}
	in.AsRecord = true
	return t.stream(ctx, in, opts, t.core.finishJSON)
}

// commandInput parses a command in LangGraph's format.
func commandInput(raw json.RawMessage) (pregel.Input, error) {
	var c struct {
		Resume json.RawMessage `json:"resume"`
		Update json.RawMessage `json:"update"`
		Goto   json.RawMessage `json:"goto"`
	}
	if err := known(raw, &c); err != nil {
		return pregel.Input{}, fmt.Errorf("%w: want {\"resume\", \"update\", \"goto\"}", err)
	}
	in := pregel.Input{Continue: true, First: true}
	if c.Resume != nil {
		in.Resume = &pregel.Resume{One: c.Resume}
		var byID map[string]json.RawMessage
		if json.Unmarshal(c.Resume, &byID) == nil && len(byID) > 0 && allPauseIDs(byID) {
			in.Resume = &pregel.Resume{ByID: byID}
		}
	}
	targets, err := gotoJSON(c.Goto)
	if err != nil {
		return in, err
	}
	if c.Update != nil || targets != nil {
		in.Also = pregel.JSONCommand{Update: c.Update, Goto: targets}
	}
	if in.Resume == nil && in.Also == nil {
		return in, errors.New("it has neither resume nor update nor goto")
	}
	return in, nil
}

// known parses a JSON object. It returns an error if dst lacks a key, because a misspelled
// key would otherwise be lost.
func known(raw json.RawMessage, dst any) error {
	if err := json.Unmarshal(raw, dst); err != nil { // which minds what comes behind it
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(dst)
}

// allPauseIDs reports whether all keys of an object are IDs of questions, which
// distinguishes answers by ID from an answer that is an object.
func allPauseIDs(m map[string]json.RawMessage) bool {
	for k := range m {
		if len(k) != 32 || strings.Trim(k, "0123456789abcdef") != "" {
			return false
		}
	}
	return true
}

// gotoJSON parses a target or a list of targets.
func gotoJSON(raw json.RawMessage) ([]pregel.Target, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	var out []pregel.Target
	for _, item := range list {
		var name string
		if json.Unmarshal(item, &name) == nil {
			out = append(out, pregel.Target{Node: name})
			continue
		}
		var send struct {
			Node    string          `json:"node"`
			Input   json.RawMessage `json:"input"`
			Timeout *float64        `json:"timeout"`
		}
		if err := known(item, &send); err != nil || send.Node == "" {
			return nil, fmt.Errorf("goto %s: want a node's name or {\"node\", \"input\"}", item)
		}
		to := pregel.Target{Node: send.Node, Input: send.Input, IsSend: true}
		if send.Timeout != nil {
			d, err := seconds(*send.Timeout)
			if err != nil {
				return nil, fmt.Errorf("goto %s: timeout: %w", item, err)
			}
			to.Timeout = orBad(d)
		}
		out = append(out, to)
	}
	return out, nil
}

// seconds converts a number of seconds to a duration.
func seconds(s float64) (time.Duration, error) {
	ns := math.Round(s * float64(time.Second))
	if math.Abs(ns) >= math.MaxInt64 {
		return 0, fmt.Errorf("%v seconds are more than a duration can be", s)
	}
	return time.Duration(ns), nil
}
