// Package messages shows conversations and models in graphs. The examples are in its tests;
// read them in this order.
//
//   - state_test.go: a conversation as state, given as values and as JSON,
//     shortened by removing and by trimming.
//   - tokens_test.go: model tokens as they arrive, by model and by node.
//   - print_test.go: a conversation printed as text.
//
// The model is [llmtest.Script], which gives the responses in the example and fails on any
// other call.
package messages
