package treadle

import (
	"reflect"
	"slices"
	"time"

	"github.com/treadle-go/treadle/internal/pregel"
)

// Start and End are the virtual first and last node: edges leave Start and
// lead to End.
const (
	Start = pregel.Start
	End   = pregel.End
)

// Goto says where control goes: a list of targets. A node returns it, alone or
// as a field of what it writes, and so does a branch. Being a slice it grows
// with append:
//
//	var next treadle.Goto
//	for _, s := range state.Subjects {
//		next = append(next, joke.Send(subject{s})...)
//	}
type Goto []Target

// Target is one place that control goes to. Make it with [To], [Send] or
// [Node.Send].
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
		t.t.Timeout = pregel.Timeout{Run: orBad(d)}
		out[i] = t
	}
	return out
}

// Command is an update and a goto in one, for nodes that need both and may
// address the graph above them. A nil Update writes nothing.
//
// A node may also return []Command[U]; each is applied in order.
type Command[U any] struct {
	Update *U
	Goto   Goto
	// Parent applies the command to the graph that this graph runs in: the
	// task there ends with it. U's fields are then the parent's, and the node
	// says so with [Handoff].
	Parent bool
}

func (c Command[U]) command() pregel.Command {
	out := pregel.Command{Goto: c.Goto.appendTo(nil), Parent: c.Parent}
	if c.Update != nil {
		out.Update = *c.Update
	}
	return out
}

type commander interface{ command() pregel.Command }

// Overwrite replaces the value of a field that accumulates instead of adding
// to it. A node returns it as a field:
//
//	type cleared struct{ Log treadle.Overwrite[treadle.List[string]] }
//
// In JSON it is {"__overwrite__": value}. Two overwrites of a field in one step
// are an error; an overwrite beats the plain updates of its step.
type Overwrite[T any] struct{ Value T }

func (o Overwrite[T]) overwrite() any { return o.Value }

type overwriter interface{ overwrite() any }

// Update is an update whose fields are known at run time only: JSON names and
// values. It is checked against the graph's fields; an unknown name or a value
// of another type is an error. As the state type, New[Update] makes a dynamic
// graph; see [AddField].
type Update map[string]any

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
