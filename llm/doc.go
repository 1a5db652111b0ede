// Package llm defines messages, models, and tools that work with every provider.
//
// A [Message] is one entry of a conversation. Create it with [User], [System],
// [Assistant], or [ToolResult]. A conversation has the type [Messages]: as a field
// of a graph's state, it merges updates by message ID. Its JSON is LangChain's.
// Other common forms are accepted too: a string, a pair of role and content, and
// OpenAI's {"role": "user"}.
//
// A [Model] turns a [Request] into a stream of [Chunk] values. Providers and tests
// implement its only method; callers use these functions:
//
//   - [Generate] returns the whole response as a message. Within the run of a
//     graph, the run's stream contains the tokens as they arrive.
//   - [Stream] yields the response in chunks.
//   - [Object] requests a value of a Go type.
//
// [With] binds settings to a model. [Retry], [Fallback], [RateLimit], and [Cache]
// wrap a model.
//
// A [Tool] is a Go function that a model may call. [NewTool] derives the schema of
// the arguments from the function's type.
//
// # Incomplete histories
//
// Providers reject a conversation that contains a tool call without a result, or a
// result without a call. Generate, Stream, and Object therefore pass the history
// through [Repair], so that a thread stays usable after a canceled turn or a
// removed message.
package llm
