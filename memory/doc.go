// Package memory gives agents long-term memory: documents in a store that outlive a
// conversation. Package memory/summary provides short-term memory: summaries of long
// conversations.
//
// # Background work
//
// A [Reflector] processes conversations in the background. It waits until a thread has
// been quiet for a while, then runs once for everything submitted. [OpenReflector] keeps
// pending work in a store, so it survives a restart.
//
// # Writing memories
//
// [Extract] lets a model decide, through tool calls, which documents to create, patch,
// and remove. It validates each call and asks the model to correct invalid ones. The
// result is a [ChangeSet], a proposal that is not yet stored. A [Manager] adds
// instructions about what to remember and can take several steps.
//
// A [StoreManager] searches a store for related memories, lets a manager decide, and
// writes the changes in one batch. Earlier versions remain in the store's history. An
// item's value is {"kind": …, "content": …}, and its Meta records its [Provenance]. Each
// change emits an [ItemChange] event and can be undone. A model can also rate its
// confidence and a document's importance and validity; see [ExtractOptions].
//
// [ManageTool] and [SearchTool] let agents manage their own memories.
//
// # Recall
//
// A [Recaller] finds relevant memories without a model. It ranks them by semantic
// similarity, keywords, recency, importance, and use, and renders the best as a block of
// prompt text within a token limit.
//
// [Middleware] combines all of this: it adds the block to each model call, then passes
// the conversation to a [StoreManager], through a [Reflector] if one is set.
//
//	         ┌── Recaller ──▶ block after the system prompt
//	store ◀──┤
//	         └── StoreManager ◀── Reflector ◀── conversation, once the thread is quiet
//
// # Erasure
//
// [Erasure] erases everything stored about a person: memories, threads, pending work,
// and server data.
//
// # Prompts
//
// [Instructions] is a prompt kept in the store; running agents use a new version from their
// next call. The optimizer of package memory/prompts improves it from past conversations
// and feedback.
package memory
