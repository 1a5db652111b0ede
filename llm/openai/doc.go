// Package openai implements [llm.Model] and [store.Embedder] with OpenAI's
// Responses, Chat Completions, and embeddings APIs. It also works with Azure OpenAI,
// and with other servers that provide these APIs: Ollama, vLLM, OpenRouter,
// DeepSeek, Groq, and others.
//
//	model, err := openai.New("gpt-5-mini", nil) // with the key in OPENAI_API_KEY
//	model, err := openai.New("my-deployment", &openai.Options{BaseURL: "https://RESOURCE.openai.azure.com", Key: key})
//	model, err := openai.New("qwen3", &openai.Options{BaseURL: "http://localhost:11434/v1"})
//
// # Which API
//
// [Options].API selects the API. By default, models of OpenAI and Azure use the
// Responses API, because OpenAI's current models reject function tools in Chat
// Completions unless reasoning is off. Models of other servers use Chat Completions,
// which nearly all of them support.
//
// # Responses
//
// The server stores nothing unless [Options].Stateful is set. Requests contain the
// whole conversation, including encrypted reasoning and the items of tools that the
// server ran, in the order in which the model wrote them. Only the server that wrote
// an item gets it back. If the server can no longer decrypt the reasoning, the
// request is sent once more without it.
//
// [llm.ProviderTool] describes a tool that the server runs, such as web_search,
// file_search, code_interpreter, image_generation, or mcp. Its output is a block of
// the item's type (web_search_call, mcp_call, …) with the item's fields in Extra,
// and citations are the annotations of text blocks. To approve an MCP call, send a
// user message with a block of type mcp_approval_response.
//
// A tool whose Extra contains {"type": "custom"} takes free text instead of JSON. Its
// function gets the text as the argument __arg1.
//
// Settings are added to the request: prompt_cache_key, service_tier, safety_identifier,
// truncation, and others. The settings reasoning, text, and include extend the
// values of this package:
//
//	llm.Setting("reasoning", map[string]any{"summary": "auto"})
//	llm.Setting("text", map[string]any{"verbosity": "low"})
//
// In a run on a thread, requests to OpenAI and Azure contain a hash of the thread ID as
// prompt_cache_key, unless it is set.
//
// The API has no stop words, no seed, and no audio. A refusal is a text block with
// refusal in its Extra.
//
// # Chat Completions of OpenAI and other servers
//
// OpenAI rejects requests with unknown parts, and other servers do not support
// everything that OpenAI does. Chat Completions requests to OpenAI and Azure
// therefore differ from requests to other servers:
//
//   - The token limit is max_completion_tokens, not max_tokens.
//   - Reasoning is not sent back. (OpenAI does not return any.)
//   - A block of an unknown type is an error. Other servers get it unchanged, and
//     videos as video_url.
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
