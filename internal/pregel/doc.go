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
//	│ One task: on this goroutine. Several: side by side, bounded.              │
//	│ stored result? cached? call ─ retry ─ error handler                       │ ── a task failed or
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
// An input is a step too: a pseudo task named __start__ writes the input. On a
// thread the input is stored before it is applied, so a crash between the two
// loses nothing. A run that continues or is resumed has no such step: it begins
// with the control of its checkpoint.
//
// # What is immutable
//
// A Plan is immutable once Compile has returned it. Nodes and channels are small
// numbers in it. A node's number is its rank by name, so the order of numbers is
// the order of commits. Only the cache of update plans grows; it is a sync.Map.
//
// A value is immutable once it is in a slot. It is boxed, and a new value is a
// new box, so a checkpoint, an event and a node's input can hold it without
// copying. Slices are clipped when they are stored, so appending to one copies
// it.
//
// Packets, Records and a checkpoint's join sets are immutable. The sets are
// copied when they change, because a stored control may still hold the old ones.
//
// # Who owns what
//
// A Run belongs to the goroutine that runs its loop. Tasks read the run and
// write only to themselves: to out, err and cached. The loop reads those after it
// has waited for all tasks. Few things are shared while tasks run, and each has
// its own lock: the queue of events, the ids of messages that were streamed, the
// recorded calls, the heads of nested runs, and ids that are made on first use.
//
// Whoever starts a goroutine waits for it, with one exception. A node whose
// timeout is over, and that does not return after its context is cancelled, is
// abandoned after a grace period. Its scope is closed first, so its later events
// and questions are dropped. It was called with a copy of its input, so it does
// not race with the run.
//
// # What fails
//
// An error that a node returns is the node's. An error of the engine itself, for
// example of a saver, is a fault. A fault is noted on the task, because the node
// between it and the engine may change or hide the error, and the task ends with
// the fault. So the run never builds on a result that may not have been stored.
//
// A user's function that panics or ends its goroutine is an error of the call. A
// goroutine that ends cannot be saved: a deferred function records how the task
// ended, and another goroutine takes over its work.
//
// # Views
//
// A view is a struct of a node's input type that the run reuses between steps.
// Before a task is made, only the fields whose slots are newer than the view are
// set; the node is called with a copy of the struct. Nodes with the same input
// type share a view. A view never leaves its run: outputs, and the branches of a
// step with several tasks, get a new struct.
//
// This is why there is no unsafe. Filling a wide struct by reflection at every
// step would be slow, and writing through pointers would be faster, but not
// filling it is faster than both.
//
// # Control is a struct
//
// LangGraph keeps what runs next in channels (branch:to:x, join:a+b:c,
// __pregel_tasks) and compares their versions with those that each node has
// seen. Here it is a struct: the armed nodes, the sends, the sets of the joins,
// the deferred nodes that wait. It can be read, stored by name and printed, and
// there is no table of versions seen. The names of the last step's nodes are
// stored for Update, which infers from them which node makes the update.
//
// # Undo
//
// commit notes each slot before it changes it, once per step. A failure after
// that rolls back the slots, the version and the views. So a run that fails
// returns the state of its last whole step, which is also the checkpoint that it
// continues from. put uses the same list to find what has changed.
//
// # Claims
//
// The versions of a growing list share one array (package reduce). Only the
// commit claims the array's next places. A branch of a step with several tasks
// must see the list as if its task alone had written, before anything is
// committed. So it folds with claim false, which copies. If it claimed, the
// commit would find its places taken and would copy the list at every step.
//
// # Questions and calls
//
// A node cannot be stopped in the middle and continued. So a question ends its
// task, and the answer starts the task again from its top. A task's id is a hash
// of the checkpoint it runs from, its namespace, step, node and place, so it is
// the same the second time. A question's id is made of the task's id and an
// ordinal or key, and a call's of the task's id and an ordinal. These ids tie an
// answer or a recorded result to its place. Both are pending writes of the
// checkpoint, as are the results of finished siblings, and all of them are
// dropped when the step is committed. The results of siblings are stored when the
// step fails or pauses, and earlier if storing costs less than repeating the
// tasks after a crash (resultwriter.go).
//
// A nested run that finds a checkpoint under its own namespace continues from it
// instead of taking its input, because the task around it has run before. If an
// earlier attempt in the same run gave another input, the nested run begins anew.
//
// # Files
//
//	spec.go          what a builder collects
//	schema.go        channels, fields of structs, how a type reduces, what can be stored
//	plan.go          a compiled graph
//	compile.go       Compile: the state's channels, nodes, their options
//	types.go         input types as views, result types as updates
//	edges.go         edges, joins, branches, reachability
//	shape.go         the drawing of a plan
//
//	settings.go      the settings and the input of a run
//	run.go           Run: how it begins, the loop, how it ends
//	state.go         the values of the fields; rollback
//	slot.go          the value of a channel; fold
//	view.go          inputs that are brought up to date; taking updates apart
//	control.go       what runs next; edges, joins, gotos, branches
//	input.go         an input: the first, an answer, JSON
//	step.go          prepare and execute
//	commit.go        settle: commit, advance, put, or roll back
//
//	task.go          a task: its id, its input, how it is executed
//	scope.go         the context of an attempt
//	attempt.go       one call of the node, with its timeouts
//	retry.go         whether and when a failed attempt is repeated
//	handler.go       error handlers
//	outcome.go       a node's result as writes and targets
//	mutation.go      the check that a node does not change its input
//	fault.go         failures of the engine itself; functions that do not return
//	cache.go         cached results
//	call.go          recorded calls: tasks of workflows, effects in nodes
//
//	question.go      questions
//	interrupt.go     a step that stops because of questions
//	resume.go        answers
//	breakpoint.go    breakpoints
//	time.go          sleeps and deadlines
//	signal.go        signals: the mailbox of a thread
//	watch.go         telling the process of threads that wait
//
//	nest.go          graphs as nodes: shared fields, writes for the parent, checks of sends
//	nested.go        where a nested run takes place, and its namespace
//	perthread.go     nested runs whose state lasts as long as the thread
//	journal.go       the writes of a nested run
//
//	persist.go       checkpoints: how a run is stored and restored
//	stored.go        the stored form of control, sends and inputs
//	storedtext.go    the stored form of questions and answers, written fast
//	foreign.go       the stored forms and ids, for imported threads
//	codec.go         the stored form of values
//	taskresult.go    stored results of tasks whose step is not finished
//	resultwriter.go  storing results while other tasks of the step run
//	results.go       which task wrote what in a finished step
//	saver.go         calls of a saver that read
//	savercontext.go  how long a saver is waited for
//	durable.go       savers that store later
//	headcache.go     decoded heads of threads, cached in the process
//	size.go          the warning about large threads
//	abandon.go       tasks that a new input cancels
//	fork.go          where a run starts: the head, an older checkpoint, a nested run's head
//	travel.go        branches from a checkpoint inside a nested graph, copies of a checkpoint
//	memory.go        the branch of the store that a run of a thread uses
//	stale.go         questions of nested graphs that no task waits for
//	thread.go        state and history of a thread
//	edit.go          edits of a thread
//	inspect.go       a checkpoint as events, snapshots and history show it
//
//	event.go         events and sinks
//	queue.go         the queue between a run and the reader of its stream
//	trace.go         spans and metrics of a run
//	span.go          lifecycle events of graphs and nodes
//	observe.go       calls of models, tools and retrievers
//	messages.go      messages in inputs and results, each streamed once
//	record.go        a copy of fields, and its JSON
//	info.go          what a node asks its context
//	errors.go        errors of the engine
//	public.go        the public types that the engine uses
package pregel
