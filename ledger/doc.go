// Package ledger stores the records of a server: its assistants, threads, runs, and crons, the
// queue of runs, the process that executes each run, and the events that clients can still
// read. It does not store the state of threads; savers do (package checkpoint).
//
// [Ledger] implements the rules: the effect of each multitask strategy, which run of a thread
// is next, how the end of a run changes its thread, and which process may take over the runs of
// a dead process. A [Backend] only stores rows and runs transactions. Backends exist for memory
// ([NewMemory]), SQLite, and Postgres; package ledgertest tests them.
//
// Every change to a thread or one of its runs is one transaction that holds the thread's lock.
// A thread therefore has at most one running run, and a reader never sees an ended run together
// with a thread that is still busy.
package ledger
