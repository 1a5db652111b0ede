// Package memory shows how agents remember. The examples are in its tests; read them in this
// order.
//
//   - summary_test.go: a chatbot that summarizes its conversation, in a separate
//     node or before the model call.
//   - summary_agent_test.go: the same for an agent that calls tools.
//   - extract_test.go: triples extracted from conversations, without a store.
//   - store_test.go: memories in a store, separate for each user.
//   - profile_test.go: one document that is patched, alongside many that are added.
//   - tools_test.go: an agent that manages its own memories.
//   - reflector_test.go: extraction in the background, after the conversation.
//   - agent_test.go: an agent that recalls and learns, why a memory is recalled,
//     and instructions that improve.
//   - episodes_test.go: solved cases as examples for the next.
package memory
