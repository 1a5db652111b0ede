// Package memory gives agents a short-term memory, summaries of long conversations,
// and a long-term one, documents in a store that last beyond a conversation.
//
// # Within a conversation
//
// A summary of its beginning shortens a long conversation. [Summarize] makes one,
// and [SummaryNode] is a graph's node that makes one whenever the conversation has
// become too long. The full history stays in the state; [ReplacingSummaryNode]
// replaces it.
//
//	[system] h1 a1 h2 a2+calls results a2' h3      over the limit
//	         └──────── summary ────────┘
//	[system] [summary] h3                          the model's input
//
// # After a conversation
//
// A [Reflector] works on conversations in the background. It waits, per thread, until
// nothing has been submitted for a while, and then runs once for everything that was
// submitted. [OpenReflector] makes one that keeps its pending work in a store, so that
// the work survives the process.
//
// # Writing memories
//
// [Extract] lets a model read messages and decide, by calling tools, which documents
// to write, patch and remove. Each call is checked, and the model is asked to correct
// a wrong one. The result is a [ChangeSet], which is a proposal: nothing is stored
// yet. A [Manager] does the same with instructions about what is worth remembering,
// and may take several steps.
//
// A [StoreManager] keeps memories in a store. It searches for the memories that a
// conversation is about, lets a manager decide, and writes the changes in one batch.
// Older versions stay in the store's history. The value of an item is
// {"kind": …, "content": …}, and its Meta says where it comes from: see [Provenance].
// Each change is a custom event of the run, an [ItemChange], and can be undone. A
// model may also rate a document: its confidence, the document's importance, and the
// time for which it is true; see [ExtractOptions].
//
// [ManageTool] and [SearchTool] are tools for agents that manage their memories
// themselves.
//
// # Recalling memories
//
// A [Recaller] finds the memories that are relevant to a conversation, without a
// model. It ranks them by meaning, words, recency, importance and use, and writes the
// best into a text for the prompt, the block, within a number of tokens.
//
// [Middleware] adds all of this to an agent: it adds the block to each call of the
// model, and gives the conversation to a [StoreManager] afterwards, through a
// [Reflector] if there is one.
//
//	         ┌── Recaller ──▶ block behind the system prompt
//	store ◀──┤
//	         └── StoreManager ◀── Reflector ◀── conversation, once it has settled
//
// # Forgetting a person
//
// [Erasure] erases everything that is stored of a person: memories, threads, pending
// work, and what a server keeps.
//
// # Learning instructions
//
// An [Optimizer] improves prompts. It reads conversations that were held with them,
// and the feedback on these. It keeps a prompt's {variables}, and returns the reason
// and the difference with each new prompt. [Instructions] are a prompt in the store:
// running agents use a new version from their next call on.
package memory
