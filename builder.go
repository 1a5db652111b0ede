package treadle

import (
	"context"
	"errors"
	"fmt"
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
// Documentation shows a promoted method without the type parameter, so Builder has a method
// for each exported method of draft.
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

// A NodeRef refers to a node. It is the node's handle, a [Node] or [AnyNode], or its
// name, a string such as [Start]. A misspelled handle does not compile. A misspelled name,
// or a value of any other type, fails Compile like an unknown node, or the run where it
// is used.
type NodeRef = any

// Nodes converts a list of names, or of handles of the same type, for functions that take
// several nodes:
//
//	b.Sequence(treadle.Nodes(names)...)
func Nodes[N any](nodes []N) []NodeRef {
	refs := make([]NodeRef, len(nodes))
	for i, n := range nodes {
		refs[i] = n
	}
	return refs
}

// A Node is a handle to a node that takes an In. It is a [NodeRef] of its graph, and the
// receiver of [Send] and [SendEach].
type Node[In any] struct{ name string }

// Name returns the node's name.
func (n Node[In]) Name() string { return n.name }

func (n Node[In]) nodeName() string { return n.name }

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

func (n AnyNode) nodeName() string {
	if n.spec == nil {
		return ""
	}
	return n.spec.Name
}

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
		n.Errs = append(n.Errs, "graph is nil or was not created by Compile")
	}
	b.add(n, opts)
	return Node[In]{name}
}

// Add adds nodes created with [NewNode]. A node may be added to several graphs.
func (b *Builder[S]) Add(nodes ...AnyNode) { b.draft.Add(nodes...) }

// Add implements [Builder.Add].
func (b *draft) Add(nodes ...AnyNode) {
	for i, n := range nodes {
		if n.spec == nil {
			b.spec.Errs = append(b.spec.Errs, &BuildError{Graph: b.spec.Name, Msg: fmt.Sprintf("Add: node %d of %d is empty: create it with NewNode", i+1, len(nodes))})
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
// fields of s. A saved thread that lacks one of these fields, for example
// because the field is new, gets its starting value too.
func (b *Builder[S]) Initial(s S) { b.spec.Initial = append(b.spec.Initial, s) }

// ContextType declares the type of the value that [Context] passes to runs.
// Runs then reject values of other types, and JSON callers can supply the value.
func ContextType[C, S any](b *Builder[S]) { b.spec.Context = reflect.TypeFor[C]() }

// Defaults sets options for all nodes that do not set them: [Retry], [Timeout],
// [IdleTimeout], [HeartbeatOnly], [OnError], and [Cache]. Compile rejects all other options.
func (b *Builder[S]) Defaults(opts ...NodeOption) { configure(&b.spec.Defaults, opts) }

// Edge adds an edge: to runs in the step after from.
func (b *Builder[S]) Edge(from, to NodeRef) { b.draft.Edge(from, to) }

// Edge implements [Builder.Edge].
func (b *draft) Edge(from, to NodeRef) {
	b.spec.Edges = append(b.spec.Edges, pregel.EdgeSpec{From: nameOf(from), To: nameOf(to)})
}

// Join runs to once every node in from has run, even if they ran in different
// steps. On a thread, it counts nodes that ran for earlier inputs. It does not run if one of
// the nodes never runs, such as the node of an empty [SendEach]. [Nodes] converts a list
// of names or handles to from.
func (b *Builder[S]) Join(from []NodeRef, to NodeRef) { b.draft.Join(from, to) }

// Join implements [Builder.Join].
func (b *draft) Join(from []NodeRef, to NodeRef) {
	b.spec.Joins = append(b.spec.Joins, pregel.JoinSpec{From: namesOf(from), To: nameOf(to)})
}

// Sequence runs nodes one after another, by adding an edge between each pair of neighbors.
func (b *Builder[S]) Sequence(nodes ...NodeRef) { b.draft.Sequence(nodes...) }

// Sequence implements [Builder.Sequence].
func (b *draft) Sequence(nodes ...NodeRef) {
	if len(nodes) == 0 {
		b.spec.Errs = append(b.spec.Errs, &BuildError{Graph: b.spec.Name, Msg: "sequence: no nodes: pass at least one"})
	}
	seen, names := map[string]bool{}, namesOf(nodes)
	for i, n := range names {
		if seen[n] {
			b.spec.Errs = append(b.spec.Errs, &BuildError{Graph: b.spec.Name, Msg: fmt.Sprintf("sequence: duplicate node %q", n)})
			return
		}
		seen[n] = true
		if i > 0 {
			b.Edge(names[i-1], n)
		}
	}
}

// AddBranch calls router after node from to choose the next nodes. The router takes the
// state, or a struct with some of its fields, and sees the writes of that node. It returns
// [To], [Send], or [SendEach], or several of them in one slice. An empty Goto, as for a
// fan-out over an empty list, schedules no node. A nil Goto fails the run.
//
// The destinations, which may have a [Label], are used in diagrams and by the checks of
// Compile. Without them, the branch may lead to any node.
func AddBranch[S, In any](b *Builder[S], from NodeRef, router func(context.Context, In) (Goto, error), destinations ...NodeRef) {
	br := &pregel.BranchSpec{From: nameOf(from), In: reflect.TypeFor[In](), Dests: destsOf(destinations)}
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

// labeled is a destination with a label.
type labeled struct{ name, label string }

// Label labels a destination of [AddBranch] or [Destinations] in diagrams, usually with the
// condition under which the branch leads to the node.
func Label(node NodeRef, label string) NodeRef { return labeled{nameOf(node), label} }

func destsOf(nodes []NodeRef) []pregel.Destination {
	var out []pregel.Destination
	for _, n := range nodes {
		if l, ok := n.(labeled); ok {
			out = append(out, pregel.Destination{Node: l.name, Label: l.label})
			continue
		}
		out = append(out, pregel.Destination{Node: nameOf(n)})
	}
	return out
}

// Compile checks the graph and prepares it to run. It reports all problems at once, as
// joined errors of type [*BuildError]. A nil opts means the defaults.
func (b *Builder[S]) Compile(opts *Options) (*Graph[S, S], error) { return Compile[S, S](b, opts) }

// Compile is like [Builder.Compile], but for a graph whose input and output types differ
// from its state. Their fields are matched with the state's fields by name: an input writes
// exactly the fields of In, and the output consists of the fields of Out.
func Compile[In, Out, S any](b *Builder[S], opts *Options) (*Graph[In, Out], error) {
	c, err := b.compile(reflect.TypeFor[In](), reflect.TypeFor[Out](), opts)
	if err != nil {
		return nil, err
	}
	return &Graph[In, Out]{core: c}, nil
}

func (b *draft) compile(in, out reflect.Type, opts *Options) (core, error) {
	if opts == nil {
		opts = &Options{}
	}
	spec := b.spec // a builder may be compiled again, with other options
	spec.In, spec.Out = in, out
	spec.Strict, spec.Storable = opts.Strict, opts.Saver != nil
	spec.StepLimit, spec.MaxConcurrency = opts.StepLimit, opts.MaxConcurrency
	spec.Was = opts.Was
	spec.Before, spec.After = namesOf(opts.Before), namesOf(opts.After)
	for _, problem := range opts.problems() {
		spec.Errs = append(slices.Clip(spec.Errs), &BuildError{Graph: spec.Name, Msg: problem})
	}
	plan, err := pregel.Compile(&spec)
	if err != nil {
		return core{}, err
	}
	return newCore(plan, opts), nil
}

// problems describes the invalid options.
func (o *Options) problems() []string {
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if o.StepLimit < 0 {
		add("invalid Options.StepLimit %d: want 1 or more, or 0 for %d", o.StepLimit, pregel.DefaultStepLimit)
	}
	if o.MaxConcurrency < 0 {
		add("invalid Options.MaxConcurrency %d: want 1 or more, or 0 for no limit", o.MaxConcurrency)
	}
	if o.StepTimeout < 0 {
		add("invalid Options.StepTimeout %v: want more than 0, or 0 for none", o.StepTimeout)
	}
	if o.PutTimeout < 0 {
		add("invalid Options.PutTimeout %v: want more than 0, or 0 for the default", o.PutTimeout)
	}
	if isNilPointer(o.Saver) {
		add("saver is a nil %T: omit the option instead", o.Saver)
	}
	if isNilPointer(o.Cache) {
		add("cache is a nil %T: omit the option instead", o.Cache)
	}
	if msg := pregel.Codecs(o.Codecs).Check(); msg != "" {
		add("%s", msg)
	}
	return found
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
