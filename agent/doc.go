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
// so it runs on threads, streams, pauses for people and goes on after a crash as
// every graph does, and is a node of other graphs with [treadle.AddGraph]. Of
// several tool calls each is a task of its own: it may ask a question with
// [treadle.Interrupt] without the others running twice, and what has finished is
// kept.
//
// [Middleware] changes what happens around the model and the tools. Ready-made are
// approval by people ([Approve]), summaries ([Summarize]), limits and budgets
// ([LimitModelCalls], [LimitToolCalls], [Budget]), second attempts ([RetryTools],
// [RetryModel], [Fallback]), privacy ([Redact]), shorter contexts ([ClearResults],
// [SelectTools]), a to-do list ([Todos]) and a prompt of the state ([Prompt]).
//
// [Tools] is the tool node alone, for graphs of one's own. [Supervisor] and [Swarm]
// put several agents together with tools that [Handoff] makes.
//
// # Several agents
//
// Under a [Supervisor] agents work and come back; in a [Swarm] they hand the
// conversation on and the last one keeps it. Both are graphs of agents with
// hand-off tools, which can as well be put together by hand. A hand-off takes the
// whole conversation along, with the results of all calls of its turn; a
// supervisor chooses with [Share] what comes back of an agent's work, and
// [HandoffOptions].Task gives an agent a task instead of the conversation.
//
// # The history
//
// A model never sees a tool call without its result, nor a result without its
// call: what a cancelled or crashed turn has left is repaired on the way to the
// model (see llm.Repair), and a tool that fails is answered with its error.
package agent
