// Package memory shows how agents remember. The examples are in its tests; read
// them in this order.
//
//   - summary_test.go: a chatbot that summarises its conversation, in a node of
//     its own or before the call of the model.
package memory
