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
//
// # What is kept
//
// [Extract] is the heart: a model reads messages and says, by calling tools, which
// documents to write, to patch and to remove. Each call is checked, and put right
// by the model where it does not fit. The result is a [ChangeSet], a proposal:
// nothing is stored yet. A [Manager] has it done with instructions of its own, in
// several steps if need be.
//
// A [StoreManager] keeps memories in a store: it recalls what a conversation is
// about, lets a manager decide, and writes the changes in one batch. What they
// supersede stays in the store's history. The value of an item is
// {"kind": …, "content": …}; where it comes from is in its Meta, see [Provenance].
// Each change is a custom event of the run, an [ItemChange], and can be undone. A
// model may also rate what it writes: how sure it is, how much it matters, and when
// it holds; see [ExtractOptions].
//
// [ManageTool] and [SearchTool] are tools for agents that look after their
// memories themselves.
//
// # What is recalled
//
// A [Recaller] finds the memories that bear on what is said, without a model: by
// meaning and words, recency, importance and use. It makes a block of them that
// keeps to a number of tokens, and says of each why it is there.
//
// [Middleware] ties it together for an agent: it reminds the model before it is
// called, and hands the conversation to a [StoreManager] afterwards, through a
// [Reflector] if there is one.
//
//	         ┌── Recaller ──▶ block behind the system prompt
//	store ◀──┤
//	         └── StoreManager ◀── Reflector ◀── conversation, once it has settled
//
// # Learning instructions
//
// An [Optimizer] rewrites prompts by the conversations they led to and the
// feedback on them. It keeps their {variables}, and returns the reason and the
// difference with each new prompt. [Instructions] are a prompt in the store, which
// agents follow as it gets better.
package memory
