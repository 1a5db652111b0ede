// Package human shows runs that stop for a person: at a breakpoint, or with an interrupt raised
// by a node. The examples are in its tests; read them in this order.
//
//   - breakpoints_test.go: stopping before or after a node, or on a condition.
//   - interrupt_test.go: asking and answering, and the state in between.
//   - patterns_test.go: approve, edit, review, converse, validate.
//   - pitfalls_test.go: a node runs again from the top, and what that means for its
//     side effects, for subgraphs, and for the order of its interrupts.
package human
