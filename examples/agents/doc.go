// Package agents shows agents: models that decide what happens next, alone and in teams. The
// examples are in its tests; read them in this order.
//
//   - decide_test.go: structured output, a router, a loop that checks its work.
//   - tools_test.go: tools that update the state and hand off.
//   - teams_test.go: networks, supervisors, teams of teams, chains of agents, and
//     what agents see of each other's work.
//   - ready_test.go: the same with prebuilt parts: supervisors, swarms, tasks.
//   - summary_test.go: a conversation that is summarized as it grows.
//   - react_test.go, review_test.go: an agent as a plain function, with memory, and
//     with a person who reviews its tool calls.
//   - stream_test.go, progress_test.go, http_test.go: tokens, events, and progress
//     while agents work.
//
// The model is [llmtest.Script], which gives the responses in the example and fails on any
// other call.
package agents
