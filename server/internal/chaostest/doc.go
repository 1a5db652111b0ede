// Package chaostest runs servers on SQLite, on Postgres, and on Postgres with NATS,
// breaks them, and checks that nothing was lost.
//
// The servers are processes: the test's own binary, which its TestMain turns into a
// server. Each reaches Postgres through a proxy that can cut connections, swallow traffic,
// and lose the response to a chosen commit. While they run, clients create runs that are
// streamed, queued, canceled, rolled back, interrupted, and resumed, that sleep and wait
// for signals, and that crons start. Every effect and every webhook goes to a sink
// in the test's process, which never fails.
//
// At the end, a checker compares the rows of the ledger, the runs that the processes
// report as executing, the saved states, and the sink:
//
//   - every accepted run has ended once, with the right state, and its webhook arrived;
//   - no recorded effect happened again, and no effect of a canceled run happened after
//     its end was reported;
//   - no run is running unless a process reports that it executes that run;
//   - no thread is busy without an unfinished run, and its counts and interrupts agree with its
//     runs and its latest checkpoint;
//   - every sleeping thread woke up;
//   - no stream resumed with Last-Event-ID has a gap, and its event numbers increase;
//   - no request got status 500.
//
// TestLostResponses loses the response to every kind of transaction in turn.
// TestServersSurviveFaults breaks servers at random; TREADLE_CHAOS_SEED repeats a run.
// TREADLE_SOAK=1 breaks more than 1,000 things.
package chaostest
