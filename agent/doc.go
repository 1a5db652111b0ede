// Package agent builds agents: a model that calls tools in a loop until it can
// answer.
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
//	           │ no calls                     │ handoffs
//	           ▼                              ▼
//	   [structured_response] ─▶ end     another agent
//
// It therefore supports threads, streams, and interrupts, and it resumes after a
// crash. Use [treadle.AddGraph] to make it a node of another graph. Each tool call
// is a task, so if a tool calls [treadle.Interrupt], the other calls in the same
// message do not run again.
//
// [Middleware] customizes model and tool calls:
//
//   - [Gates] asks a person before a tool runs.
//   - [LimitModelCalls], [LimitToolCalls], and [Budget] limit calls, tokens, and
//     cost.
//   - [RetryTools], [RetryModel], and [Fallback] handle failures.
//   - [Summarize], [ClearResults], and [SelectTools] shorten the model's input.
//   - [SearchTools] lets the model search thousands of tools.
//   - [Redact] removes personal data.
//   - [Prompt] computes the system prompt from the state.
//   - [Todos] gives the agent a to-do list.
//   - [InlineNames] shows agent names to the model.
//
// To run tools in your own graph, add the [Tools] node.
//
// # Multiple agents
//
// [Supervisor] builds a team: one agent hands the conversation to others, and each
// returns it when finished. In a [Swarm], agents hand off to each other, and the
// last one answers the user. Both are graphs of agents with [Handoff] or
// [SwarmHandoff] tools; you can also build these graphs by hand.
//
// A handoff passes the whole conversation, including the results of all calls in
// the same message. With [HandoffOptions].Task, it passes a task instead.
// [SupervisorOptions].Share controls how much of an agent's work the team sees.
//
// # Incomplete histories
//
// Before a model sees the history of a canceled or crashed turn, [llm.Repair]
// ensures that every tool call has a result and every result has a call. A tool's
// error becomes the result of its call.
package agent
