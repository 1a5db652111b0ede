package pregel

import (
	"context"
	"reflect"
	"time"
)

// Spec is a graph as collected by its builder. Compile turns it into a Plan or
// returns all its problems.
type Spec struct {
	Name     string
	Words    *Vocabulary
	State    reflect.Type
	Fields   []FieldSpec // of a dynamic state
	Reducers []ReducerSpec
	Initial  []any // values of the state type; only non-zero fields apply
	In, Out  reflect.Type
	Nodes    []*NodeSpec
	Edges    []EdgeSpec
	Joins    []JoinSpec
	Branches []*BranchSpec
	Defaults NodeSpec // options for nodes that do not set them
	Errs     []error  // found by the builder

	Was []string // previous names of the graph

	Storable bool // the state must be storable
	Strict   bool // warnings are errors

	// Workflow marks a workflow: the state consists of its input, its result, and
	// its saved value. Nothing accumulates, and streams show the result.
	Workflow bool

	StepLimit      int          // the default for runs
	MaxConcurrency int          // likewise
	Before         []string     // breakpoints before nodes, for every run; "*" means all nodes
	After          []string     // breakpoints after nodes, likewise
	Context        reflect.Type // of the run-scoped value, if declared
}

// FieldSpec is a field of a state.
type FieldSpec struct {
	Name string
	Type reflect.Type
	Tag  reflect.StructTag // of the struct field, for the JSON schema
}

// ReducerSpec is a reducer given to the builder.
type ReducerSpec struct {
	Field   string
	Reducer interface {
		Reduce(val, acc, update any, claim bool) (any, any, error)
		Start() (any, bool)
	}
	Type, Update reflect.Type
}

// EdgeSpec is an edge between two nodes.
type EdgeSpec struct{ From, To string }

// JoinSpec is an edge from several nodes to one that waits for all of them.
type JoinSpec struct {
	From []string
	To   string
}

// Destination is a node that control may reach, with a label for diagrams.
type Destination struct{ Node, Label string }

// BranchSpec is a branch after a node.
type BranchSpec struct {
	From string
	In   reflect.Type
	// Call appends the chosen targets to its last argument. in is a *In.
	Call  func(ctx context.Context, in any, to []Target) ([]Target, error)
	Dests []Destination // empty means any node
}

// NodeSpec is a node and its options.
type NodeSpec struct {
	Name     string
	Was      []string // previous names
	In, Out  reflect.Type
	Reads    []reflect.Type                                 // structs that the node reads in addition to In; see ReadOf
	Call     func(ctx context.Context, in any) (any, error) // in is In or *In; nil for a graph
	Fn       any                                            // the user's function, which Call calls
	Func     *Func                                          // identity of Fn, for a cached task
	Graph    *Plan                                          // the node is this graph
	Uses     []*Plan                                        // graphs run by Call
	Retry    []RetryPolicy
	Timeout  Timeout
	Cache    *CachePolicy
	Handler  *HandlerSpec
	Defer    bool
	Metadata map[string]any
	Tags     []string
	Dests    []Destination
	Handoff  []string // nodes of the parent graph
	Additive bool
	Keep     Keep // how Graph is saved
	Errs     []string
}

// Beyond returns the names of the options that are set, other than Retry, Timeout,
// IdleTimeout, HeartbeatOnly, Cache, and CacheBy, which apply to anything that runs.
func (n *NodeSpec) Beyond() []string {
	var names []string
	for _, o := range []struct {
		name string
		set  bool
	}{
		{"OnError", n.Handler != nil}, {"Defer", n.Defer}, {"Tags", n.Tags != nil}, {"Metadata", n.Metadata != nil}, {"Destinations", n.Dests != nil},
		{"Handoff", n.Handoff != nil}, {"Additive", n.Additive}, {"Was", n.Was != nil}, {"Uses", n.Uses != nil},
		{"PerThread", n.Keep == KeepThread}, {"NoCheckpoints", n.Keep == KeepNothing},
	} {
		if o.set {
			names = append(names, o.name)
		}
	}
	return names
}

// HandlerSpec is an error handler. It runs after a node's last attempt has failed.
type HandlerSpec struct {
	In, Out reflect.Type
	Call    func(ctx context.Context, in any, failure *NodeError) (any, error)
}

// Timeout bounds one attempt of a node.
type Timeout struct {
	Run           time.Duration // from its start
	Idle          time.Duration // from its last event or heartbeat
	HeartbeatOnly bool          // only Heartbeat resets Idle
}

func (t Timeout) isZero() bool { return t.Run == 0 && t.Idle == 0 }

// CachePolicy caches the results of a node.
type CachePolicy struct {
	TTL time.Duration
	In  reflect.Type        // the parameter of Key, if not nil
	Key func(in any) string // in is In or *In; nil: the input's JSON
}
