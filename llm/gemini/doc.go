// Package gemini implements [llm.Model] and [store.Embedder] for Google's Gemini
// models, through the Gemini API or, with [Options].Vertex, through Google Cloud's
// Vertex AI. It uses Google's official SDK.
//
//	model, err := gemini.New("gemini-3.8-flash", nil) // with the key in GEMINI_API_KEY
//	answer, err := llm.Generate(ctx, model, llm.User("Why do owls hoot?"))
//
// [Provider] is for [llm.Open] and [llm.OpenEmbedder].
//
// # Vertex AI
//
// Vertex AI needs a project, a location, and a token in place of a key:
//
//	model, err := gemini.New("gemini-3.8-flash", &gemini.Options{Vertex: true}) // the project is in GOOGLE_CLOUD_PROJECT
//
// The two APIs are alike. Vertex AI has no uploaded files ("files/…"), but accepts
// gs:// URLs. Thought signatures and the output of tools that Google ran are not
// sent from one API to the other.
//
// # Requests
//
// All system messages, wherever they occur, become the system instruction, because
// the API supports no others. Images, audio, videos, and files may be given by
// bytes, URL, or the ID of an uploaded file ("files/…"), including in tool results.
// The API requires the type of a file. For a URL without a MIMEType, it is derived
// from the URL's extension.
//
// Setting names are those of the request body. Parameters in the API's
// generationConfig are set like this:
//
//	llm.Setting("generationConfig", map[string]any{"topK": 40})
//
// A tool that Google runs has no Run, and its Extra is the tool in the API's
// format: {"googleSearch": {}}.
//
// The API cannot prevent several calls in one response. With [llm.SerialTools],
// only the first call of a response is kept.
//
// # Reasoning
//
// [llm.Request].Reasoning is the API's thinking level: "minimal", "low", "medium",
// or "high". "none" means "minimal", because Gemini 3 always thinks. Gemini 2 uses
// a token budget instead: 0 for "none", 1024 for "low", 8192 for "medium", and
// 24576 for "high". A number is a budget for any model, and "-1" lets the model
// decide. Unless Reasoning is "none" or "0", the API returns a summary of the
// thoughts, which becomes reasoning blocks.
//
// The API's thought signatures are kept in the Extra of blocks and tool calls, as
// "signature", and sent back with them. Gemini 3 requires the signatures of calls.
// Calls by another provider's model have none; the request then tells the API to
// skip the check. The reasoning of other providers' models is not sent.
//
// # Responses
//
// The API assigns IDs to some function calls only. The others get an ID derived
// from the response ID and the position of the call; these IDs are not sent back.
//
// If Google withholds a prompt or a response, Stop is [llm.StopFilter]. If a
// response ends for a reason that makes it unusable, such as
// MALFORMED_FUNCTION_CALL, the error is an [*llm.Error] with that Code.
//
// The Metadata of a response contains model_provider, model_name, id, and the API's
// finish_reason. It contains block_reason, safety_ratings, citation_metadata,
// grounding_metadata, url_context_metadata, and logprobs_result if the API returns
// them. Other parts of a response, such as code that Google ran, become blocks of
// type "gemini_part" with the part in their Extra, and are sent back unchanged.
//
// Failures have the type [*llm.Error]. Nothing is retried; use [llm.Retry].
package gemini
