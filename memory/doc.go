// Package memory lets agents remember: within a conversation, and beyond it.
//
// # Within a conversation
//
// A long conversation is shortened by a summary of its beginning. [Summarize]
// does it once, [SummaryNode] is a node of a graph that does it whenever it is
// due. The full history stays where it is unless [ReplacingSummaryNode] is asked
// to replace it.
//
//	[system] h1 a1 h2 a2+calls results a2' h3      over the limit
//	         └──────── summary ────────┘
//	[system] [summary] h3                          what the model is given
//
// # After a conversation
//
// What is worth keeping is worked out in the background, when the conversation
// has settled: a [Reflector] waits, per thread, until nothing has been submitted
// for a while, and then runs once, with all of it. [OpenReflector] makes one that
// keeps its pending work in a store, so that the end of the process loses none.
package memory
