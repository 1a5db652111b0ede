// Package openai implements [llm.Model] and [llm.Embedder] with OpenAI's Chat
// Completions and embeddings APIs. It also works with other servers that provide
// these APIs: Ollama, vLLM, OpenRouter, DeepSeek, Groq, and others.
//
//	model, err := openai.New("gpt-5-mini", nil) // with the key in OPENAI_API_KEY
//	model, err := openai.New("qwen3", &openai.Options{BaseURL: "http://localhost:11434/v1"})
//
// # OpenAI and other servers
//
// OpenAI rejects requests with unknown parts, and other servers do not support
// everything that OpenAI does. Requests to api.openai.com therefore differ from
// requests to other servers:
//
//   - The token limit is max_completion_tokens, not max_tokens.
//   - Reasoning is not sent back. (OpenAI does not return any.)
//   - A block of an unknown type is an error. Other servers get it unchanged, and
//     videos as video_url.
//
// # Reasoning
//
// A server's reasoning_content or reasoning becomes a reasoning block. While the
// model calls tools to answer the user's last message, its reasoning is sent back
// in the field that it came in. Earlier reasoning is not sent, as servers require.
// OpenRouter's reasoning_details, which contain signatures, are always sent back
// unchanged. Reasoning of other providers is never sent.
//
// # Structured output
//
// A schema is sent in strict mode, where OpenAI guarantees that the response
// matches it. Strict mode requires a modified schema:
//
//   - All properties are required. An optional one may be null, which [llm.Object]
//     treats as absent.
//   - No object may have additional properties.
//   - Defaults, string lengths, and formats that OpenAI does not document are
//     removed. [llm.Object] still checks the response against the original schema.
//
// A schema that strict mode cannot express, such as one with a map or a value of
// any type, is sent unchanged with strict off, as a hint to the model.
//
// Tool schemas are sent unchanged, unless the tool has strict in its Extra. In that
// case, they are modified in the same way, and a schema that strict mode cannot
// express is an error.
package openai
