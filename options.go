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
	// Saver stores a checkpoint of every step of runs on a thread.
	Saver checkpoint.Saver
	// Codecs encode the values of checkpoints. The first one writes; all of them
	// read. JSON always reads, and writes if there is no codec. Each stored value
	// names its codec, so a thread may begin with one codec and go on with
	// another as long as both are listed; a value whose codec is not listed is a
	// [*checkpoint.CodecError]. Questions, answers, results of tasks and streams
	// are always JSON.
	Codecs []checkpoint.Codec
	// SizeWarning is the size of a thread in bytes at which the Logger gets a
	// warning, and another one each time the size has doubled. 0 means 64 MiB; a
	// negative size means no warning. Nothing is deleted. The saver must be a
	// [checkpoint.Sizer], as all savers of this module are.
	SizeWarning int64
	// Cache keeps results of nodes that have the option Cache. If it is nil, the
	// saver's cache is used, or one in memory if the saver has none.
	Cache checkpoint.Cache
	// Store keeps data across threads; nodes get it with [StoreFrom]. A nested
	// graph uses the store of the graph around it, if that has one.
	Store *store.Store
	// StepLimit bounds a run; 0 means 25. See [StepLimit].
	StepLimit int
	// MaxConcurrency bounds the tasks of a step that run at the same time; 0
	// means no bound.
	MaxConcurrency int
	// StepTimeout bounds each step as a whole; 0 means no bound.
	StepTimeout time.Duration
	// PutTimeout bounds the wait for the saver after the run's context has ended;
	// 0 means 10 seconds. A step that has finished is stored even then, so a run
	// returns at most PutTimeout after its deadline, with an error that names both
	// causes. Before the deadline there is no bound: a run waits for a slow
	// database.
	PutTimeout time.Duration
	// Before and After are breakpoints of every run, also of nested runs; see
	// the options [Before] and [After].
	Before, After []string
	// Was lists earlier names of the graph. A thread belongs to the graph whose
	// name is in its checkpoints; a graph with another name can neither continue
	// nor edit it, unless it lists that name here. The same holds for the state
	// of a nested graph.
	Was []string
	// Strict turns Compile's warnings into errors.
	Strict bool
	// Check makes a run fail when a node changes the input it was given. By
	// default, if it is nil, that is on under go test and off elsewhere.
	Check *bool
	// Logger receives warnings that cannot be returned to a caller; nil means
	// slog.Default().
	Logger *slog.Logger
}

// underTest reports whether the program is a test. It asks for a flag of go test,
// because importing package testing would link it into every program. The flag is
// there once main has begun, so the answer for a graph that is a global variable is
// known when it runs, not when it is compiled.
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
// policy makes three attempts at errors that are [Transient].
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

// Timeout bounds each attempt of a node. When the time is over, the attempt's
// context is cancelled, and whatever it still returns or emits is dropped. The
// failure is a [*TimeoutError], which [Retry] tries again.
func Timeout(d time.Duration) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Timeout.Run = orBad(d) })
}

// IdleTimeout bounds how long a node may run without a sign of life: a custom
// event, a token, the start of a nested graph, or a call of [Heartbeat].
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

// OnError handles the failure of a node after its retries. The handler gets the
// node's input and the failure, and its result replaces the node's. The edges that
// leave the node are not followed; the handler may return a [Goto]. On a thread the
// failure is stored first: if the handler asks a question or fails too, the thread
// goes on with the handler and the node does not run again. Failures of the run
// itself, such as those of its saver, do not reach the handler.
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

// Cache reuses the result of an earlier run of the same function with the same
// input, for up to ttl; 0 means for ever. Two inputs are the same if their JSON is.
// If several tasks of a run have the same input at the same time, one of them runs
// and the others wait for its result; if it fails, the next one runs.
//
// A cache that outlives the process identifies a function by its name and by those
// of its graph and node. It does not notice a change of the function's code or of
// anything else that the result depends on: use [Graph.ClearCache] or [CacheBy].
// Closures of one function literal share one name. Within a process they are kept
// apart, and results under a name that several closures turn out to share are
// dropped. Give their graphs different names, or use CacheBy.
func Cache(ttl time.Duration) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Cache = &pregel.CachePolicy{TTL: ttl} })
}

// CacheBy is [Cache] with a key that you compute: a result is reused for every
// input with the same key, by all nodes of graphs with this name that share the
// cache. The key must contain everything that the result depends on, such as the
// name of a model or a version of the code.
func CacheBy[In any](ttl time.Duration, key func(In) string) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) {
		n.Cache = &pregel.CachePolicy{TTL: ttl, In: reflect.TypeFor[In]()}
		if key != nil {
			n.Cache.Key = func(in any) string { return key(unbox[In](in)) }
		}
	})
}

// Defer makes a node wait until nothing else is left to run.
func Defer() NodeOption { return nodeOption(func(n *pregel.NodeSpec) { n.Defer = true }) }

// Destinations names the nodes that a node's goto may lead to, for drawings and for
// the checks of Compile. It does not restrict the goto. Without it the goto is drawn
// as leading to every node.
func Destinations(nodes ...string) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Dests = append(n.Dests, plainDests(nodes)...) })
}

// Destination is [Destinations] for one node, with a label for drawings.
func Destination(node, label string) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Dests = append(n.Dests, pregel.Destination{Node: node, Label: label}) })
}

// Handoff declares that a node may return a [Command] for the parent graph that
// goes to the given nodes. The command's update is checked against the fields of the
// parent.
func Handoff(nodes ...string) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Handoff = append([]string{}, nodes...) })
}

// Additive declares that a node has both a goto and static edges on purpose.
// Without it Compile warns about such a node.
func Additive() NodeOption { return nodeOption(func(n *pregel.NodeSpec) { n.Additive = true }) }

// Uses declares that a node's function runs the given graphs, so that drawings
// and snapshots include them.
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

// Metadata adds data to the events of a node or of a run. That of a run is also
// stored in its checkpoints.
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

// StepLimit bounds the number of steps of a run. The step in which a run finds that
// nothing is left to do counts too, so a chain of n nodes needs a limit of n+1.
// Reaching the limit is a [*StepLimitError]; on a thread the state is kept.
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

// Drain ends a run early when done is closed: the current step finishes and is
// stored, then the run returns [ErrDrained]. On a thread it can be continued.
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

// PerThread lets a nested graph keep its state for as long as the thread exists,
// instead of starting anew each time its node runs. It is an option of [AddGraph],
// and of [Graph.With] for a graph that a node calls. On a thread, only one task of a
// step may run such a graph: several, for example several sends to its node, are an
// error.
func PerThread() CommonOption {
	return keep(pregel.KeepThread)
}

// NoCheckpoints stores nothing of a nested graph: it starts anew whenever its node
// runs, and it cannot be interrupted.
func NoCheckpoints() CommonOption {
	return keep(pregel.KeepNothing)
}

func keep(k pregel.Keep) both {
	return both{func(n *pregel.NodeSpec) { n.Keep = k }, func(s *pregel.Settings) { s.Keep = k }}
}

// RunID names a run; by default it has a random id.
func RunID(id string) RunOption { return runOption(func(s *pregel.Settings) { s.RunID = id }) }
