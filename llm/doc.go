// Package llm is the vocabulary of talking to language models: messages, models
// and tools, the same for every provider.
//
// A [Message] is one turn of a conversation, made by [User], [System],
// [Assistant] or [ToolResult]. A conversation is [Messages]: as a field of a
// graph's state it merges updates by message id. Its JSON is LangChain's, and
// the shapes that people write by hand are read as well: a plain string, a pair
// of role and content, OpenAI's {"role": "user"}.
//
// A [Model] turns a [Request] into a stream of [Chunk] values. It has one method,
// which providers and tests implement; callers use [Generate], which collects
// the stream into one message and lets the run around it (if there is one) see
// the tokens as they arrive, or [Object], which asks for a value of a Go type.
// [With] binds settings to a model; [Retry], [Fallback], [RateLimit] and [Cache]
// wrap one.
//
// A [Tool] is a Go function that a model may ask to call. [NewTool] derives the
// schema of its arguments from the function's type.
//
// # The history that a model sees
//
// Providers refuse a conversation in which a tool call has no result, or a
// result no call. Every way to a model in this package passes the history
// through [Repair] first, so a cancelled turn or a removed message never makes
// a thread unusable.
package llm
