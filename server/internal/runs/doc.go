// Package runs executes the runs of a server: it claims them, runs their graphs, records their
// events for readers, and ends them in the ledger. It is independent of HTTP; package server
// and the protocols that it serves call it.
//
//	Create ──> ledger ──claim──> execute ──events──> recorder ──entries──> Feed ──> readers
//	                                │                    └──────────> ledger (resumable runs)
//	                                └──end──> Ledger.Finish ──> next run of the thread
//
// The recorder writes the frames of a run's stream and, for threads that are read with protocol
// v2, the events of that protocol. [Runner.Read] reads one run, and [Runner.ReadThread] all
// runs of a thread.
//
// Several processes may share a ledger. A bus notifies them of each other's work, and carries
// the entries of runs to the feeds of processes whose clients read them (remote.go).
//
// A thread has one [Feed]. Its runs write to the feed in turn, and any number of readers read
// it at their own pace. A reader that is too slow loses its place; a run never waits for a
// reader.
package runs
