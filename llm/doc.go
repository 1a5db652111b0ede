// Package llm has messages, models and tools, in one form for all providers of
// language models.
//
// A [Message] is one turn of a conversation. Make it with [User], [System],
// [Assistant] or [ToolResult]. A conversation is of type [Messages]: as a field of
// a graph's state it merges updates by message id. Its JSON is LangChain's. Other
// common forms are read too: a string, a pair of role and content, and OpenAI's
// {"role": "user"}.
//
// A [Model] turns a [Request] into a stream of [Chunk] values. Providers and tests
// implement its one method; callers use these functions:
//
//   - [Generate] returns the whole answer as a message. Inside a run of a graph,
//     the run's stream has the tokens as they arrive.
//   - [Stream] yields the answer in chunks.
//   - [Object] asks for a value of a Go type.
//
// [With] binds settings to a model. [Retry], [Fallback], [RateLimit] and [Cache]
// wrap a model.
//
// A [Tool] is a Go function that a model may ask to call. [NewTool] derives the
// schema of the arguments from the function's type.
//
// # Incomplete histories
//
// Providers reject a conversation that has a tool call without a result, or a
// result without a call. Generate, Stream and Object therefore pass the history
// through [Repair], so a thread stays usable after a cancelled turn or a removed
// message.
package llm
