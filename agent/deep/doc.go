// Package deep builds agents for long tasks: agents that plan, work with files, give tasks
// to sub-agents, load skills, and shorten their conversation.
//
//	a, err := deep.New(model, &deep.Options{Graph: treadle.Options{Saver: saver}})
//	out, err := a.Thread("1").Run(ctx, deep.Ask("Compare the papers in /papers."))
//
// [New] assembles these parts. Each is a middleware that also works alone in [agent.New]:
//
//   - [agent.Todos] gives the agent a list of to-dos.
//   - [Files] gives it a file system, in the thread's state or in any [files.Backend],
//     with permissions.
//   - [Subagents] gives it other agents for tasks.
//   - [InBackground] gives it agents that work while it continues or sleeps.
//   - [Skills] gives it instructions that it loads on demand.
//   - [Memory] adds files such as AGENTS.md to its prompt.
//   - [Compact] shortens its conversation.
//
// A deep agent is an ordinary graph: it supports threads, streams, and interrupts. Every
// tool call is recorded, so that a killed process loses and repeats nothing, and a
// sub-agent's question reaches the caller of the outermost agent.
package deep
