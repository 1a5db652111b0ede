package treadle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/treadle-go/treadle/internal/pregel"
)

// Names of virtual nodes.
const (
	// Start and End are the first and last node: edges leave Start and
	// lead to End.
	Start = "__start__"
	End   = "__end__"
	// InputNode turns an update into an input; see [AsNode].
	InputNode = "__input__"
	// CopyNode turns an update into a copy of the checkpoint; see [AsNode].
	CopyNode = "__copy__"
)

// A Goto lists the nodes to run next. Branches return it, and nodes return it alone or as a
// field of their result. It is a slice, so append adds targets:
//
//	var next treadle.Goto
//	for _, s := range state.Subjects {
//		next = append(next, joke.Send(subject{s})...)
//	}
type Goto []Target

// A Target is an element of a [Goto]. Use [To], [Send], or [Node.Send] to create one.
type Target struct{ t pregel.Target }

// To schedules the named nodes for the next step, where they read the state.
// To(End) schedules no node.
func To(nodes ...string) Goto {
	g := make(Goto, len(nodes))
	for i, n := range nodes {
		g[i].t.Node = n
	}
	return g
}

// Send runs a node in the next step with the given input instead of the
// state. The input must have the node's input type, which is checked at run time;
// with [Node.Send], the compiler checks it.
func Send(node string, input any) Goto {
	return Goto{{pregel.Target{Node: node, Input: input, IsSend: true}}}
}

// Timeout sets the timeout of the tasks that the goto's sends start, in place of the
// node's timeout.
func (g Goto) Timeout(d time.Duration) Goto {
	out := make(Goto, len(g))
	for i, t := range g {
		t.t.Timeout = orBad(d)
		out[i] = t
	}
	return out
}

// A Command combines an update and a goto. It may also address the parent graph. A nil
// Update writes nothing.
//
// A node may also return []Command[U], which are applied in order.
type Command[U any] struct {
	Update *U
	Goto   Goto
	// Parent applies the command to the parent graph and ends
	// the task there. The fields of U are then fields of the parent graph, and the node
	// declares the command with [Handoff]. Other updates that a subgraph added with
	// [AddGraph] has made to shared fields also reach the parent graph.
	Parent bool
}

func (c Command[U]) command() pregel.Command {
	out := pregel.Command{Goto: c.Goto.appendTo(nil), Parent: c.Parent}
	if c.Update != nil {
		out.Update = *c.Update
	}
	return out
}

func (c Command[U]) loose() Command[any] {
	out := Command[any]{Goto: c.Goto, Parent: c.Parent}
	if c.Update != nil {
		var update any = *c.Update
		out.Update = &update
	}
	return out
}

type commander interface {
	command() pregel.Command
	loose() Command[any]
}

// CommandOf converts v to a Command[any] if it is a [Command] of any type. A node
// whose commands have updates of different types returns []Command[any]; the updates are
// checked at run time.
func CommandOf(v any) (Command[any], bool) {
	if c, ok := v.(commander); ok {
		return c.loose(), true
	}
	return Command[any]{}, false
}

// UpdateOf converts a struct of writes to an [Update], without nil optional writes.
// Its keys are JSON names, or Go names for fields without a JSON name. UpdateOf returns an
// Update unchanged.
func UpdateOf(v any) (Update, error) {
	if u, ok := v.(Update); ok {
		return u, nil
	}
	m, err := pregel.Flatten(v)
	return Update(m), err
}

// An Overwrite replaces the value of a field with a reducer instead of merging into
// it. A node returns it as a field:
//
//	type cleared struct{ Log treadle.Overwrite[reduce.List[string]] }
//
// Its JSON is {"__overwrite__": value}. The run fails if a step overwrites a field twice;
// an overwrite takes precedence over other updates of its step.
type Overwrite[T any] struct{ Value T }

func (o Overwrite[T]) overwrite() any { return o.Value }

type overwriter interface{ overwrite() any }

// An Update is an update whose fields are known only at run time. Its keys are the
// JSON or Go names of fields, and its values are Go values or json.RawMessage,
// which is decoded. An unknown name or a value of the wrong type fails the run. As the
// state type, New[Update], it declares a graph with dynamic fields; see [AddField].
type Update map[string]any

// MarshalJSON encodes the target in LangGraph's format: a node name, or for a send
// {"node", "input"} and, if set, "timeout" in seconds.
func (t Target) MarshalJSON() ([]byte, error) {
	if !t.t.IsSend {
		return json.Marshal(t.t.Node)
	}
	send := map[string]any{"node": t.t.Node, "input": t.t.Input}
	if d := t.t.Timeout; d != 0 {
		send["timeout"] = d.Seconds()
	}
	return json.Marshal(send)
}

// UnmarshalJSON parses the output of MarshalJSON. The input of a send is decoded when the
// node runs.
func (t *Target) UnmarshalJSON(raw []byte) error {
	targets, err := gotoJSON(raw)
	if err != nil || len(targets) != 1 {
		return cmp.Or(err, fmt.Errorf("want one target, not %s", raw))
	}
	t.t = targets[0]
	return nil
}

func (g Goto) appendTo(to []pregel.Target) []pregel.Target {
	to = slices.Grow(to, len(g))
	for i := range g {
		to = append(to, g[i].t)
	}
	return to
}

var (
	commanderType  = reflect.TypeFor[commander]()
	overwriterType = reflect.TypeFor[overwriter]()
)

// vocabulary describes these types to the engine.
var vocabulary = &pregel.Vocabulary{
	Goto:    reflect.TypeFor[Goto](),
	Targets: func(to []pregel.Target, g any) []pregel.Target { return g.(Goto).appendTo(to) },
	Update:  reflect.TypeFor[Update](),
	AsMap:   func(u any) map[string]any { return u.(Update) },
	FromMap: func(m map[string]any) any { return Update(m) },
	Overwrite: func(t reflect.Type) (reflect.Type, bool) {
		if t.Kind() == reflect.Struct && t.Implements(overwriterType) && t.NumField() == 1 {
			return t.Field(0).Type, true
		}
		return nil, false
	},
	Unwrap: func(o any) any { return o.(overwriter).overwrite() },
	Command: func(t reflect.Type) (reflect.Type, bool) {
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() == reflect.Struct && t.Implements(commanderType) {
			f, ok := t.FieldByName("Update")
			return f.Type.Elem(), ok
		}
		return nil, false
	},
	Commands: func(v any) []pregel.Command {
		if c, ok := v.(commander); ok {
			return []pregel.Command{c.command()}
		}
		rv := reflect.ValueOf(v)
		out := make([]pregel.Command, rv.Len())
		for i := range out {
			out[i] = rv.Index(i).Interface().(commander).command()
		}
		return out
	},
}
