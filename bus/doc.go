// Package bus connects the processes of a server: it carries signals and, if it can, keeps the log of the events that clients
// read. Losing all of it loses no fact; the ledger has those.
//
// A server of many processes has its facts in one database: which runs wait, who executes them, what ended. A process could find
// out about all changes by asking the database again and again, and does so, slowly, as a last resort. A [Bus] makes it fast:
//
//	create a run    Signal("wake")         a worker that is idle looks for work at once
//	cancel a run    Signal("cancel/…")     the worker that executes it stops it
//	stream a run    Log().Append           events that the worker emits
//	                Log().Read             events that a client in any process reads, live or after a break
//
// There are three buses. [NewMemory] is for a process that is alone. The Bus of a postgres.DB sends signals with NOTIFY and has no
// log, so events go into the ledger; it needs no other service. Package natsbus sends signals with NATS and keeps the log in
// JetStream, which takes thousands of appends a second off the database. Package bustest has the suite that defines a bus.
//
// # Signals
//
// A signal says that there may be something to do; it is never the only copy of what to do. It may be lost when a connection breaks
// and when a listener is slow, whose queue is bounded. Whoever listens has another way to find out, such as a sweep.
//
// The function that stop returns does not wait for a call of fn that has begun. So fn may call it, and so may code that holds a lock
// which fn takes.
//
// # The log
//
// The events of a thread are numbered, and [ledger.Events] has those from First to Last. Only the process that owns the thread appends,
// but one that has lost it and does not know yet may append too. A reader leaves those events out, because their numbers are not
// above the ones that it has seen.
//
// A live Read goes on when the connection to the log's server breaks: it resumes behind the last event that it yielded. It ends
// without an error when its context ends. A Read that is not live yields an error if it could not read everything, that of its
// context included. After an error that says that an event is damaged, a caller may go on with the loop to get the next events.
//
// Events that were appended longer ago than the log keeps them are gone, and a reader that is too slow for that misses them.
package bus
