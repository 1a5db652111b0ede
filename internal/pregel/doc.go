// Package pregel is the engine: it compiles what a builder collected into a
// Plan and runs the Plan in steps.
//
// # One step
//
//	                 control: armed nodes · sends · joins · waiting
//	                                    │
//	        nothing left ── end         │         limit · cancelled · drained ── error
//	                                    ▼
//	┌─ prepare ─────────────────────────────────────────────────────────────────┐
//	│ One task per armed node, by name; then one per send, as they were sent.   │
//	│ The views that the tasks read are brought up to date.                     │
//	└───────────────────────────────────┬───────────────────────────────────────┘
//	                                    ▼
//	┌─ execute ─────────────────────────────────────────────────────────────────┐
//	│ One task: on this goroutine. Several: on one each, bounded.               │
//	│ kept result? cached? ─ call ─ retry ─ error handler                       │ ── a task failed or
//	│ The result is taken apart into writes and targets.                        │    asked something: keep
//	│ In a step of several, branches look at the state with their task's writes.│    what finished, return
//	└───────────────────────────────────┬───────────────────────────────────────┘
//	                                    ▼
//	┌─ commit ──────────────────────────────────────────────────────────────────┐
//	│ ver++. Writes are folded into the slots, in the order of the tasks; what  │
//	│ was there before goes into the undo list. Ephemeral fields are cleared.   │ ── conflict, reducer
//	│ Validate is asked. In a step of one task, its branches look now.          │    or Validate failed:
//	└───────────────────────────────────┬───────────────────────────────────────┘    roll back,
//	                                    ▼                                            return the error
//	┌─ advance ─────────────────────────────────────────────────────────────────┐
//	│ Per task: gotos and sends, then edges, then joins. A new control is made  │ ── a bad goto:
//	│ beside the old one. If it is empty, deferred nodes are let go.            │    the same
//	└───────────────────────────────────┬───────────────────────────────────────┘
//	                                    ▼
//	┌─ put ─────────────────────────────────────────────────────────────────────┐
//	│ On a thread: the changed fields and the control, as one checkpoint that   │ ── another writer was
//	│ names the head it follows. Then step++.                                   │    faster: the error
//	└───────────────────────────────────┬───────────────────────────────────────┘
//	                                    ▼
//	                              the next step
//
// An input is a step too: a pseudo task named __start__ whose writes are the
// input. On a thread it is stored before it is applied, so that a crash between
// the two loses nothing. A run that continues or is resumed has no such step: it
// begins with the control of its checkpoint.
//
// # What is immutable
//
// A Plan, once Compile has returned it. Nodes and channels are small numbers in
// it; a node's number is its rank by name, so the order of numbers is the order
// of commits. Only the cache of update plans grows, and it is a sync.Map.
//
// A value, once it is in a slot. It is boxed, and a new value is a new box. So
// a checkpoint, an event and a node's input can hold it without copying. Slices
// are clipped on their way in: whoever appends to one copies it.
//
// A packet, a Record and a checkpoint's join sets. The sets are copied when
// they change, because a stored control may still hold the old ones.
//
// # Who owns what
//
// A Run belongs to the goroutine that runs its loop. Tasks read it and write
// only to themselves: to out, err and cached. The loop reads those after it has
// waited for all tasks. Little is shared while tasks run, and each of it guards
// itself: the queue of events, the ids of messages that were streamed already,
// the recorded calls, the heads of nested runs, and the ids that are made on
// first use.
//
// A goroutine is waited for by whoever started it, with one exception. A node
// that has used up its timeout and still does not return when its context is
// cancelled is left behind after a grace period. Its scope is closed first, so
// what it still says goes nowhere, and it was called with a copy of its input,
// so what the run does next does not race with it.
//
// # What fails
//
// A node's error is the node's. An error of the engine's own, of a saver for one,
// is a fault: it is noted on the task, because the node between it and the engine
// is free to make anything of it, and the task ends with it. So a result that may
// not have been stored is never built upon.
//
// A function of the user's that panics, or ends its goroutine, is an error where
// it was called. The goroutine cannot be saved: a deferred function says how the
// task ended, and another goroutine does what was left to do.
//
// # Views
//
// A view is a struct of a node's input type that the run keeps between steps.
// Before a task is made, only the fields whose slots are newer than the view
// are set; the node is called with a copy of the struct. Nodes with the same
// input type share one. A view never leaves its run: outputs, and the branches
// of a step of several tasks, get a fresh one.
//
// This is why there is no unsafe. Filling all of a wide struct by reflection
// at every step would be slow, and writing through pointers would be faster;
// not filling it is faster than both.
//
// # Control is a struct
//
// LangGraph keeps what is to run next in channels of its own (branch:to:x,
// join:a+b:c, __pregel_tasks) and compares their versions with those that each
// node has seen. Here it is a struct: the armed nodes, the sends, the sets of
// the joins, the deferred nodes that wait. What is next can be read off it,
// stored by name and printed; a node cannot be due by accident of a version.
// There is no table of versions seen. The names of the nodes of the last step
// are kept for Update, which infers from them who is speaking.
//
// # Undo
//
// commit notes each slot before it changes it, once per step. A failure after
// that point rolls back: the slots, the version and the views are as before the
// step, so that a run that fails returns the state of its last whole step, and
// the checkpoint that it continues from is that state. The same list tells put
// what has changed.
//
// # Claims
//
// A list that grows shares one array between its versions (package grow). The
// commit claims the array's next places; nobody else may. A branch of a step of
// several tasks must see the list as if its task alone had written, before
// anything is committed: it folds with claim false, which copies. With a claim
// there, the commit would find its places taken and copy the list every step.
//
// # Questions and calls
//
// A node cannot be stopped in its middle and gone on with. So a question ends
// its task, and the answer starts it again from its top. A task's id is a hash of
// the checkpoint it runs from, its namespace, step, node and place, so the second
// time it is the same; a question is the task's id and an ordinal or key, and a
// call is the task's id and an ordinal. That is all that ties an answer or a
// recorded result to its place. Both are pending writes of the checkpoint, as
// are the results of finished siblings, and go when the step is committed. The
// latter are stored when the step fails or pauses, and while it runs if that
// pays (keeper.go): a process that is killed has not done them in vain.
//
// A nested run that finds a checkpoint under its own namespace goes on from it
// instead of taking its input: the task around it has run before. If that was
// an attempt of the same run, with another input, it begins anew.
//
// # Files
//
//	spec.go       what a builder collects
//	schema.go     channels, fields of structs, how a type reduces, what can be stored
//	plan.go       what a compiled graph is
//	compile.go    Compile: the state's channels, nodes, their options
//	types.go      what types mean: inputs as views, results as updates
//	edges.go      edges, joins, branches, what leads where
//	shape.go      the drawing of a plan
//	slot.go       the present value of a channel; fold
//	view.go       inputs that are kept up to date; taking updates apart
//	control.go    what is next; edges, joins, gotos, branches
//	task.go       one call of a node: attempts, retries, timeouts, error handler, mutation check
//	transient.go  which errors are the network's
//	fault.go      failures of the engine itself; functions that do not return
//	outlast.go    how long a saver is waited for
//	run.go        a run: its settings, how it begins, the loop
//	input.go      an input: the first, an answer, JSON
//	step.go       prepare and execute
//	commit.go     settle: commit, advance, put, or roll back
//	interrupt.go  questions, answers, breakpoints
//	call.go       recorded calls: tasks of workflows, effects in nodes
//	nest.go       graphs as nodes: shared fields, what is handed up, checks of sends
//	persist.go    checkpoints: what is put, and how a run is restored from one
//	stored.go     the stored form of control, sends and inputs
//	kept.go       results of a step that was not finished
//	cache.go      results that are cached
//	codec.go      how values are stored, with a codec of the graph's own
//	size.go       the warning about large threads
//	inspect.go    a checkpoint as it is shown: in events, snapshots and history
//	keeper.go     results that are stored while other tasks of their step run
//	abandon.go    what a new input puts an end to
//	fork.go       where a run starts from: the head, an older checkpoint, a nested run's own
//	travel.go     branches from a checkpoint inside a nested graph, copies of a checkpoint
//	stale.go      questions of nested graphs that nobody waits for any more
//	results.go    who wrote what in a step that is over
//	heads.go      decoded heads of threads, kept in the process
//	durable.go    savers that store later
//	thread.go     state, history and edits of a thread
//	record.go     a picture of fields, and its JSON
//	event.go      events, sinks of nested streams, the queue
//	span.go       lifecycle events, models and tools, tokens
//	info.go       what a node asks its context
//	errors.go     the typed errors
package pregel
