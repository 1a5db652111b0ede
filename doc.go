// Package treadle runs stateful agents and workflows as graphs.
//
// # Start here
//
// These names are enough for a first program:
//
//   - [New] returns a [Builder] for a graph with a given state.
//   - [AddNode] adds a function as a node and returns its handle, a [Node].
//   - [Builder.Edge] connects two nodes, [Start], or [End].
//   - [AddBranch] calls a function that chooses the next nodes, with [To].
//   - [Builder.Compile] checks the graph and returns a [Graph].
//   - [Graph.Run] runs it, and [Graph.Stream] also yields its events.
//   - [Graph.Thread] returns a [Thread], whose runs are saved with [Options].Saver.
//   - [Interrupt] asks a person a question, and [Thread.Resume] answers it.
//
// Options follow one rule. A pointer to a struct configures construction, as [Options] does
// for Compile, or a call with a fixed set of options, as [HistoryOptions] does; nil means the
// defaults. Functional values configure a call that is variadic by nature, such as a
// [NodeOption] for AddNode or a [RunOption] for [Graph.With].
//
// # Model
//
// A graph consists of a state, which is a struct, nodes, which are functions, and edges,
// which determine the node that runs next. The graph runs in steps. All nodes scheduled for a
// step run concurrently, each on the state as of the start of the step. Their writes are then
// merged into the state in a fixed order, and the nodes that follow them are scheduled for the
// next step. The run ends when no node is scheduled. The model comes from LangGraph and
// Pregel; docs/parity/names.md maps LangGraph's names to Treadle's.
//
// The compiler checks the types that a node function, a task, or an interrupt takes and
// returns, and the handles in edges. Compile checks the fields of node inputs and outputs
// against the state.
//
// # State
//
// Each exported field of the state is a channel that nodes write to. A write
// replaces the value, unless the field's type has a method Reduce that merges the
// update into the value:
//
//	type State struct {
//		Topic string              // the last value wins
//		Jokes reduce.List[string] // has a method Reduce: updates append
//	}
//
// Package reduce provides lists, sets, maps, sums, and maxima. A node writes
// a sum with reduce.SumOf(1), and reads it as s.Total.N. A custom type needs a
// method Reduce(U) T or Reduce(U) (T, error), where U is the type of updates and
// may be T itself. [Reduce] sets the reducer of a field whose type lacks the method. If two
// nodes write a field without a reducer in the same step, the run fails with a
// [*ConflictError]. [Overwrite] replaces the value of a field with a reducer.
//
// An input is an update, like the result of a node. If the input has the type of
// the state, its zero fields are not written. Such an input cannot set a field whose
// updates have a different type (U is not T): a non-zero value causes an
// [*UpdateError]. Use [Compile] with an input type whose field is a U.
//
// Streams and savers use a field's JSON name, from its json tag; Go code uses its
// Go name. The fields of embedded structs are fields of the state. Tags control
// the lifetime of a value and record its previous name:
//
//	Query string `treadle:"ephemeral"` // removed after the step that follows the write
//	Conn  *Conn  `treadle:"untracked"` // never saved
//	Body  string `treadle:"was=text"`  // read from the old name in old checkpoints
//
// A field that was never written is absent, which differs from zero: nodes
// read its zero value, but streams and snapshots omit it, and [Record.Has]
// distinguishes the two. A field with a reducer is present from the start with its
// zero value, except for reduce.Max, which has no value before its first update.
// [Builder.Initial] sets the starting values of a new run or thread. If a type has a
// method Validate() error, it is called for every input and every commit.
//
// The state may also be a single value, New[reduce.List[string]], or a map whose
// fields are declared at run time: New[Update] with [AddField].
//
// # Nodes
//
// A node takes the fields it reads and returns the fields it writes:
//
//	type told struct{ Jokes reduce.List[string] }
//
//	func tell(ctx context.Context, s State) (told, error) {
//		return told{reduce.List[string]{"A joke about " + s.Topic}}, nil
//	}
//
//	b := treadle.New[State]("jokes")
//	joke := treadle.AddNode(b, "joke", tell)
//
// [AddNode] infers its type arguments. Every field of the result is written, even
// if it is zero. A pointer is an optional write, of one field or of the whole
// result. A node may return the whole state only if no field has a reducer, because
// it would otherwise append every list to itself. A node may also return an
// [Update], a map that is checked at run time.
//
// A node may read a struct with some of the fields. A field that is not part of the state
// is a private channel between the nodes that name it. Nodes share the values
// that they read and must not modify them. Appending to a
// slice is safe, because slices have no spare capacity. Under go test, a node
// that modifies its input fails with a [*MutationError]; see
// [Options].Check.
//
// Node options are values: [Retry], [Timeout], [IdleTimeout], [OnError],
// [Cache], [CacheBy], [Defer], [Destinations], [Tags], [Metadata], and others.
// [Builder.Defaults] sets some of them for all nodes.
//
// # Edges
//
//	b.Edge(treadle.Start, plan)                               // plan runs first
//	b.Edge(plan, write)                                       // write runs after plan
//	b.Join([]any{write, check}, publish)                      // after both have run, in any steps
//	treadle.AddBranch(b, publish, again, plan, treadle.End)   // a function decides
//
// The nodes are the handles that AddNode returns, so a misspelled node does not compile.
// Their names work too: b.Edge("plan", "write").
//
// A branch is a function that takes the state and returns a [Goto]. It sees the writes of
// its own node, but not those of the other nodes in the step. A
// node runs once per step, even if several edges lead to it. [Builder.Compile] checks
// the graph and reports all problems together, as joined errors of type [*BuildError];
// [Graph.Warnings] lists possible mistakes.
//
// # Control
//
// A node can choose the next nodes itself by returning a [Goto], or a struct with
// a field of that type. [To] schedules nodes that read the state. [Send] starts a task
// with its own input, whose type the compiler checks. [SendEach] sends each item of a list
// to the same node, which is a map-reduce:
//
//	joke := treadle.AddNode(b, "joke", tell) // tell takes a subject
//	return treadle.SendEach(joke, state.Subjects), nil
//
// With no items, no task runs, so neither does the node after it: return
// treadle.To(best) in that case.
//
// A goto adds to the node's static edges. A [Command] combines an update and a goto.
// A run fails with a [*StepLimitError] after 25 steps, or after the number set by [StepLimit]
// or [Options].StepLimit.
//
// # Subgraphs
//
// [AddGraph] adds a compiled graph as a node of another graph. The subgraph reads the fields
// that both graphs declare, and its nodes' updates of those fields also apply to the
// parent graph. Calling g.Run inside a node also runs g as a subgraph; [Uses] makes it visible in
// diagrams. A command with Parent set goes to the parent graph; the node declares that with
// [Handoff].
//
// On a thread, a subgraph continues where it stopped when its node runs again: after
// an answer, when the thread is continued, and when [Retry] reruns the node.
// It starts from scratch only if an attempt calls it with a different input than the
// previous attempt.
//
// # Threads
//
// A graph with [Options].Saver supports threads. A thread keeps a checkpoint of every
// step:
//
//	g, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})
//	thread := g.Thread("essay-7")
//	out, err := thread.Run(ctx, State{Topic: "owls"})
//	out, err = thread.Continue(ctx) // after an error: finished tasks do not run again
//	snap, err := thread.State(ctx)
//
// [Thread.History] yields the checkpoints, newest first. [Thread.At] selects an older
// checkpoint: calling Continue there reruns the steps after it as a fork. [Thread.Update]
// edits the state as if a node had written it. If two runs use
// a thread at the same time, the second to save a step fails with
// checkpoint.ErrConflict. A thread belongs to the graph that created it, by name, and
// rejects other graphs; [Options].Was lists previous names of a renamed graph. A run
// without a thread saves nothing.
//
// A step is saved before the next step starts. [Async] and [Exit] are faster and
// guarantee less. The checkpoints of a subgraph have their own namespace and
// last as long as its node runs; [PerThread] and [NoCheckpoints] change that.
//
// # Interrupts
//
// A node can ask a person a question and wait for days:
//
//	ok, err := treadle.Interrupt[bool](ctx, "publish "+s.Title+"?")
//	if err != nil {
//		return published{}, err
//	}
//
// The run then ends with an [*InterruptError] that lists the pending interrupts.
// [Thread.Resume] answers them: the node runs again from the top, and Interrupt returns
// the answer. Tasks of the same step that had finished do not run again. Branches can
// ask questions too. [Before] and [After] set breakpoints at nodes; [Thread.Continue]
// continues past them.
//
// # Time
//
// A node can wait for a time or for a signal, for seconds or months, without holding a
// goroutine:
//
//	err := treadle.Sleep(ctx, 72*time.Hour)
//	paid, err := treadle.WaitFor[Payment](ctx, "payment", &treadle.WaitOptions{Deadline: t, OnTimeout: Payment{}})
//
// [Thread.Signal] sends a signal, and [Thread.Signals] lists the signals that no node has
// taken. [Wake], or the server, continues threads when their
// wait is over, and [Graph.Unfinished] lists the threads that a crash interrupted.
// A [Question] may have a deadline too. See docs/time.md.
//
// # Workflows
//
// A graph can also be a plain function. The results of its calls to [Task.Run] and [Do] are
// recorded: when the function runs again, after an answer or a failure, each call returns its
// recorded result.
//
//	var fetch = treadle.NewTask("fetch", get, treadle.Retry())
//
//	func report(ctx context.Context, urls []string) (string, error) {
//		a, b := fetch.Go(ctx, urls[0]), fetch.Go(ctx, urls[1]) // both at once
//		...
//	}
//
//	g, err := treadle.NewWorkflow("report", report, &treadle.Options{Saver: saver})
//
// Calls are matched by their order, so a value that affects the order and may change, such
// as the time, must itself come from a task. [PreviousFrom] returns the result of the previous
// run on the thread.
//
// # Streams
//
// [Graph.Stream] and [Thread.Stream] run the graph and yield events as they happen:
//
//	for ev, err := range g.Stream(ctx, in, treadle.Modes(treadle.ModeUpdates, treadle.ModeCustom)) {
//		switch ev := ev.(type) {
//		case treadle.Updated: // what a node wrote
//		case treadle.Custom: // what a node sent with Emit
//		case treadle.Finished[State]: // the last event
//		}
//	}
//
// Leaving the loop cancels the run and waits for it to end. [Subgraphs] adds the
// events of subgraphs; values sent with [Emit] arrive from any depth. Package
// dynamic encodes events in the format of LangGraph's streams.
//
// # Errors
//
// A node failure is reported as a [*NodeError] that wraps the node's error, so errors.Is and
// errors.As find both. The other tasks of the step are canceled; on a thread,
// the results of finished tasks are kept. A panic becomes a NodeError with a
// stack trace. [Retry] reruns a node after a transient error (see [Transient]); [OnError]
// handles the failure of a node after its last attempt. A failed run returns the state so far
// together with the error. docs/errors.md lists all errors and their remedies.
//
// # Context
//
// A node's ctx is canceled when the run is canceled, when another task of the step
// fails, and when the node's timeout expires. It also gives access to the run: [InfoFrom]
// describes it, [ContextFrom] returns the value passed with
// [Context], [StoreFrom] returns the store, whose items outlive threads, [LoggerFrom] returns the
// logger, and [Emit] and [Heartbeat] report progress. Run options are bound to the
// graph, not passed with the input:
//
//	out, err := g.With(treadle.Context(user), treadle.StepLimit(50)).Run(ctx, in)
//
// # Graphs without Go types
//
// An [AnyGraph] is a graph of any type. Package dynamic runs it with JSON input and output, for
// servers and command-line tools. [Graph.Schemas] returns the JSON schemas and [Graph.Shape] the
// diagram.
package treadle
