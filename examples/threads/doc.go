// Package threads shows what a thread keeps and how to use its history. The examples are in its
// tests; read them in this order.
//
//   - checkpoints_test.go: the checkpoints of a run, and reading one of them.
//   - travel_test.go: rerunning from an old checkpoint, editing the state, and
//     continuing from an edit as a fork.
//   - restart_test.go: an interrupt that is answered by another process.
//   - migrate_test.go: old threads and a new version of the graph.
//   - storage_test.go: a custom codec, and a warning about a large thread.
package threads
