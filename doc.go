// Package treadle runs stateful agents and workflows as graphs.
//
// A graph has a state, which is a struct, and nodes, which are functions. Edges
// say which node runs after which. The graph runs in steps. In a step all nodes
// that are due run at the same time, each on the state as it was before the step.
// Then their writes are merged into the state in a fixed order, and the nodes that
// follow them are due next. The run ends when no node is due. The model is that of
// LangGraph and, before it, of Pregel; docs/parity/names.md maps LangGraph's names to
// these.
//
// # State
//
// The state is a struct. Each exported field is a channel that nodes write to. A
// write replaces the value, unless the field's type has a method Reduce, which
// then merges the update into the value:
//
//	type State struct {
//		Topic string              // the last value wins
//		Jokes reduce.List[string] // has a method Reduce: updates append
//	}
//
// Package reduce has lists, sets, maps, sums and maxima. A type of your own needs a
// method Reduce(U) T or Reduce(U) (T, error), where U is the type of updates and
// may be T itself. [Reduce] gives a reducer to a field whose type has none. If two
// nodes of one step write a field that has no reducer, the run fails with a
// [*ConflictError]. [Overwrite] replaces the value of a field that
// accumulates.
//
// An input is an update like those that nodes return. If it has the state's type,
// its zero fields are not written. A field whose updates have another type than the
// state (U is not T) cannot be set by such an input: a non-zero value is a
// [*UpdateError]. [Compile] takes an input type whose field is a U.
//
// Streams and storage use a field's JSON name, from its json tag; Go code uses its
// Go name. The fields of embedded structs count as fields of the state. Tags say
// how long a value lives and which name it had before:
//
//	Query string `treadle:"ephemeral"` // gone after the step that follows the write
//	Conn  *Conn  `treadle:"untracked"` // never stored
//	Body  string `treadle:"was=text"`  // read from the old name in old checkpoints
//
// A field that was never written is absent, which is not the same as zero: nodes
// read its zero value, but streams and snapshots leave it out, and [Record.Has]
// tells the two apart. A field that accumulates is present from the start with its
// zero value, except a reduce.Max, which has no value before its first update.
// [Builder.Initial] gives a new run or thread its starting values. If a type has a
// method Validate() error, it is called for every input and every commit.
//
// The state may also be a single value, New[reduce.List[string]], or a map whose
// fields are declared at run time: New[Update] with [AddField].
//
// # Nodes
//
// A node takes what it reads and returns what it writes:
//
//	type told struct{ Jokes reduce.List[string] }
//
//	func tell(ctx context.Context, s State) (told, error) {
//		return told{reduce.List[string]{"A joke about " + s.Topic}}, nil
//	}
//
//	b := treadle.New[State]("jokes")
//	treadle.AddNode(b, "tell", tell)
//
// [AddNode] infers its type arguments. Every field of the result is written, even
// if it is zero. A pointer is an optional write, of one field or of the whole
// result. A node may return the whole state only if no field accumulates, because
// it would append every list to itself. [Update] is a map instead of a struct; it is
// checked when the node returns it.
//
// A node may read a struct of some of the fields. A field that the state does not
// have is a private channel between the nodes that name it. The values that a node
// reads are shared with others and must not be changed in place. Appending to a
// slice is safe, because slices come without spare capacity. Under go test a node
// that changes its input fails with a [*MutationError]; see
// [Options].Check.
//
// Options of a node are values: [Retry], [Timeout], [IdleTimeout], [OnError],
// [Cache], [CacheBy], [Defer], [Destinations], [Tags], [Metadata] and others.
// [Builder.Defaults] sets some of them for all nodes.
//
// # Edges
//
//	b.Edge(treadle.Start, "plan")                   // plan runs first
//	b.Edge("plan", "write")                         // write runs after plan
//	b.Join([]string{"write", "check"}, "publish")   // after both have run, in whichever steps
//	b.Branch("publish", again, "plan", treadle.End) // a function decides
//	treadle.Switch(b, "plan", long, map[bool]string{true: "trim", false: "write"})
//
// A branch is a function of the state that returns a [Goto]. It sees the state with
// the writes of its own node and without those of the other nodes of the step. A
// node that several edges lead to in one step runs once. [Builder.Compile] checks
// the graph and reports all problems together, as [*BuildError]s;
// [Graph.Warnings] has what may be a mistake.
//
// # Control
//
// A node may decide itself where control goes: it returns a [Goto], or a struct with
// a field of that type. [To] goes to nodes that read the state. [Send], and
// [Node.Send], which the compiler checks, start a task with an input of its own. One
// send for each item of a list is a map-reduce.
//
//	joke := treadle.AddNode(b, "joke", tell) // tell takes a subject
//	var next treadle.Goto
//	for _, s := range state.Subjects {
//		next = append(next, joke.Send(subject{s})...)
//	}
//
// The goto adds to the node's static edges. [Command] is an update and a goto in
// one. A run takes at most 25 steps unless [StepLimit] or [Options].StepLimit says
// otherwise; reaching the limit is a [*StepLimitError].
//
// # Nested graphs
//
// [AddGraph] makes a compiled graph a node of another graph. It reads the fields
// that the two share and passes its nodes' updates of those fields to the outer
// graph. Calling g.Run inside a node nests the run as well; [Uses] lets drawings see
// it. A command with Parent set goes to the outer graph; the node declares that with
// [Handoff].
//
// On a thread, a nested graph goes on where it was when its node runs again: after
// an answer, when the thread is continued, and in a second attempt of a node with
// [Retry]. It starts anew only if an attempt calls it with another input than the
// attempt before.
//
// # Threads
//
// A graph with [Options].Saver has threads. A thread keeps a checkpoint of every
// step:
//
//	g, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})
//	thread := g.Thread("essay-7")
//	out, err := thread.Run(ctx, State{Topic: "owls"})
//	out, err = thread.Continue(ctx) // after an error: finished tasks do not run again
//	snap, err := thread.State(ctx)
//
// [Thread.History] yields the checkpoints, newest first. [Thread.At] goes back to
// one: Continue on it runs the steps after it again, as a new branch beside the old
// one. [Thread.Update] edits the state as if a node had written it. If two runs use
// one thread at the same time, the one that stores second fails with
// checkpoint.ErrConflict. A thread belongs to the graph that began it, by name, and
// other graphs are refused; [Options].Was is for a graph that was renamed. A run
// without a thread stores nothing.
//
// A step is stored before the next one starts. [Async] and [Exit] are faster and
// promise less. The checkpoints of a nested graph have a namespace of their own and
// count for as long as its node runs; [PerThread] and [NoCheckpoints] change that.
//
// # Questions
//
// A node may ask a person and wait for days:
//
//	ok, err := treadle.Interrupt[bool](ctx, "publish "+s.Title+"?")
//	if err != nil {
//		return published{}, err
//	}
//
// The run then ends with an [*InterruptError], which holds the open questions.
// [Thread.Resume] answers: the node runs again from its top, and Interrupt returns
// the answer. Tasks that had finished in the same step do not run again. A branch may
// ask too. [Before] and [After] are breakpoints at nodes; [Thread.Continue] passes
// them.
//
// # Time
//
// A node can wait for a time or for a signal, with nothing running
// meanwhile:
//
//	err := treadle.Sleep(ctx, 72*time.Hour)
//	paid, err := treadle.WaitFor[Payment](ctx, "payment", &treadle.WaitOptions{Deadline: t, OnTimeout: Payment{}})
//
// [Thread.Signal] sends the signal. [Wake] continues threads when their time has come,
// as the server does, and [Graph.Unfinished] finds those that a crash has left behind.
// A [Question] may have a deadline too. docs/time.md has more.
//
// # Workflows
//
// A graph can also be a plain function. Its calls of a [Task], and of [Do], are
// recorded: when the function runs again, after an answer or a failure, a recorded
// result replaces the call.
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
// Calls are matched by their order, so anything random that decides the order, such
// as the time, must itself come from a task. [PreviousFrom] returns what the last
// run on the thread returned.
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
// events of nested graphs; values sent with [Emit] arrive from any depth. [Wire]
// encodes events as LangGraph's streams do.
//
// # Errors
//
// The failure of a node is a [*NodeError] around the node's error, so errors.Is and
// errors.As find the latter. The other tasks of the step are cancelled; on a thread
// the results of those that had finished are kept. A panic is a NodeError with a
// stack. [Retry] tries transient errors again, see [Transient]; [OnError]
// handles a node that has failed for good. A run that fails returns the state so far
// beside the error. Package treadletype has the types of errors, and docs/errors.md
// says what to do about each.
//
// # Context
//
// The ctx of a node is cancelled when the run is, when another task of the step
// fails, and when the node's time is up. It also carries the run: [InfoFrom]
// describes it, [ContextFrom] returns the value that the run was given with
// [Context], [StoreFrom] returns the store, which remembers across threads, and
// [Emit] and [Heartbeat] report to the run. Settings of a run are bound to the
// graph instead of passed with the input:
//
//	out, err := g.With(treadle.Context(user), treadle.StepLimit(50)).Run(ctx, in)
//
// # Without Go types
//
// [AnyGraph] is every graph with JSON in and out, for servers and command lines.
// [Graph.Schemas] returns the JSON schemas and [Graph.Shape] the drawing.
package treadle
