// Package treadle runs stateful agents and workflows as graphs.
//
// A graph has a state, which is a struct, and nodes, which are functions. Edges
// say which node runs after which. The graph runs in steps: all nodes that are
// due run at the same time, each on the state as it was before the step; then
// their writes are merged into the state in a fixed order, and what they lead
// to is due next. The run ends when nothing is due. The model is that of
// LangGraph, and before it of Pregel; docs/parity.md maps its names to these.
//
// # State
//
// The state is a struct, and each of its exported fields is a channel that
// nodes write to. An update replaces the value. If the field's type has a
// method Reduce, an update is merged by it instead:
//
//	type State struct {
//		Topic string               // the last value wins
//		Jokes treadle.List[string] // has Reduce: updates append
//	}
//
// [List], [Set], [Map], [Sum] and [Max] are ready-made. A type of one's own
// needs a method Reduce(U) T or Reduce(U) (T, error), where U is what updates
// hold and may be T itself. [Reduce] gives a reducer to a field whose type is
// not one's own. Two nodes that write a field without a reducer in one step
// are an error, a [*ConflictError]. [Overwrite] replaces what accumulates.
//
// An input is an update like what nodes return. If it has the state's own
// type, its zero fields are not given. Where U is not T, a value of the state is
// no update, and a non-zero one in an input is an [*UpdateError]: [Compile] with
// an input type of one's own, whose field is a U, takes such inputs.
//
// A field's name in JSON, from its json tag, is its name in streams and in
// storage; inside Go it is matched by its Go name. Embedded structs contribute
// their fields. Tags say how long a value lives and what it was called before:
//
//	Query string `treadle:"ephemeral"` // gone after the step that follows the write
//	Conn  *Conn  `treadle:"untracked"` // never stored
//	Body  string `treadle:"was=text"`  // read from the old name in old checkpoints
//
// A field that was never written is absent, which is not the same as zero:
// nodes read its zero value, but streams and snapshots leave it out, and
// [Record.Has] tells the two apart. A field that accumulates is there from the
// start, with its zero value; [Max] alone has none until its first update.
// [Initial] gives a fresh run or thread its starting values. A type with a
// method Validate() error is asked about every input and every commit.
//
// The state may also be a single value, New[List[string]], or a map whose
// fields are declared at run time, New[Update] with [AddField].
//
// # Nodes
//
// A node takes what it reads and returns what it writes:
//
//	type told struct{ Jokes treadle.List[string] }
//
//	func tell(ctx context.Context, s State) (told, error) {
//		return told{treadle.List[string]{"A joke about " + s.Topic}}, nil
//	}
//
//	b := treadle.New[State]("jokes")
//	treadle.AddNode(b, "tell", tell)
//
// [AddNode] infers all its type arguments. The result holds exactly the fields
// that are written, so a zero in it is written too. A pointer is an optional
// write, of one field or of everything. Returning the whole state is allowed
// only where no field accumulates, because it would add every list to itself.
// [Update] is a map instead of a struct, checked when the node returns it.
//
// A node may read a struct of some fields. A field that the state does not
// have is a private channel between the nodes that mention it. What a node is
// given is shared with others and must not be changed in place; appending to a
// slice is safe, since slices come without spare capacity. Under go test a
// node that changes its input fails with a [*MutationError]; see
// [Options].Check.
//
// Options of a node are values: [Retry], [Timeout], [IdleTimeout], [OnError],
// [Cache], [CacheBy], [Defer], [Destinations], [Tags], [Metadata] and more.
// [Builder.Defaults] sets some of them for all nodes.
//
// # Edges
//
//	b.Edge(treadle.Start, "plan")                   // first
//	b.Edge("plan", "write")                         // after plan
//	b.Join([]string{"write", "check"}, "publish")   // after both, however many steps apart
//	b.Branch("publish", again, "plan", treadle.End) // a function decides
//	treadle.Switch(b, "plan", long, map[bool]string{true: "trim", false: "write"})
//
// A branch is a function of the state that returns a [Goto]. It sees the state
// with what its own node has just written, and without what the other nodes
// of the step wrote. A node that several edges lead to in one step runs once.
// [Builder.Compile] checks everything and reports all problems together, as
// [*BuildError]s; what is only doubtful is in [Graph.Warnings].
//
// # Control
//
// A node may decide itself where control goes, by returning a [Goto] or by
// having a field of that type in what it writes. [To] goes to nodes that then
// read the state. [Send], and [Node.Send], which the compiler checks, start a
// task with an input of its own: one per item of a list is a map-reduce.
//
//	joke := treadle.AddNode(b, "joke", tell) // tell takes a subject
//	var next treadle.Goto
//	for _, s := range state.Subjects {
//		next = append(next, joke.Send(subject{s})...)
//	}
//
// The goto adds to the node's static edges. [Command] is an update and a goto
// in one. A run takes at most 25 steps unless [StepLimit] or
// [Options].StepLimit says otherwise; reaching it is a [*StepLimitError].
//
// # Nesting
//
// [AddGraph] makes a compiled graph a node of another. It reads the fields
// that the two share and hands up what its nodes wrote to them, never the
// inherited value again. Calling g.Run inside a node nests as well, and the
// node translates; [Uses] lets drawings see it. A command with Parent set goes
// to the graph around; the node says so with [Handoff].
//
// On a thread, a nested graph whose node runs again goes on where it was: after
// an answer, when the thread is continued, and in a second attempt of a node
// with [Retry]. Only an attempt that calls it with another input than the
// attempt before begins it anew.
//
// # Threads
//
// With [Options].Saver a graph has threads. A thread keeps a checkpoint of
// every step:
//
//	g, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})
//	thread := g.Thread("essay-7")
//	out, err := thread.Run(ctx, State{Topic: "owls"})
//	out, err = thread.Continue(ctx) // after an error: what had finished does not run again
//	snap, err := thread.State(ctx)
//
// [Thread.History] has the checkpoints, newest first. [Thread.At] goes back to
// one: Continue on it runs again what came after, as a new branch beside the old
// one. [Thread.Update] edits the state as if a node had written it. Two runs on
// one thread at a time do not mix: the one that stores second fails with
// checkpoint.ErrConflict. A thread is of the graph that began it, by name, and
// another one is refused; [Options].Was is for a graph that was renamed. A run
// without a thread stores nothing.
//
// A step is stored before the next one starts; [Async] and [Exit] are faster and
// promise less. A nested graph is stored under a namespace of its own, for as
// long as its node runs; [PerThread] and [NoCheckpoints] change that.
//
// # Questions
//
// A node may ask somebody and wait for days:
//
//	ok, err := treadle.Interrupt[bool](ctx, "publish "+s.Title+"?")
//	if err != nil {
//		return published{}, err
//	}
//
// A branch may ask, too. The run then ends with an [*InterruptError], which
// holds the open questions. [Thread.Resume] answers: the node runs again from
// its top, and this time Interrupt returns the answer. What had finished beside
// it does not run again. [Before] and [After] are breakpoints at nodes, which
// [Thread.Continue] passes.
//
// # Workflows
//
// A plain function can be a graph, too. What it does in a [Task], or with [Do],
// is recorded: when the function runs again, after an answer or a failure, the
// recorded result takes the place of the call.
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
// Calls are told apart by their order, so what decides the order belongs into a
// task. [Previous] is what the last run on the thread returned.
//
// # Streams
//
// [Graph.Stream] and [Thread.Stream] run the graph and yield what happens:
//
//	for ev, err := range g.Stream(ctx, in, treadle.Modes(treadle.ModeUpdates, treadle.ModeCustom)) {
//		switch ev := ev.(type) {
//		case treadle.Updated: // what a node wrote
//		case treadle.Custom: // what a node sent with Emit
//		case treadle.Finished[State]: // the last event
//		}
//	}
//
// Leaving the loop cancels the run and waits for it. [Subgraphs] shows nested
// graphs too; what is sent with [Emit] arrives from any depth. [Wire] renders
// events in LangGraph's shapes.
//
// # Errors
//
// A node's failure is a [*NodeError] around the node's own error, so errors.Is
// and errors.As still find that. Its siblings are cancelled; what they had
// finished is kept on a thread. A panic is a NodeError with a stack. [Retry]
// tries transient errors again, see [Transient]; [OnError] answers for a node
// that has failed for good. A run that fails returns the state so far beside
// the error. docs/errors.md has every error, and what to do about it.
//
// # Context
//
// A node's ctx is cancelled when the run is, when a sibling fails and when its
// own time is up. It carries the rest: [RunInfo] tells where the node is,
// [ContextOf] has the value that the run was given with [Context], [StoreFrom]
// is the store, which remembers across threads, [Emit] and [Heartbeat] report to
// the run. Settings of a run are bound to the graph
// instead of passed along with the input:
//
//	out, err := g.With(treadle.Context(user), treadle.StepLimit(50)).Run(ctx, in)
//
// # Without types
//
// [AnyGraph] is every graph with JSON in and out, for servers and command
// lines. [Graph.Schemas] has the JSON schemas and [Graph.Shape] the drawing.
package treadle
