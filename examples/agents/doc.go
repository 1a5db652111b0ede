// Package agents shows agents: models that decide what happens next, alone and
// together. The examples are in its tests; read them in this order.
//
//   - decide_test.go: structured answers, a router, a loop that checks its work.
//   - tools_test.go: tools that update the state and hand off.
//   - teams_test.go: networks, supervisors, teams of teams, chains of agents, and
//     what agents see of each other's work.
//   - ready_test.go: the same with ready-made parts: supervisors, swarms, tasks.
//   - summary_test.go: a conversation that is summarised as it grows.
//   - react_test.go, review_test.go: an agent as a plain function, with memory, and
//     with a person who looks at its tool calls.
//   - stream_test.go, progress_test.go, http_test.go: tokens, events and progress
//     while agents work.
//
// The model is [llmtest.Script], which answers what the example says and refuses
// to be asked anything else.
package agents
