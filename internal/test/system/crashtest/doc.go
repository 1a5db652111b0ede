// Package crashtest tests the guarantees about crashes: committed state is never lost,
// recorded work never runs twice, two writers of one thread never both succeed, and a
// thread of n turns costs O(n). The package contains only tests. go test
// ./internal/test/system/crashtest kills a process a few hundred times, and make soak a few thousand
// times.
//
// A case is a database with a few threads. Each thread has a random graph, generated from
// the thread's seed. A child process, which is the same test binary, runs the threads until
// it is killed with SIGKILL. Then another child continues, until all threads have finished:
//
//	parent                                  child
//	  │ start (mode of death, seeded) ───────► open the database
//	  │                                        play each thread: run, answer, continue
//	  │                    journal ◄────────── effect key value │ put id │ recorded task
//	  │ kill after a delay ──────────────────► or it kills itself at the n-th effect or put,
//	  │                                        before it or after it
//	  │ compare the journal, the histories,
//	  │ and what was seen after the last kill
//	  └ again
//
// The journal is a file to which each event is appended with one write, so its lines are
// complete and in order even if the writer was killed. At the end each thread is
// compared with an uninterrupted run of the same graph on the in-memory saver.
package crashtest
