// Package memory shows how agents remember. The examples are in its tests; read
// them in this order.
//
//   - summary_test.go: a chatbot that summarises its conversation, in a node of
//     its own or before the call of the model.
//   - summary_agent_test.go: the same for an agent that calls tools.
//   - extract_test.go: triples taken from conversations, without a store.
//   - store_test.go: memories kept in a store, for each user apart.
//   - profile_test.go: one document that is patched, beside many that are added.
//   - tools_test.go: an agent that looks after its memories itself.
//   - reflector_test.go: extracting in the background, when the conversation is
//     over.
//   - agent_test.go: an agent that recalls and learns, why a memory is recalled,
//     and instructions that get better.
//   - episodes_test.go: cases that were solved, as examples for the next.
package memory
