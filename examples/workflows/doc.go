// Package workflows shows plain functions as graphs, and tasks whose results are recorded. The
// examples are in its tests; read them in this order.
//
//   - essay_test.go: a workflow that does something costly and then interrupts.
//   - basics_test.go: running, streaming, and resuming a workflow; tasks; the
//     result of the previous run.
//   - compose_test.go: concurrent tasks, graphs and workflows inside a workflow,
//     custom events.
//   - failure_test.go: retries, and continuing after an error.
//   - pitfalls_test.go: side effects, the clock, and random numbers belong in tasks.
package workflows
