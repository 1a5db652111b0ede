// Package ledger keeps the facts of a server: its assistants, threads, runs and
// crons, which runs are to be executed, which process executes them, and the events
// that clients may still ask for. The states of threads are not here; savers keep
// those (package checkpoint).
//
// The rules live once, in [Ledger]: what a multitask strategy does, which run of a
// thread is next, what the end of a run changes, who may take over the runs of a
// process that died. A [Backend] stores rows and runs transactions, and knows none
// of these rules. There are backends in memory ([NewMemory]), in SQLite and in
// Postgres; package ledgertest defines what they have to do.
//
// Every change of a thread or of one of its runs is one transaction that holds the
// lock of the thread. So a thread has at most one running run, and a reader never
// sees a run that has ended beside a thread that is still busy.
package ledger
