// Package gemini has Google's Gemini models, behind the Gemini API. It uses Google's
// official SDK.
//
//	model, err := gemini.New("gemini-3.8-flash", nil) // with the key in GEMINI_API_KEY
//	answer, err := llm.Generate(ctx, model, llm.User("Why do owls hoot?"))
//
// [Provider] is for [llm.Open] and [llm.OpenEmbedder].
//
// # Requests
//
// The system messages, wherever they are, become the system instruction: the API has
// no other. Images, sounds, videos and files may be given by bytes, URL or the id of
// an uploaded file ("files/…"), also in tool results. The API needs the type of a
// file. For a URL without a MIMEType it is taken from the ending of the URL.
//
// The names of settings are those of the request's body. Parameters that the API has
// in generationConfig are set like this:
//
//	llm.Setting("generationConfig", map[string]any{"topK": 40})
//
// A tool that Google runs has no Run, and its Extra is the tool in the API's form:
// {"googleSearch": {}}.
//
// The API cannot forbid several calls in one answer. With [llm.SerialTools] only the
// first call of an answer is kept.
//
// # Reasoning
//
// [llm.Request].Reasoning is the API's thinking level: "minimal", "low", "medium" or
// "high". "none" means "minimal", because Gemini 3 always thinks. Gemini 2 has a
// budget of tokens instead: 0 for "none", 1024 for "low", 8192 for "medium" and 24576
// for "high". A number is a budget for any model, and "-1" lets the model decide.
// Unless it is "none", the API returns a summary of the thoughts, which becomes
// reasoning blocks.
//
// The API's thought signatures are kept in the Extra of blocks and tool calls, as
// "signature", and sent back with them. Gemini 3 requires the signatures of calls.
// Calls of another provider's model have none; the API is then told to skip the
// check. The reasoning of other providers' models is not sent.
//
// # Answers
//
// The API gives ids to some function calls only. The others get an id made from the
// response's id and the position of the call; these ids are not sent back.
//
// If Google withholds a prompt or an answer, Stop is [llm.StopFilter]. If an answer
// ends for a reason that makes it useless, such as MALFORMED_FUNCTION_CALL, the error
// is an [*llm.Error] with that Code.
//
// The Metadata of an answer has model_provider, model_name, id and the API's
// finish_reason. It has block_reason, safety_ratings, citation_metadata,
// grounding_metadata, url_context_metadata and logprobs_result if the API returns
// them. Other parts of an answer, such as code that Google ran, become blocks of type
// "gemini_part" with the part in their Extra, and are sent back unchanged.
//
// Failures are of type [*llm.Error]. Nothing is retried; use [llm.Retry].
package gemini
