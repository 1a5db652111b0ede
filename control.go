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

// Names of nodes that a graph does not add.
const (
	// Start and End are the virtual first and last node: edges leave Start and
	// lead to End.
	Start = "__start__"
	End   = "__end__"
	// InputNode makes an update an input: see [AsNode].
	InputNode = "__input__"
	// CopyNode makes an update a copy of the checkpoint: see [AsNode].
	CopyNode = "__copy__"
)

// Goto says where control goes: a list of targets. A node returns it, alone or as a
// field of its result, and so does a branch. It is a slice, so append adds targets:
//
//	var next treadle.Goto
//	for _, s := range state.Subjects {
//		next = append(next, joke.Send(subject{s})...)
//	}
type Goto []Target

// Target is one target of a [Goto]. Make it with [To], [Send] or [Node.Send].
type Target struct{ t pregel.Target }

// To goes to the named nodes, which run in the next step and read the state.
// To(End) goes nowhere.
func To(nodes ...string) Goto {
	g := make(Goto, len(nodes))
	for i, n := range nodes {
		g[i].t.Node = n
	}
	return g
}

// Send runs a node in the next step with an input of its own instead of the
// state. The input must have the type the node takes, which is checked when
// the goto is followed; [Node.Send] has the compiler check it.
func Send(node string, input any) Goto {
	return Goto{{pregel.Target{Node: node, Input: input, IsSend: true}}}
}

// Timeout bounds the tasks that the goto's sends start, instead of the node's
// own timeout.
func (g Goto) Timeout(d time.Duration) Goto {
	out := make(Goto, len(g))
	for i, t := range g {
		t.t.Timeout = orBad(d)
		out[i] = t
	}
	return out
}

// Command is an update and a goto in one. It may also address the graph around
// the node's graph. A nil Update writes nothing.
//
// A node may also return []Command[U]; each is applied in order.
type Command[U any] struct {
	Update *U
	Goto   Goto
	// Parent applies the command to the graph that this graph runs in, and ends
	// the task there. The fields of U are then fields of the parent, and the node
	// declares the command with [Handoff]. Other updates that a graph added with
	// [AddGraph] has made to fields it shares with its parent reach the parent too.
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

// CommandOf returns v as a Command[any] if it is a [Command] of any type. A node
// whose commands have updates of several types returns []Command[any]; the updates are
// checked at run time.
func CommandOf(v any) (Command[any], bool) {
	if c, ok := v.(commander); ok {
		return c.loose(), true
	}
	return Command[any]{}, false
}

// UpdateOf turns a struct of writes into an [Update], without the optional writes
// that are nil. A field without a JSON name has its Go name as key. An Update is
// returned unchanged.
func UpdateOf(v any) (Update, error) {
	if u, ok := v.(Update); ok {
		return u, nil
	}
	m, err := pregel.Flatten(v)
	return Update(m), err
}

// Overwrite replaces the value of a field that accumulates instead of adding
// to it. A node returns it as a field:
//
//	type cleared struct{ Log treadle.Overwrite[reduce.List[string]] }
//
// In JSON it is {"__overwrite__": value}. Two overwrites of a field in one step
// are an error; an overwrite beats the plain updates of its step.
type Overwrite[T any] struct{ Value T }

func (o Overwrite[T]) overwrite() any { return o.Value }

type overwriter interface{ overwrite() any }

// Update is an update whose fields are known only at run time. Its keys are the
// names of fields, in JSON or in Go, and its values are Go values or json.RawMessage,
// which is decoded. An unknown name or a value of another type is an error. As the
// type of a state, New[Update], it makes a graph with dynamic fields; see [AddField].
type Update map[string]any

// MarshalJSON writes the target as LangGraph has it: a node's name, or for a send
// {"node", "input"} and, if it has one of its own, "timeout" in seconds.
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

// UnmarshalJSON reads what MarshalJSON wrote. A send's input is decoded when it is
// followed.
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

// vocabulary tells the engine what these types mean.
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
