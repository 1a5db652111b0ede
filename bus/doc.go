// Package bus connects the processes of a server. A bus carries signals and, optionally, stores
// the log of events that clients read. Losing a bus and its log loses no record; those are in
// the ledger.
//
// A server with many processes keeps its records in one database: which runs are pending, which
// process executes a run, and which runs have ended. A process can detect changes by polling
// the database, and does so at a low rate as a last resort. A [Bus] makes this fast:
//
//	create a run    Signal("wake")         an idle worker looks for work immediately
//	cancel a run    Signal("order")        the worker that executes the run stops it
//	stream a run    Log().Append           events emitted by the worker
//	                Log().Read             events for a client of any process, live or later
//
// There are three implementations. [NewMemory] is for a single process. The Bus of a
// postgres.DB sends signals with NOTIFY and has no log, so events are stored in the ledger; it
// needs no other service. Package natsbus sends signals with NATS and stores the log in
// JetStream, which relieves the database of thousands of appends per second. Package bustest
// provides a test suite for buses.
//
// # Signals
//
// A signal means that there may be work to do; it is never the only copy of the information.
// Signals may be lost when a connection breaks, or when a listener is slow and its bounded
// queue overflows. A listener therefore needs another way to find out, such as periodic
// polling.
//
// The stop function that Listen returns does not wait for a call of fn in progress. It may be
// called by fn itself, and by code that holds a lock that fn takes.
//
// # The log
//
// The events of a thread are numbered; a [ledger.Events] contains the events from First to
// Last. Only the process that owns the thread appends events. A process that has lost the
// thread, but has not yet noticed, may append too. Readers skip such events, because their
// numbers do not exceed those already seen.
//
// A live Read continues when the connection to the log's server breaks: it resumes after the
// last event that it yielded. It ends without an error when its context ends. A Read that is
// not live yields an error if it cannot read everything, including the error of its context.
// After an error about a damaged event, the caller may continue the loop to receive the
// following events.
//
// The log removes events when they reach its retention time. A reader that lags behind by more
// than that misses events.
package bus
