// Package summary gives agents short-term memory: it condenses the start of a conversation
// that has grown too long into a summary.
//
// [Summarize] shortens a conversation. [Node] does so in a graph whenever the conversation
// grows too long. It keeps the full history in the state; [ReplacingNode] replaces it.
//
//	[system] h1 a1 h2 a2+calls results a2' h3      over the limit
//	         └──────── summary ────────┘
//	[system] [summary] h3                          the model's input
//
// For an agent of package agent, use the middleware agent.Summarize instead.
package summary
