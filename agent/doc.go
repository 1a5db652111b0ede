// Package agent makes agents: a model that decides, step by step, which tools to
// call until it has an answer.
//
//	weather := llm.NewTool("get_weather", "The weather in a city.", getWeather)
//	a, err := agent.New(model, &agent.Options{Tools: []*llm.Tool{weather}})
//	out, err := a.Run(ctx, agent.Ask("what is the weather in sf"))
//
// An agent is an ordinary graph:
//
//	           ┌──────────────────────────────┐
//	           ▼                              │ results
//	start ─▶ model ──calls──▶ tools ──────────┤
//	           │          (a task per call)   │
//	           │ no calls                     │ hand-offs
//	           ▼                              ▼
//	   [structured_response] ─▶ end     another agent
//
// So it has threads, streams and questions to people, and it continues after a
// crash, as every graph does. [treadle.AddGraph] makes it a node of another graph.
// Each tool call is a task. A tool may ask a question with [treadle.Interrupt]:
// the other calls of the answer do not run again.
//
// [Middleware] changes what happens around the model and the tools:
//
//   - [Approve] asks a person before a tool is called.
//   - [LimitModelCalls], [LimitToolCalls] and [Budget] bound calls, tokens and cost.
//   - [RetryTools], [RetryModel] and [Fallback] handle failures.
//   - [Summarize], [ClearResults] and [SelectTools] shorten the model's input.
//   - [Redact] removes personal data.
//   - [Prompt] computes the system prompt from the state.
//   - [Todos] gives the agent a to-do list.
//   - [InlineNames] shows the names of agents to the model.
//
// [Tools] is the node that calls tools, for use in your own graph.
//
// # Several agents
//
// In a team made by [Supervisor], one agent hands the conversation to other
// agents, and each of them returns it when it is done. In a [Swarm], agents hand
// the conversation to each other, and the last one answers the user. Both are
// graphs of agents that have tools made by [Handoff] or [SwarmHandoff]; such a
// graph can also be built by hand.
//
// A hand-off passes on the whole conversation, with the results of all calls of
// the same answer. With [HandoffOptions].Task the other agent gets a task instead.
// [SupervisorOptions].Share says how much of an agent's work its team sees.
//
// # Incomplete histories
//
// The history of a cancelled or crashed turn is repaired before a model sees it:
// each tool call has a result, and each result a call; see [llm.Repair]. The error
// of a tool is the result of its call.
package agent
