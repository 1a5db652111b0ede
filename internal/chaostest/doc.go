// Package chaostest runs several servers on one Postgres and a cluster of NATS, breaks
// them at random, and looks whether anything was lost.
//
// The servers are processes: the test's own binary, which its TestMain turns into a
// server. Each reaches Postgres through a proxy of its own, which can cut its
// connections or swallow what is sent. Clients start runs with effects, sends,
// questions and streams meanwhile, through whichever server answers. In the end:
//
//   - every run that was accepted has ended, once, and left the state that it should;
//   - no effect that was recorded has happened again: once an effect of a later step has
//     happened, none of an earlier step does;
//   - no stream that was resumed by Last-Event-ID has a gap, and its numbers grow;
//   - no thread is busy.
//
// `go test` breaks 60 things; with TREADLE_SOAK=1 it breaks 1,000.
package chaostest
