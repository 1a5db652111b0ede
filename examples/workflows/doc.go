// Package workflows shows plain functions as graphs, and tasks whose results
// are recorded. The examples are in its tests; read them in this order.
//
//   - essay_test.go: a workflow that does something costly and then asks.
//   - basics_test.go: running, streaming and resuming a workflow; tasks; what
//     the run before has left.
//   - compose_test.go: tasks side by side, graphs and workflows inside a
//     workflow, events of one's own.
//   - failure_test.go: retries, and going on after an error.
//   - pitfalls_test.go: effects, the clock and chance belong into tasks.
package workflows
