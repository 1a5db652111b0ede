// Package memory shows how agents remember. The examples are in its tests; read
// them in this order.
//
//   - summary_test.go: a chatbot that summarises its conversation, in a node of
//     its own or before the call of the model.
//   - reflector_test.go: working out what to keep, in the background, when the
//     conversation has settled.
package memory
