// Package pregel is the engine: it compiles a builder's Spec into a Plan and runs
// the Plan in steps.
//
// # One step
//
//	                 control: armed nodes · sends · joins · waiting
//	                                    │
//	        nothing left ── end         │         limit · canceled · drained ── error
//	                                    ▼
//	┌─ prepare ─────────────────────────────────────────────────────────────────┐
//	│ One task per armed node, by name; then one per send, in the order sent.   │
//	│ Updates the views that the tasks read.                                    │
//	└───────────────────────────────────┬───────────────────────────────────────┘
//	                                    ▼
//	┌─ execute ─────────────────────────────────────────────────────────────────┐
//	│ One task: on this goroutine. Several: concurrently, up to a limit.        │
//	│ saved result? cached? call ─ retry ─ error handler                        │ ── a task failed or was
//	│ The result is split into writes and targets.                              │    interrupted: save
//	│ With several tasks, branches see the state with their own task's writes.  │    results, return
//	└───────────────────────────────────┬───────────────────────────────────────┘
//	                                    ▼
//	┌─ commit ──────────────────────────────────────────────────────────────────┐
//	│ ver++. Writes are folded into the slots, in task order; the previous      │
//	│ values go into the undo list. Ephemeral fields are cleared.               │ ── conflict, reducer,
//	│ Validate is called. With one task, its branches run now.                  │    or Validate failed:
//	└───────────────────────────────────┬───────────────────────────────────────┘    roll back,
//	                                    ▼                                            return the error
//	┌─ advance ─────────────────────────────────────────────────────────────────┐
//	│ Per task: gotos and sends, then edges, then joins. A new control is built │ ── invalid goto:
//	│ alongside the old one. If it is empty, deferred nodes are released.       │    the same
//	└───────────────────────────────────┬───────────────────────────────────────┘
//	                                    ▼
//	┌─ put ─────────────────────────────────────────────────────────────────────┐
//	│ On a thread: saves the changed fields and the control, as one checkpoint  │ ── another writer moved
//	│ that names the head it follows. Then step++.                              │    the head: error
//	└───────────────────────────────────┬───────────────────────────────────────┘
//	                                    ▼
//	                              the next step
//
// An input is a step too: a pseudo-task named __start__ writes the input. On a
// thread, the input is saved before the step that applies it, so a crash between
// the two loses nothing; a saver that supports batches can save both in one call.
// A run that continues or is resumed has no such step: it starts with the control
// of its checkpoint.
//
// # Immutability
//
// A Plan is immutable once Compile has returned it, except for its caches, which
// are safe for concurrent use. Nodes and channels have small integer IDs. A node's
// ID is its rank by name, so ID order is commit order.
//
// A value is immutable once it is in a slot. It is boxed, and a new value is a
// new box, so a checkpoint, an event, and a node's input can share it without
// copying. Slices are clipped when they are stored in a slot, so appending to one
// copies it.
//
// Packets, Records, and a checkpoint's join sets are immutable. The sets are
// copied when they change, because a saved control may still refer to the old ones.
//
// # Ownership
//
// A Run belongs to the goroutine that runs its loop. Tasks read the run and write
// only to themselves, for example to out, err, and cached. The loop reads these
// fields after it has waited for all tasks. Little is shared while tasks run, and
// each shared part has its own lock: the event queue, the IDs of streamed messages,
// recorded calls, tasks whose results are being cached, the heads of subgraph runs,
// the state of the saver, and IDs that are computed on first use.
//
// The code that starts a goroutine waits for it, with one exception: a node that
// exceeds its timeout and does not return after its context is canceled is
// abandoned after a grace period. Its scope is closed first, so its later events
// and interrupts are dropped. It was called with a copy of its input, so it does
// not race with the run.
//
// # Failures
//
// An error returned by a node belongs to the node. An error of the engine itself,
// for example of a saver, is a fault. A fault is recorded on the task, because the
// node between it and the engine may change or hide the error, and the task ends
// with the fault. A run therefore never builds on a result that may not have been
// saved.
//
// If a user function panics or ends its goroutine, the call fails with an error. A
// goroutine that is ending cannot be kept: a deferred function records how the task
// ended, and another goroutine takes over its work.
//
// # Views
//
// A view is a struct of a node's input type that the run reuses between steps.
// Before a task is created, only the fields whose slots are newer than the view are
// set; the node is called with a copy of the struct. Nodes with the same input
// type share a view. A view never leaves its run: outputs, and the branches of a
// step with several tasks, get a new struct.
//
// Views are the reason that the engine does not need package unsafe. Filling a wide
// struct by reflection at every step would be slow. Writing through unsafe pointers
// would be faster, but not filling the struct is faster than both.
//
// # Control is a struct
//
// LangGraph keeps what runs next in channels (branch:to:x, join:a+b:c,
// __pregel_tasks) and compares their versions with the versions that each node has
// seen. Here it is a struct: the armed nodes, the sends, the sets of the joins, and
// the waiting deferred nodes. It can be read, saved by name, and printed, and no
// table of seen versions is needed. The names of the last step's nodes are saved
// for Update, which infers from them the node that makes the update.
//
// # Undo
//
// commit records each slot before changing it, once per step. A later failure in
// the step rolls back the slots, the version, and the views. A failed run therefore
// returns the state of its last complete step, which is also the checkpoint that it
// continues from. put uses the same list to find the changed slots.
//
// # Claims
//
// The versions of a growing list share one array (package reduce). Only the
// commit claims the next elements of the array. A branch of a step with several
// tasks must see the list as if its task alone had written, before anything is
// committed. It therefore folds with claim false, which copies. If it claimed, the
// commit would find the elements taken and would copy the list at every step.
//
// # Interrupts and calls
//
// A node cannot be suspended and continued. An interrupt therefore ends its task,
// and the answer starts the task again from the top. A task ID is a hash of the
// checkpoint that the task runs from, its namespace, step, node, and place, so it is
// the same the second time. An interrupt ID derives from the task ID and an ordinal
// or key, and a call ID from the task ID and an ordinal. These IDs tie an answer or
// a recorded result to its place. Both are pending writes of the checkpoint, as are
// the results of finished siblings, and all of them are dropped when the step is
// committed. The results of siblings are saved when the step fails or is
// interrupted, and earlier if saving costs less than repeating the tasks after a
// crash (resultwriter.go).
//
// A subgraph run that finds a checkpoint in its own namespace continues from it
// instead of taking its input, because the task that contains it has run before. If
// an earlier attempt in the same run gave a different input, the subgraph run starts
// from scratch.
//
// # Files
//
//	spec.go          the input of Compile, collected by a builder
//	schema.go        channels, struct fields, reducers of types, storable types
//	plan.go          a compiled graph
//	compile.go       Compile: the state's channels, nodes, and their options
//	types.go         input types as views, result types as updates
//	edges.go         edges, joins, branches, reachability
//	shape.go         the diagram of a plan
//
//	settings.go      the settings and the input of a run
//	run.go           Run: its start, its loop, its end
//	state.go         the values of the fields; rollback
//	slot.go          the value of a channel; fold
//	view.go          updating node inputs; splitting updates into writes
//	control.go       what runs next; edges, joins, gotos, branches
//	input.go         applying an input: the first, an answer, JSON
//	step.go          prepare and execute
//	commit.go        settle: commit, advance, put, or roll back
//
//	task.go          a task: its ID, its input, its execution
//	scope.go         the context of an attempt
//	attempt.go       one call of the node, with its timeouts
//	retry.go         whether and when to retry a failed attempt
//	handler.go       error handlers
//	outcome.go       a node's result as writes and targets
//	mutation.go      the check that a node does not modify its input
//	fault.go         failures of the engine itself; functions that do not return
//	cache.go         cached results
//	call.go          recorded calls: workflow tasks, side effects in nodes
//
//	question.go      interrupts
//	interrupt.go     the end of an interrupted step
//	resume.go        answers
//	breakpoint.go    breakpoints
//	time.go          sleeps and deadlines
//	signal.go        signals: the mailbox of a thread
//	watch.go         notifying the process of waiting threads
//
//	nest.go          subgraphs: shared fields, writes for the parent, checks of sends
//	nested.go        the place of a subgraph run, and its namespace
//	perthread.go     subgraph runs whose state lasts as long as the thread
//	journal.go       the writes of a subgraph run
//
//	persist.go       checkpoints: saving and restoring a run
//	stored.go        the saved form of control, sends, and inputs
//	storedtext.go    fast encoding of interrupts and answers
//	foreign.go       the saved forms and IDs, for imported threads
//	codec.go         the saved form of values
//	taskresult.go    saved task results of an unfinished step
//	resultwriter.go  saving results while other tasks of the step run
//	results.go       which task wrote what in a finished step
//	saver.go         reading from a saver
//	savercontext.go  calling a saver with limited time
//	durable.go       savers that save later
//	headcache.go     decoded heads of threads, cached in the process
//	size.go          the warning about large threads
//	weight.go        estimates of the memory used by values
//	abandon.go       tasks that a new input cancels
//	fork.go          where a run starts: the head, an older checkpoint, a subgraph's head
//	travel.go        forks from a checkpoint inside a subgraph, copies of a checkpoint
//	memory.go        the store branch that a run of a thread uses
//	stale.go         subgraph interrupts that no task waits for
//	thread.go        state and history of a thread
//	edit.go          edits of a thread
//	inspect.go       a checkpoint as shown in events, snapshots, and history
//
//	event.go         events and sinks
//	queue.go         the queue between a run and the reader of its stream
//	trace.go         spans and metrics of a run
//	span.go          lifecycle events of graphs and nodes
//	observe.go       calls of models, tools, and retrievers
//	messages.go      messages in inputs and results, each streamed once
//	record.go        a copy of fields, and its JSON
//	info.go          what a node can find in its context
//	errors.go        errors of the engine
//	public.go        the public types that the engine uses
package pregel
