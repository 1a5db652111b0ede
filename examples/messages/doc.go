// Package messages shows conversations and models in graphs. The examples are in
// its tests; read them in this order.
//
//   - state_test.go: a conversation as state, given as values and as JSON,
//     shortened by removing and by trimming.
//   - tokens_test.go: the tokens of models as they arrive, by model and by node.
//   - print_test.go: what a conversation looks like on paper.
//
// The model is [llmtest.Script], which answers what the example says and refuses
// to be asked anything else.
package messages
