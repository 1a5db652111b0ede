// Package openai talks to OpenAI's Chat Completions API, and to every server that
// speaks it: Ollama, vLLM, OpenRouter, DeepSeek, Groq and others.
//
//	model, err := openai.New("gpt-5-mini", nil) // with the key in OPENAI_API_KEY
//	model, err := openai.New("qwen3", &openai.Options{BaseURL: "http://localhost:11434/v1"})
//
// # OpenAI and the others
//
// OpenAI refuses what it does not know, and other servers do not know all that
// OpenAI does. So at api.openai.com, and only there, max_completion_tokens takes
// the place of max_tokens, reasoning is not sent back (nor is it ever shown),
// and a block of an unknown type is an error. Other servers get such blocks as
// they are, and videos as video_url.
//
// # Reasoning
//
// What a server sends as reasoning_content or reasoning becomes a reasoning
// block. While the model is still working on the last message of the user,
// calling tools, it gets its reasoning back in the field where it came from;
// earlier reasoning is left out, as servers ask. OpenRouter's reasoning_details,
// in which the signatures are, are always sent back as they came. Reasoning of
// other providers is never sent.
//
// # Structured output
//
// A schema is sent in strict mode, to which OpenAI holds the model:
//
//   - all properties are required, and one that was optional may be null
//     instead: [llm.Object] takes such a null as absent;
//   - no object may have further properties;
//   - what strict mode does not know and what does not change the shape of the
//     value is left out: defaults, lengths of strings, other formats than the
//     documented ones. [llm.Object] checks the answer against all of it.
//
// A schema that strict mode cannot say, such as one with a map or a value of any
// type, is sent as it is, with strict off: it is then a hint to the model.
//
// The schemas of tools are sent as they are. A tool with strict in its Extra gets
// the same treatment, except that a schema that cannot be strict is an error.
package openai
