package treadle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/reduce"
)

// A Builder collects the parts of a graph with state S. Its methods return no
// errors; [Builder.Compile] reports all problems at once.
type Builder[S any] struct {
	draft
}

// draft is the part of a Builder that does not depend on its type parameter; see core.
type draft struct{ spec pregel.Spec }

// New returns a builder for a graph whose state is S.
//
// If S is a struct, each exported field is a channel: a node's write replaces the
// value, unless the field's type has a method Reduce, which then merges the update.
// If S is [Update], the channels are declared with [AddField]. For any other S,
// the state is a single channel.
func New[S any](name string) *Builder[S] {
	b := &Builder[S]{}
	b.spec.Name, b.spec.Words, b.spec.State = name, vocabulary, reflect.TypeFor[S]()
	return b
}

// A Node is a handle to a node that takes an In.
type Node[In any] struct{ name string }

// Name returns the node's name.
func (n Node[In]) Name() string { return n.name }

// Send returns a goto that runs the node in the next step with the given input instead
// of the state.
func (n Node[In]) Send(in In) Goto { return Send(n.name, in) }

// AddNode adds a node: a function that takes the fields it reads and returns the
// fields it writes.
//
// In is the state, or a struct with some of its fields. Fields that are not part of
// the state are private channels between nodes. If the node runs only through [Send],
// In may be any type.
//
// Out is one of these:
//
//   - a struct with the fields to write. A pointer field is an optional write.
//     An [Overwrite] replaces the value of a field with a reducer. A field of
//     type [Goto] schedules nodes and is not a write.
//   - a pointer to such a struct; nil writes nothing.
//   - an [Update], a [Goto], a [Command], or a list of commands.
func AddNode[S, In, Out any](b *Builder[S], name string, fn func(context.Context, In) (Out, error), opts ...NodeOption) Node[In] {
	b.Add(NewNode(name, fn, opts...))
	return Node[In]{name}
}

// An AnyNode is a node that does not belong to a graph yet, for packages that provide
// nodes. In your own graph, use [AddNode].
type AnyNode struct{ spec *pregel.NodeSpec }

// NewNode is like [AddNode], but returns a node to pass to [Builder.Add].
func NewNode[In, Out any](name string, fn func(context.Context, In) (Out, error), opts ...NodeOption) AnyNode {
	n := &pregel.NodeSpec{Name: name, In: reflect.TypeFor[In](), Out: reflect.TypeFor[Out]()}
	if fn != nil {
		n.Fn, n.Call = fn, func(ctx context.Context, in any) (any, error) { return boxed(fn(ctx, unbox[In](in))) }
	}
	configure(n, opts)
	return AnyNode{n}
}

// configure applies options to a node. Compile reports nil options.
func configure(n *pregel.NodeSpec, opts []NodeOption) {
	for i, o := range opts {
		if o == nil {
			n.Errs = append(n.Errs, fmt.Sprintf("option %d of %d is nil", i+1, len(opts)))
			continue
		}
		o.node(n)
	}
}

// AddGraph adds a graph as a node. The subgraph reads the fields that both graphs declare,
// and its nodes' updates of those fields also apply to the parent graph,
// one by one. Its events and checkpoints have their own namespace.
func AddGraph[S, In, Out any](b *Builder[S], name string, g *Graph[In, Out], opts ...NodeOption) Node[In] {
	n := &pregel.NodeSpec{Name: name, In: reflect.TypeFor[In](), Out: reflect.TypeFor[Out]()}
	if g != nil && g.plan != nil {
		n.Graph = g.plan
	} else {
		n.Errs = append(n.Errs, "the graph is nil, or was not made by Compile")
	}
	b.add(n, opts)
	return Node[In]{name}
}

// Add adds nodes created with [NewNode]. A node may be added to several graphs.
func (b *draft) Add(nodes ...AnyNode) {
	for i, n := range nodes {
		if n.spec == nil {
			b.spec.Errs = append(b.spec.Errs, &BuildError{Graph: b.spec.Name, Msg: fmt.Sprintf("Add: node %d of %d is empty: make it with NewNode", i+1, len(nodes))})
			continue
		}
		spec := *n.spec
		b.add(&spec, nil)
	}
}

func (b *draft) add(n *pregel.NodeSpec, opts []NodeOption) {
	configure(n, opts)
	b.spec.Nodes = append(b.spec.Nodes, n)
}

// unbox returns a node's input, which is a view of the state or the input of a send.
func unbox[In any](in any) In {
	if p, ok := in.(*In); ok {
		return *p
	}
	v, _ := in.(In) // nil for an interface type
	return v
}

func boxed[Out any](out Out, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return out, nil
}

// AddField declares a field of a dynamic state, created with New[Update]. If T
// has a method Reduce, it is the field's reducer.
func AddField[T any](b *Builder[Update], name string) {
	b.spec.Fields = append(b.spec.Fields, pregel.FieldSpec{Name: name, Type: reflect.TypeFor[T]()})
}

// Reduce sets the reducer of a field whose type has no method Reduce. The field may be
// named by its Go or JSON name. fn must not modify its arguments.
func Reduce[S, T, U any](b *Builder[S], field string, fn func(T, U) T) {
	r := pregel.ReducerSpec{Field: field, Type: reflect.TypeFor[T](), Update: reflect.TypeFor[U]()}
	if fn != nil {
		r.Reducer = reduce.Func[T, U]{Fn: func(t T, u U) (T, error) { return fn(t, u), nil }}
	}
	b.spec.Reducers = append(b.spec.Reducers, r)
}

// Initial sets the starting values of new runs and threads to the non-zero
// fields of s.
func (b *Builder[S]) Initial(s S) { b.spec.Initial = append(b.spec.Initial, s) }

// ContextType declares the type of the value that [Context] passes to runs.
// Runs then reject values of other types, and JSON callers can supply the value.
func ContextType[C, S any](b *Builder[S]) { b.spec.Context = reflect.TypeFor[C]() }

// Defaults sets options for all nodes that do not set them: Retry,
// Timeout, OnError, and Cache.
func (b *draft) Defaults(opts ...NodeOption) { configure(&b.spec.Defaults, opts) }

// Edge runs node to after node from.
func (b *draft) Edge(from, to string) {
	b.spec.Edges = append(b.spec.Edges, pregel.EdgeSpec{From: from, To: to})
}

// Join runs node to after all nodes in from have run, in any steps.
func (b *draft) Join(from []string, to string) {
	b.spec.Joins = append(b.spec.Joins, pregel.JoinSpec{From: slices.Clone(from), To: to})
}

// Sequence runs nodes one after another, by adding an edge between each pair of neighbors.
func (b *draft) Sequence(nodes ...string) {
	if len(nodes) == 0 {
		b.spec.Errs = append(b.spec.Errs, &BuildError{Graph: b.spec.Name, Msg: "sequence: it needs at least one node"})
	}
	seen := map[string]bool{}
	for i, n := range nodes {
		if seen[n] {
			b.spec.Errs = append(b.spec.Errs, &BuildError{Graph: b.spec.Name, Msg: fmt.Sprintf("sequence: node %q named twice", n)})
			return
		}
		seen[n] = true
		if i > 0 {
			b.Edge(nodes[i-1], n)
		}
	}
}

// Branch calls router after node from to choose the next nodes. The router sees the
// state with the writes of that node. The destinations serve diagrams and checks;
// without them, the branch may lead to any node. An empty Goto, as for a fan-out over an
// empty list, schedules no node. A nil Goto fails the run.
func (b *Builder[S]) Branch(from string, router func(context.Context, S) (Goto, error), destinations ...string) {
	AddBranch(b, from, router, destinations...)
}

// AddBranch is like [Builder.Branch], but for a router that reads only part of the state.
func AddBranch[S, In any](b *Builder[S], from string, router func(context.Context, In) (Goto, error), destinations ...string) {
	br := &pregel.BranchSpec{From: from, In: reflect.TypeFor[In](), Dests: plainDests(destinations)}
	if router != nil {
		br.Call = func(ctx context.Context, in any, to []pregel.Target) ([]pregel.Target, error) {
			g, err := router(ctx, unbox[In](in))
			if g == nil && err == nil {
				err = pregel.ErrNoDestination
			}
			return g.appendTo(to), err
		}
	}
	b.spec.Branches = append(b.spec.Branches, br)
}

// Switch calls fn after node from and runs the node that the map lists for its result. The
// keys label the edges in diagrams. The run fails if the map has no node for a result.
func Switch[S, In any, K comparable](b *Builder[S], from string, fn func(context.Context, In) (K, error), nodes map[K]string) {
	nodes = maps.Clone(nodes)
	br := &pregel.BranchSpec{From: from, In: reflect.TypeFor[In]()}
	for k, n := range nodes {
		br.Dests = append(br.Dests, pregel.Destination{Node: n, Label: fmt.Sprint(k)})
	}
	slices.SortFunc(br.Dests, func(a, b pregel.Destination) int {
		return cmpPairs(a.Node, b.Node, a.Label, b.Label)
	})
	if len(nodes) == 0 {
		b.spec.Errs = append(b.spec.Errs, &BuildError{Graph: b.spec.Name, Node: from, Msg: "the switch has no nodes to go to"})
	}
	if fn != nil {
		br.Call = func(ctx context.Context, in any, to []pregel.Target) ([]pregel.Target, error) {
			k, err := fn(ctx, unbox[In](in))
			if err != nil {
				return nil, err
			}
			n, ok := nodes[k]
			if !ok {
				return nil, fmt.Errorf("switch: there is no node for %v: add it to the map", k)
			}
			return append(to, pregel.Target{Node: n}), nil
		}
	}
	b.spec.Branches = append(b.spec.Branches, br)
}

func plainDests(nodes []string) []pregel.Destination {
	var out []pregel.Destination
	for _, n := range nodes {
		out = append(out, pregel.Destination{Node: n})
	}
	return out
}

// Compile checks the graph and prepares it to run. It reports all problems
// at once, as joined [*BuildError]s.
func (b *Builder[S]) Compile(o *Options) (*Graph[S, S], error) { return Compile[S, S](b, o) }

// Compile is like [Builder.Compile], but for a graph whose input and output types differ
// from its state. Their fields are matched with the state's fields by name: an input writes
// exactly the fields of In, and the output consists of the fields of Out.
func Compile[In, Out, S any](b *Builder[S], o *Options) (*Graph[In, Out], error) {
	c, err := b.compile(reflect.TypeFor[In](), reflect.TypeFor[Out](), o)
	if err != nil {
		return nil, err
	}
	return &Graph[In, Out]{core: c}, nil
}

func (b *draft) compile(in, out reflect.Type, o *Options) (core, error) {
	if o == nil {
		o = &Options{}
	}
	opts := *o
	spec := b.spec // a builder may be compiled again, with other options
	spec.In, spec.Out = in, out
	spec.Strict, spec.Storable, spec.StepLimit = opts.Strict, opts.Saver != nil, opts.StepLimit
	spec.Was = opts.Was
	spec.Before, spec.After = opts.Before, opts.After
	if opts.StepLimit < 0 {
		spec.Errs = append(slices.Clip(spec.Errs), &BuildError{Graph: spec.Name, Msg: fmt.Sprintf("step limit %d: want at least 1", opts.StepLimit)})
	}
	if opts.MaxConcurrency < 0 {
		spec.Errs = append(slices.Clip(spec.Errs), &BuildError{Graph: spec.Name, Msg: fmt.Sprintf("max concurrency %d: want 0 or more", opts.MaxConcurrency)})
	}
	if opts.StepTimeout < 0 {
		spec.Errs = append(slices.Clip(spec.Errs), &BuildError{Graph: spec.Name, Msg: fmt.Sprintf("step timeout %v: want 0 or more", opts.StepTimeout)})
	}
	if opts.PutTimeout < 0 {
		spec.Errs = append(slices.Clip(spec.Errs), &BuildError{Graph: spec.Name, Msg: fmt.Sprintf("put timeout %v: want 0 or more", opts.PutTimeout)})
	}
	for what, part := range map[string]any{"saver": opts.Saver, "cache": opts.Cache} {
		if isNilPointer(part) {
			spec.Errs = append(slices.Clip(spec.Errs), &BuildError{Graph: spec.Name, Msg: fmt.Sprintf("the %s is a nil %T: leave the option out if there is none", what, part)})
		}
	}
	if msg := pregel.Codecs(opts.Codecs).Check(); msg != "" {
		spec.Errs = append(slices.Clip(spec.Errs), &BuildError{Graph: spec.Name, Msg: msg})
	}
	plan, err := pregel.Compile(&spec)
	if err != nil {
		return core{}, err
	}
	return newCore(plan, &opts), nil
}

// isNilPointer reports whether v is a nil pointer in an interface.
func isNilPointer(v any) bool {
	rv := reflect.ValueOf(v)
	return rv.Kind() == reflect.Pointer && rv.IsNil()
}

// Must returns g, or panics if err is not nil. It is intended for tests and package
// variables.
func Must[G any](g G, err error) G {
	if err != nil {
		panic(errors.Join(errors.New("treadle.Must"), err))
	}
	return g
}
