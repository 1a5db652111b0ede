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

// Options configures a compiled graph. The zero value and a nil *Options mean
// the defaults.
//
// StepLimit, MaxConcurrency, Before, and After are also run options, under one rule: a value
// in Options applies to every run of the graph, including runs as a subgraph, and a run
// option overrides it for its run.
type Options struct {
	// Saver saves a checkpoint of every step of runs on a thread.
	Saver checkpoint.Saver
	// Codecs encode the values of checkpoints. The first one writes; all of them
	// read. JSON can always be read, and is written if Codecs is empty. Each saved value
	// names its codec, so a thread may start with one codec and continue with
	// another as long as both are listed; reading a value whose codec is not listed returns a
	// [*checkpoint.CodecError]. Questions, answers, task results, and streams
	// are always JSON.
	Codecs []checkpoint.Codec
	// SizeWarning is the thread size in bytes at which Logger receives a
	// warning, followed by another warning each time the size doubles. 0 means 64 MiB; a
	// negative size disables the warning. Nothing is deleted. The saver must implement
	// [checkpoint.Sizer], as all savers of this module do.
	SizeWarning int64
	// Cache keeps the results of nodes with the option Cache. Nil means the
	// saver's cache, or a cache in memory if the saver has none.
	Cache checkpoint.Cache
	// Store keeps data across threads; [StoreFrom] returns it in a node. A
	// subgraph uses the store of its parent graph, if the parent graph has one.
	Store *store.Store
	// StepLimit limits the steps of a run; 0 means 25, or the parent graph's limit in a
	// subgraph. See the option [StepLimit].
	StepLimit int
	// MaxConcurrency limits the number of concurrent tasks of a step; 0 means no limit, or
	// the parent graph's limit in a subgraph. See the option [MaxConcurrency].
	MaxConcurrency int
	// StepTimeout is the timeout of each step as a whole; 0 means none.
	StepTimeout time.Duration
	// PutTimeout limits the wait for the saver after the run's context has ended;
	// 0 means 10 seconds. A finished step is saved even then, so a run
	// returns at most PutTimeout after its deadline, with an error that names both
	// causes. Before the deadline there is no limit: a run waits for a slow
	// database.
	PutTimeout time.Duration
	// Before and After list the nodes to stop at. See the options [Before] and [After].
	Before, After []NodeRef
	// Was lists previous names of the graph. A thread belongs to the graph named
	// in its checkpoints; a graph with another name can continue
	// or edit it only if it lists that name here. The same applies to the state
	// of a subgraph. For a renamed node, use the option [Was].
	Was []string
	// Strict turns Compile's warnings into errors.
	Strict bool
	// Check fails a run if a node modifies its input. Nil means enabled under
	// go test and disabled elsewhere.
	Check *bool
	// Logger receives warnings that cannot be returned to a caller; nil means
	// slog.Default(). [LoggerFrom] returns it in a node.
	Logger *slog.Logger
}

// underTest reports whether the program is a test. It looks up a flag of go test,
// because importing package testing would link it into every program. The flag is
// defined once main has started, so a graph in a package variable must call underTest
// when it runs, not when it is compiled.
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

// A RetryPolicy controls when and how often a failed node or task is retried. Zero fields
// mean the defaults. It is the argument of [Retry]. See [treadletype.RetryPolicy].
//
//	Initial  time.Duration
//	Factor   float64
//	Max      time.Duration
//	Attempts int
//	NoJitter bool
//	On       func(error) bool
//	func (p RetryPolicy) Retryable(err error) bool
//	func (p RetryPolicy) Wait(attempt int) (time.Duration, bool)
//
// Fields:
//   - Initial is the wait after the first failure; 500ms by default.
//   - Factor is the growth factor of the wait; 2 by default.
//   - Max is the maximum wait, excluding jitter; 128s by default.
//   - Attempts is the number of attempts, including the first; 3 by default.
//   - NoJitter disables the jitter of up to a second added to each wait.
//   - On reports whether to retry after an error; [Transient] by default.
type RetryPolicy = treadletype.RetryPolicy

// Retry retries a failed node. If there are several policies, the first whose On
// accepts the error applies. Failures of the run itself, such as saver errors,
// are not retried.
func Retry(policies ...RetryPolicy) NodeOption {
	if policies == nil {
		policies = []RetryPolicy{{}}
	}
	return nodeOption(func(n *pregel.NodeSpec) { n.Retry = policies })
}

// Timeout limits the duration of each attempt of a node. When it expires, the attempt's
// context is canceled, and anything the attempt still returns or emits is dropped. The
// attempt fails with a [*TimeoutError], which [Retry] retries.
func Timeout(d time.Duration) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Timeout.Run = orBad(d) })
}

// IdleTimeout limits the time that a node may run without a sign of life: a custom
// event, a token, the start of a subgraph, or a call to [Heartbeat].
func IdleTimeout(d time.Duration) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Timeout.Idle = orBad(d) })
}

// HeartbeatOnly makes [Heartbeat] the only sign of life for [IdleTimeout].
func HeartbeatOnly() NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Timeout.HeartbeatOnly = true })
}

// orBad turns a zero timeout into an invalid one, which Compile rejects.
func orBad(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// OnError handles the failure of a node after its retries. The handler receives the
// node's input and the failure, and its result replaces the node's result. The node's
// edges are not followed; the handler may return a [Goto]. On a thread, the
// failure is saved first: if the handler asks a question or fails too, the thread
// continues with the handler, and the node does not run again. Failures of the run
// itself, such as saver errors, do not reach the handler.
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

// Cache reuses the result of an earlier call of the same function with the same
// input, for up to ttl; 0 means forever. Two inputs are the same if their JSON is.
// If several concurrent tasks of a run have the same input, one of them runs
// and the others wait for its result; if it fails, the next one runs.
//
// A cache that outlives the process identifies a function by its name and by the names
// of its graph and node. It does not detect changes to the function's code or to
// anything else that the result depends on: use [Graph.ClearCache] or [CacheBy].
// Closures of one function literal share a name. Within a process they are kept apart, but
// results that an earlier process saved under a shared name are dropped. Give their graphs
// different names, or use CacheBy.
func Cache(ttl time.Duration) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Cache = &pregel.CachePolicy{TTL: ttl} })
}

// CacheBy is like [Cache], but with a custom key: a result is reused for every
// input with the same key, by all nodes of graphs with this name that share the
// cache. The key must contain everything that the result depends on, such as the
// model name or a code version.
func CacheBy[In any](ttl time.Duration, key func(In) string) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) {
		n.Cache = &pregel.CachePolicy{TTL: ttl, In: reflect.TypeFor[In]()}
		if key != nil {
			n.Cache.Key = func(in any) string { return key(unbox[In](in)) }
		}
	})
}

// Defer delays a node until no other node is scheduled.
func Defer() NodeOption { return nodeOption(func(n *pregel.NodeSpec) { n.Defer = true }) }

// Destinations lists the nodes that a node's goto may lead to, for diagrams and for
// the checks of Compile. A destination may have a [Label]. Destinations does not restrict the
// goto. Without it, diagrams show edges to every node.
func Destinations(nodes ...NodeRef) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Dests = append(n.Dests, destsOf(nodes)...) })
}

// Handoff declares that a node may return a [Command] for the parent graph that
// goes to the given nodes. The command's update is checked against the parent graph's
// fields.
func Handoff(nodes ...NodeRef) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Handoff = append([]string{}, namesOf(nodes)...) })
}

// Additive declares that a node has both a goto and static edges on purpose.
// Without it, Compile warns about the combination.
func Additive() NodeOption { return nodeOption(func(n *pregel.NodeSpec) { n.Additive = true }) }

// Was lists previous names of a renamed node. A thread that was saved before the
// renaming continues with the node: its pending tasks keep their results, recorded
// calls, and interrupts. A [Goto], [AsNode], or breakpoint may also use a previous
// name; edges may not. Snapshots show the names that a checkpoint contains.
func Was(names ...string) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) { n.Was = append(n.Was, names...) })
}

// Uses declares that a node's function runs the given graphs, so that diagrams
// and snapshots include them.
func Uses(graphs ...AnyGraph) NodeOption {
	return nodeOption(func(n *pregel.NodeSpec) {
		for i, g := range graphs {
			if g == nil || isNilPointer(g) || g.graph().plan == nil {
				n.Errs = append(n.Errs, fmt.Sprintf("Uses: graph %d of %d is nil or was not created by Compile", i+1, len(graphs)))
				continue
			}
			n.Uses = append(n.Uses, g.graph().plan)
		}
	})
}

// Tags with a special meaning.
const (
	// TagHidden omits the results of a node or task from update and task
	// streams.
	TagHidden = "langsmith:hidden"
	// TagNoStream omits model tokens from streams. It may be a tag of a
	// node, a run, or a model.
	TagNoStream = "nostream"
)

type both struct {
	nodeOption
	runOption
}

// Tags adds tags to the events of a node or run, so that readers of a stream can
// filter by them. Two tags have a special meaning: [TagHidden] and
// [TagNoStream].
func Tags(tags ...string) CommonOption {
	return both{
		func(n *pregel.NodeSpec) { n.Tags = append(n.Tags, tags...) },
		func(s *pregel.Settings) { s.Tags = append(slices.Clip(s.Tags), tags...) },
	}
}

// Metadata adds data to the events of a node or run. The metadata of a run is also
// saved in its checkpoints.
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

// StepLimit limits the number of steps of a run, in place of [Options].StepLimit. The last
// step, which finds no scheduled node, counts too, so a chain of n nodes needs a limit of
// n+1. A run that reaches the limit fails with a [*StepLimitError]; on a thread, the state
// is kept. The run returns an error if n is less than 1.
func StepLimit(n int) RunOption {
	if n == 0 {
		n = pregel.ZeroStepLimit
	}
	return runOption(func(s *pregel.Settings) { s.StepLimit = n })
}

// MaxConcurrency limits the number of concurrent tasks of a step, in place of
// [Options].MaxConcurrency; 0 means no limit.
func MaxConcurrency(n int) RunOption {
	return runOption(func(s *pregel.Settings) { s.MaxConcurrency = n })
}

// Context passes a value to a run, such as a user ID or a model name; nodes read it with
// [ContextFrom]. It is not saved. A json.RawMessage is decoded into the type
// that the graph declares with [ContextType].
func Context[C any](c C) RunOption { return runOption(func(s *pregel.Settings) { s.Context = c }) }

// Drain ends a run early when done is closed: the current step finishes and is
// saved, then the run returns [ErrDrained]. A run on a thread can be continued.
func Drain(done <-chan struct{}) RunOption {
	return runOption(func(s *pregel.Settings) { s.Drain = done })
}

// Durability controls when a run on a thread saves its steps. It is a [RunOption]. At
// every level, a run fails if a step cannot be saved.
type Durability int

// Durability levels.
const (
	// Sync saves a step before the next one starts. The result of a task that finishes
	// before the other tasks of its step is saved at once. Sync is the default.
	Sync Durability = iota
	// Async saves a step while the next one runs. A crash may lose the last
	// steps, which then run again. Calls to [Do] and tasks wait until the
	// checkpoint that they run from is saved, so their idempotency key is the
	// same after a crash; the idempotency key of a node may change.
	Async
	// Exit saves once, when the run ends. A crash loses the run, and the run
	// that replaces it has different idempotency keys.
	Exit
)

func (d Durability) run(s *pregel.Settings) { s.Durability = pregel.Durability(d) }

// PerThread keeps the state of a subgraph for as long as the thread exists,
// instead of starting from scratch each time its node runs. It is an option of [AddGraph],
// and of [Graph.With] for a graph that a node calls. The run fails if several tasks of a
// step run the subgraph, for example after several sends to its node.
func PerThread() CommonOption {
	return keep(pregel.KeepThread)
}

// NoCheckpoints saves no state of a subgraph: it starts from scratch whenever its node
// runs, and it cannot be interrupted.
func NoCheckpoints() CommonOption {
	return keep(pregel.KeepNothing)
}

func keep(k pregel.Keep) both {
	return both{func(n *pregel.NodeSpec) { n.Keep = k }, func(s *pregel.Settings) { s.Keep = k }}
}

// RunID sets the ID of a run; the default is a random ID.
func RunID(id string) RunOption { return runOption(func(s *pregel.Settings) { s.RunID = id }) }
