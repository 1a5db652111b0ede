// Package crashtest proves the hard promises about threads: what was committed
// is never lost, what was recorded never runs twice, two writers never both
// win, and a thread of n turns costs O(n). It consists of tests; go test
// ./internal/crashtest kills a process some hundred times, and make soak some
// thousand times.
//
// A case is a database with a few threads, each with a random graph of its own
// that follows from the thread's seed. A child process, which is the test
// binary again, plays the threads until it is killed with SIGKILL, and another
// one goes on, until all are finished:
//
//	parent                                  child
//	  │ start (mode of death, seeded) ───────► open the database
//	  │                                        play each thread: run, answer, continue
//	  │                    journal ◄────────── effect key value │ put id │ recorded task
//	  │ kill after a delay ──────────────────► or it kills itself at the n-th effect or put,
//	  │                                        before it or after it
//	  │ compare journal, histories and
//	  │ what was seen after the last kill
//	  └ again
//
// The journal is a file that is only appended to, one write per line, so what
// is in it has happened in that order whatever happened to the writer. At the
// end each thread is compared with the same graph run without a kill on the
// memory saver.
package crashtest
