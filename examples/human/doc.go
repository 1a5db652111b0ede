// Package human shows runs that stop for a person: at a breakpoint, or with a question
// that a node asks. The examples are in its tests; read them in this
// order.
//
//   - breakpoints_test.go: stopping before or after a node, or on a condition.
//   - interrupt_test.go: asking and answering, and the state in between.
//   - patterns_test.go: approve, edit, review, converse, validate.
//   - pitfalls_test.go: a node runs again from its beginning, and what that means for its
//     effects, for nested graphs and for the order of its questions.
package human
