package treadle

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/treadletype"
)

// Options configure a compiled graph. The zero value, and a nil *Options, are
// the defaults.
type Options struct {
	// Saver keeps a checkpoint of every step of runs on a thread.
	Saver checkpoint.Saver
	// Codecs are how the saver is given values: the first one writes, all of
	// them read, and so does JSON, which also writes if there is no other. A
	// value says which codec wrote it, so a thread may be begun with one and
	// go on with another for as long as both are here; a value of a codec that
	// is not is a [*checkpoint.CodecError]. Questions, answers and the results
	// of tasks are JSON in any case, and so is what streams show.
	Codecs []checkpoint.Codec
	// SizeWarning is the size of a thread, in bytes, from which on the Logger
	// is told about it, and again each time it has doubled; 0 means 64 MiB, a
	// negative one means never. Nothing is ever deleted. It needs a saver that
	// is a [checkpoint.Sizer], as all of this module are.
	SizeWarning int64
	// Cache keeps results of nodes that have the option Cache. Without one the
	// saver is used if it can, else memory of the graph's own.
	Cache checkpoint.Cache
	// Store is what nodes remember things in across threads; see [StoreFrom]. A
	// nested graph uses that of the graph it is run in, if there is one.
	Store *store.Store
	// StepLimit bounds a run; 0 means 25. See [StepLimit].
	StepLimit int
	// MaxConcurrency bounds the nodes of a step that run at the same time; 0
	// means no bound.
	MaxConcurrency int
	// StepTimeout bounds each step as a whole; 0 means no bound.
	StepTimeout time.Duration
	// PutTimeout bounds how long the saver is waited for once the context of a
	// run is over, by a deadline or because it was cancelled; 0 means 10 seconds.
	// What a step has done is stored even then, so a run comes back at most this
	// long after its deadline, and its error names both. Before that a saver may
	// take as long as it needs: a run without a deadline waits for a slow database.
	PutTimeout time.Duration
	// Before and After are breakpoints of every run, inside another graph too;
	// see the options of the same names.
	Before, After []string
	// Was are names that the graph had before. A thread, and the state of a
	// nested graph, is of the graph whose name its checkpoints have, and no
	// other graph goes on with it or edits it, unless that name is one of these.
	Was []string
	// Strict makes Compile's warnings errors.
	Strict bool
	// Check makes a run fail when a node changes the input it was given. By
	// default, if it is nil, that is on under go test and off elsewhere.
	Check *bool
	// Logger is told what no caller can be told; nil means slog.Default().
	Logger *slog.Logger
}

// checks reports whether runs check that nodes leave their input alone.
func (o *Options) checks() bool {
	if o.Check != nil {
		return *o.Check
	}
	return underTest()
}

// underTest reports whether the program is a test. It asks for a flag of go test
// because importing package testing would link it into every program.
func underTest() bool { return flag.Lookup("test.v") != nil }

// A NodeOption configures a node.
type NodeOption interface{ node(*pregel.NodeSpec) }

// A RunOption configures a run; see [Graph.With].
type RunOption interface{ run(*pregel.Settings) }

// A CommonOption configures a node or a run.
type CommonOption interface {
	NodeOption
	RunOption
}

type nodeOption func(*pregel.NodeSpec)

func (f nodeOption) node(n *pregel.NodeSpec) { f(n) }

type runOption func(*pregel.Settings)

func (f runOption) run(s *pregel.Settings) { f(s) }

// RetryPolicy says when and how often a failed node is tried again. The zero
// policy makes three attempts at errors that are [treadletype.Transient].
type RetryPolicy = treadletype.RetryPolicy

// Retry tries a failed node again. Of several policies the first whose On
// accepts the error decides. Failures of the run itself, such as those of its
// saver, end it: no policy is asked about them.
func Retry(policies ...RetryPolicy) NodeOption {
	if policies == nil {
		policies = []RetryPolicy{{}}
	}
	return nodeOption(func(n *pregel.NodeSpec) { n.Retry = policies })
}

// Timeout bounds each attempt of a node. When it is over, the attempt's
// context is cancelled and whatever it still returns or emits is dropped; the
// failure is a [*treadletype.TimeoutError], which [Retry] tries again.
func Timeout(d time.Duration) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Timeout.Run = orBad(d) })
}

// IdleTimeout bounds how long a node may go without a sign of life: a custom
// event, a token, a nested graph starting, or [Heartbeat].
func IdleTimeout(d time.Duration) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Timeout.Idle = orBad(d) })
}

// HeartbeatOnly makes [Heartbeat] the only sign of life for [IdleTimeout].
func HeartbeatOnly() NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Timeout.HeartbeatOnly = true })
}

// orBad turns a timeout of zero into one that is rejected.
func orBad(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// OnError answers for a node that has failed for good: it is given the node's
// input and the failure, and what it returns is taken as the node's result.
// The node's own edges do not fire; the handler may return a [Goto]. On a thread
// the failure is stored first: if the handler asks something or fails as well,
// the thread goes on with the handler and the node is not tried again. Failures
// of the run itself, such as those of its saver, are not the node's: no handler is
// asked about them.
func OnError[In, Out any](handler func(context.Context, In, *NodeError) (Out, error)) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) {
		n.Handler = &pregel.HandlerSpec{In: reflect.TypeFor[In](), Out: reflect.TypeFor[Out]()}
		if handler != nil {
			n.Handler.Call = func(ctx context.Context, in any, failure *pregel.NodeError) (any, error) {
				return boxed(handler(ctx, unbox[In](in), failure))
			}
		}
	})
}

// Cache lets a node answer from an earlier result of the same function for the
// same input, for as long as ttl (0: for ever). Inputs are the same if their JSON
// is. Of the tasks of a run that are asked the same at the same time one runs and
// the others wait for its result; if it fails, the next one runs.
//
// A cache that outlives the process knows a function by the names of its graph,
// of its node and of itself. What else the result depends on, such as the
// function's code, is not seen: see [Graph.ClearCache] and [CacheBy]. Closures of
// one function literal all have one name, so they are told apart as long as the
// process runs, and results under a name that turns out to be that of several are
// dropped; give their graphs names of their own, or use CacheBy.
func Cache(ttl time.Duration) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Cache = &pregel.CachePolicy{TTL: ttl} })
}

// CacheBy is [Cache] with a key of one's own: results with the same key are the
// same, whatever function made them, for all graphs of this name that share the
// cache. So the key must tell apart all that makes a difference, such as the
// name of a model or a version of the code.
func CacheBy[In any](ttl time.Duration, key func(In) string) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) {
		n.Cache = &pregel.CachePolicy{TTL: ttl, In: reflect.TypeFor[In]()}
		if key != nil {
			n.Cache.Key = func(in any) string { return key(unbox[In](in)) }
		}
	})
}

// Defer keeps a node waiting until nothing else is left to run.
func Defer() NodeOption { return nodeOption(func(n *pregel.NodeSpec) { n.Defer = true }) }

// Destinations names the nodes that a node's goto may lead to, for drawings
// and for Compile's checks; it does not restrict the goto. Without it control
// may go anywhere and is drawn so.
func Destinations(nodes ...string) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Dests = append(n.Dests, plainDests(nodes)...) })
}

// Destination is [Destinations] for one node, with a label for drawings.
func Destination(node, label string) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Dests = append(n.Dests, pregel.Destination{Node: node, Label: label}) })
}

// Handoff says that a node may command the parent graph to go to the given
// nodes. What the command updates is checked against the parent's fields.
func Handoff(nodes ...string) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Handoff = append([]string{}, nodes...) })
}

// Additive says that a node's goto is meant to add to its static edges, which
// Compile otherwise warns about.
func Additive() NodeOption { return nodeOption(func(n *pregel.NodeSpec) { n.Additive = true }) }

// Uses says that a node's function runs the given graphs, so that drawings and
// state inspection see them.
func Uses(graphs ...AnyGraph) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) {
		for i, g := range graphs {
			if g == nil || isNilPointer(g) || g.compiled() == nil {
				n.Errs = append(n.Errs, fmt.Sprintf("Uses: graph %d of %d is nil, or was not made by Compile", i+1, len(graphs)))
				continue
			}
			n.Uses = append(n.Uses, g.compiled())
		}
	})
}

// Tags with a meaning.
const (
	// TagHidden keeps the results of a node or task out of the streams of
	// updates and tasks.
	TagHidden = "langsmith:hidden"
	// TagNoStream keeps the tokens of models out of streams. It may be a tag of a
	// node, of a run or of a model.
	TagNoStream = "nostream"
)

type both struct {
	nodeOption
	runOption
}

// Tags marks the events of a node or of a run, so that readers of a stream can
// select by them. Two tags have a meaning of their own: [TagHidden] and
// [TagNoStream].
func Tags(tags ...string) CommonOption {
	return both{
		func(n *pregel.NodeSpec) { n.Tags = append(n.Tags, tags...) },
		func(s *pregel.Settings) { s.Tags = append(slices.Clip(s.Tags), tags...) },
	}
}

// Metadata is attached to a node or to a run. It appears in events, and a
// run's also in its checkpoints.
func Metadata(data map[string]any) CommonOption {
	add := func(to map[string]any) map[string]any {
		out := make(map[string]any, len(to)+len(data))
		for _, m := range []map[string]any{to, data} {
			maps.Copy(out, m)
		}
		return out
	}
	return both{
		func(n *pregel.NodeSpec) { n.Metadata = add(n.Metadata) },
		func(s *pregel.Settings) { s.Metadata = add(s.Metadata) },
	}
}

// StepLimit bounds the number of steps of a run. The input counts as one and
// so does finding that nothing is left, so a chain of n nodes needs n+1.
// Reaching it is a [*treadletype.StepLimitError]; on a thread the state is kept.
func StepLimit(n int) RunOption {
	if n == 0 {
		n = -1
	}
	return runOption(func(s *pregel.Settings) { s.StepLimit = n })
}

// MaxConcurrency bounds the nodes of a step that run at the same time.
func MaxConcurrency(n int) RunOption {
	return runOption(func(s *pregel.Settings) { s.MaxConcurrency = n })
}

// Context gives a run a value that its nodes read with [ContextFrom]: a user id,
// a model to use. It is not stored. A json.RawMessage is decoded into the type
// that the graph declares with [ContextType].
func Context[C any](c C) RunOption { return runOption(func(s *pregel.Settings) { s.Context = c }) }

// Drain lets a run end early when done is closed: the step under way finishes
// and is stored, then the run returns [ErrDrained]. On a thread it can be
// continued.
func Drain(done <-chan struct{}) RunOption {
	return runOption(func(s *pregel.Settings) { s.Drain = done })
}

// Durability says when a run on a thread stores its steps. It is a [RunOption]. An
// error in storing a step is the run's error with every durability.
type Durability int

// The durabilities.
const (
	// Sync stores a step before the next one starts. Results of tasks that finish
	// while others of their step still run are stored meanwhile. It is the default.
	Sync Durability = iota
	// Async stores a step while the next one runs. A crash may lose the last
	// steps, which then run again. Calls of [Do] and tasks wait until the
	// checkpoint that they run from is stored, so their idempotency key is the
	// same after a crash; that of a node itself may change.
	Async
	// Exit stores once, when the run ends. A crash loses the run, and the run
	// that replaces it has other idempotency keys.
	Exit
)

func (d Durability) run(s *pregel.Settings) { s.Durability = pregel.Durability(d) }

// PerThread lets a nested graph keep its state for as long as the thread lives,
// instead of beginning afresh each time its node runs. It is an option of
// [AddGraph], and of [Graph.With] for a graph that a node calls. One state can
// go on only once at a time: on a thread, several tasks of one step that run
// the graph, such as sends to its node, are an error.
func PerThread() CommonOption {
	return keep(pregel.KeepThread)
}

// NoCheckpoints keeps a nested graph out of the parent's saver: it begins
// afresh whenever its node runs, and cannot be interrupted.
func NoCheckpoints() CommonOption {
	return keep(pregel.KeepNothing)
}

func keep(k pregel.Keep) both {
	return both{func(n *pregel.NodeSpec) { n.Keep = k }, func(s *pregel.Settings) { s.Keep = k }}
}

// RunID names a run; by default it has a random id.
func RunID(id string) RunOption { return runOption(func(s *pregel.Settings) { s.RunID = id }) }
