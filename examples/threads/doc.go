// Package threads shows what a thread keeps and how to travel in it. The
// examples are in its tests; read them in this order.
//
//   - checkpoints_test.go: the checkpoints of a run, and reading one of them.
//   - travel_test.go: running again from an old checkpoint, editing the state,
//     and continuing from an edit as a new branch.
//   - restart_test.go: a question that is answered by another process.
//   - migrate_test.go: old threads and a new version of the graph.
//   - storage_test.go: a custom codec, and a warning about a large thread.
package threads
