// Package runs executes the runs of a server: it claims them, runs their graphs,
// records their events for readers, and ends them in the ledger. It knows nothing of
// HTTP; package server, and the protocols that it serves, are its callers.
//
//	Create ──> ledger ──claim──> execute ──events──> recorder ──entries──> Feed ──> readers
//	                                │                    └──────────> ledger (resumable runs)
//	                                └──end──> ledger.Finish ──> next run of the thread
//
// The recorder writes frames of the runs' streams and, for threads that are read by
// protocol v2, its events. [Runner.Read] reads one run and [Runner.ReadThread] all runs
// of a thread.
//
// Several processes may use one ledger. A bus tells them of each other's work and brings
// the entries of runs to the feeds of processes whose clients read them (remote.go).
//
// A thread has one [Feed], which all its runs write to in turn, and which any number
// of readers walk at their own pace. A reader that is too slow for it loses its place;
// a run never waits for a reader.
package runs
