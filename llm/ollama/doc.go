// Package ollama implements [llm.Model] and [store.Embedder] with Ollama's own API.
//
//	model, err := ollama.New("qwen3", nil) // on this machine, or the server in OLLAMA_HOST
//	answer, err := llm.Generate(ctx, model, llm.User("Why do owls hoot?"))
//
// Ollama also serves OpenAI's protocol, which package openai implements. The
// protocol has no field for the size of the context window, so only this package
// can set it.
//
// # The context window
//
// Ollama serves every model with a small window, 4096 tokens on most machines,
// whatever the model supports. By default, it removes the start of a longer
// conversation and reports nothing. Requests of this package disable that: a
// conversation that does not fit causes an [*llm.ContextError]. Set
// [Options].Context to the window that the model and the machine support.
//
// # Requests
//
// Images are sent as bytes; a URL causes an error, and so do other media. The
// images of a tool result follow in a user message. Thinking is sent back while the
// model calls tools to answer the user's last message, and never to another model
// provider. The API cannot force a tool call: [llm.ToolChoiceAny] and tool names
// cause an error, and [llm.ToolChoiceNone] sends no tools.
//
// [llm.Request].Reasoning "none" disables thinking; any other value enables it. The
// gpt-oss models also use the value as the effort: "low", "medium", or "high".
//
// [llm.Setting] sets fields of the request, such as keep_alive. The fields of the
// setting "options" are added to the options derived from the request:
//
//	llm.Setting("options", map[string]any{"top_k": 20, "min_p": 0.1})
//
// # Responses
//
// Thinking becomes reasoning blocks. The Metadata of a response contains
// model_provider, model_name, created_at, done_reason, and the durations that the
// server measured, in nanoseconds.
//
// Failures have the type [*llm.Error]. Nothing is retried; use [llm.Retry]. A
// missing model is not downloaded, because that takes minutes: use [Pull].
package ollama
