// Package human shows runs that stop for somebody: at a breakpoint, or with a
// question that a node asks. The examples are in its tests; read them in this
// order.
//
//   - breakpoints_test.go: stopping before or after a node, or on a condition.
//   - interrupt_test.go: asking and answering, and what can be seen meanwhile.
//   - patterns_test.go: approve, edit, review, converse, validate.
//   - pitfalls_test.go: a node runs again from its top; what that means for its
//     effects, for nested graphs and for the order of its questions.
package human
