// Package openai is a client of OpenAI's Chat Completions API, and of every server
// with the same API: Ollama, vLLM, OpenRouter, DeepSeek, Groq and others.
//
//	model, err := openai.New("gpt-5-mini", nil) // with the key in OPENAI_API_KEY
//	model, err := openai.New("qwen3", &openai.Options{BaseURL: "http://localhost:11434/v1"})
//
// # OpenAI and other servers
//
// OpenAI rejects requests with unknown parts, and other servers do not support all
// that OpenAI does. So requests to api.openai.com differ from those to other
// servers:
//
//   - The limit of tokens is max_completion_tokens, not max_tokens.
//   - Reasoning is not sent back. (OpenAI does not return any.)
//   - A block of an unknown type is an error. Other servers get it unchanged, and
//     videos as video_url.
//
// # Reasoning
//
// A server's reasoning_content or reasoning becomes a reasoning block. While the
// model calls tools to answer the last message of the user, its reasoning is sent
// back in the field that it came in. Earlier reasoning is not sent, as servers
// require. OpenRouter's reasoning_details, which have signatures, are always sent
// back unchanged. Reasoning of other providers is never sent.
//
// # Structured output
//
// A schema is sent in strict mode, in which OpenAI guarantees that the answer fits.
// Strict mode needs a changed schema:
//
//   - All properties are required. An optional one may be null, which [llm.Object]
//     treats as absent.
//   - No object may have further properties.
//   - Defaults, lengths of strings and formats that OpenAI does not document are
//     removed. [llm.Object] still checks the answer against the original schema.
//
// A schema that strict mode cannot express, such as one with a map or a value of
// any type, is sent unchanged with strict off: it is then a hint to the model.
//
// The schemas of tools are sent unchanged, unless the tool has strict in its Extra.
// Then they are changed in the same way, and a schema that strict mode cannot
// express is an error.
package openai
