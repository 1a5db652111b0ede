package treadle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
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

// A Goto lists the nodes to run next. Branches return it, and nodes return it alone, as a
// field of their result, or in a [Command]. It is a slice, so append adds targets:
//
//	next := treadle.SendEach(joke, state.Subjects)
//	next = append(next, treadle.To(summary)...)
type Goto []Target

// A Target is an element of a [Goto]. Use [To], [Send], or [SendEach] to create one.
type Target struct{ t pregel.Target }

// To schedules nodes for the next step, where they read the state. To(End) schedules no
// node.
func To(nodes ...NodeRef) Goto {
	g := make(Goto, len(nodes))
	for i, n := range nodes {
		g[i].t.Node = nameOf(n)
	}
	return g
}

// A Receiver is a node that takes an In: its [Node], or its name.
type Receiver[In any] interface{ string | Node[In] }

// Send runs a node in the next step with the given input instead of the state. The
// compiler checks the type of the input if node is a [Node]; if node is a name, the type
// is checked at run time. The type argument is needed only for a node that takes an
// interface:
//
//	return treadle.Send[fmt.Stringer](show, time.Second), nil
func Send[In any, N Receiver[In]](node N, input In) Goto {
	return Goto{send(receiver[In](node), input)}
}

// SendEach is like [Send], but runs the node once for each item, all in the same step.
// Without items, it schedules no node, so the nodes after it do not run either: return
// [To] with the next node in that case. The compiler's error "does not satisfy Receiver" means
// that the items do not have the type of the node's input.
func SendEach[In any, N Receiver[In]](node N, items []In) Goto {
	name := receiver[In](node)
	g := make(Goto, len(items)) // not nil, which would fail a branch
	for i, in := range items {
		g[i] = send(name, in)
	}
	return g
}

// receiver is like nameOf, but takes a receiver and does not allocate.
func receiver[In any, N Receiver[In]](node N) string {
	if n, ok := any(node).(Node[In]); ok {
		return n.name
	}
	name, _ := any(node).(string)
	return name
}

func send(node string, input any) Target {
	return Target{pregel.Target{Node: node, Input: input, IsSend: true}}
}

// nameOf returns the name of a node. For a value that is not a node, it returns a
// description, which the checks for unknown nodes report.
func nameOf(node NodeRef) string {
	switch n := node.(type) {
	case string:
		return n
	case interface{ nodeName() string }:
		return n.nodeName()
	case labeled:
		return n.name + " with a label, which only destinations may have"
	}
	if v := reflect.ValueOf(node); v.Kind() == reflect.String {
		return v.String()
	}
	return fmt.Sprintf("%T, want a node or its name", node)
}

func namesOf(nodes []NodeRef) []string {
	if nodes == nil {
		return nil
	}
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = nameOf(n)
	}
	return names
}

// Timeout sets the timeout of the tasks that the goto's sends start, in place of the
// node's timeout. A goto with other targets, such as To("a").Timeout(d), fails the run.
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
	Goto   Goto // the nodes that run next, in addition to those that edges lead to
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
		if t.t.Timeout != 0 {
			return nil, fmt.Errorf("goto %q: timeout without a Send", t.t.Node)
		}
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
	var name *string
	if json.Unmarshal(raw, &name) == nil && name != nil {
		t.t = pregel.Target{Node: *name}
		return nil
	}
	var send struct {
		Node    string          `json:"node"`
		Input   json.RawMessage `json:"input"`
		Timeout *float64        `json:"timeout"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields() // a misspelled key would be lost
	if err := d.Decode(&send); err != nil || send.Node == "" {
		return fmt.Errorf("goto %s: want a node's name or {\"node\", \"input\"}", raw)
	}
	t.t = pregel.Target{Node: send.Node, Input: send.Input, IsSend: true}
	if send.Timeout != nil {
		d, err := seconds(*send.Timeout)
		if err != nil {
			return fmt.Errorf("goto %s: timeout: %w", raw, err)
		}
		t.t.Timeout = orBad(d)
	}
	return nil
}

// seconds converts a number of seconds to a duration.
func seconds(s float64) (time.Duration, error) {
	ns := math.Round(s * float64(time.Second))
	if math.Abs(ns) >= math.MaxInt64 {
		return 0, fmt.Errorf("%v seconds overflow a duration", s)
	}
	return time.Duration(ns), nil
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
