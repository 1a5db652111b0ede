// Package gemini talks to Google's Gemini models, through Google's official SDK
// and the Gemini API:
//
//	model, err := gemini.New("gemini-3.8-flash", nil) // with the key in GEMINI_API_KEY
//	answer, err := llm.Generate(ctx, model, llm.User("Why do owls hoot?"))
//
// [Provider] is for [llm.Open] and [llm.OpenEmbedder].
//
// # What is sent
//
// All system messages are the system instruction, wherever they stand: the API
// knows no others. Images, sounds, videos and files may be bytes, addresses or
// ids of uploaded files ("files/…"), and may stand in results of tools as well.
// The API wants to know what kind of file it is; for an address without a
// MIMEType that is taken from the name's ending.
//
// Setting names are those of the request's body, so what belongs to
// generationConfig stands in it:
//
//	llm.Setting("generationConfig", map[string]any{"topK": 40})
//
// A tool that Google runs has no Run, and its Extra is what the API calls a
// tool: {"googleSearch": {}}.
//
// The API cannot forbid several calls in one answer. With [llm.SerialTools] the
// first call of an answer counts; the others are left out of it.
//
// # Reasoning
//
// [llm.Request.Reasoning] is the API's thinking level: "low", "medium" or "high",
// or "minimal", which "none" means too, as Gemini 3 cannot be kept from thinking.
// Gemini 2 knows a budget of tokens instead: 0, 1024, 8192 and 24576 for "none" to
// "high". A number is a budget for every model, and "-1" leaves it to the model.
// Unless it is "none", the summary of the thoughts is asked for and comes as
// reasoning blocks.
//
// The signatures by which the models know their thoughts again are kept in the
// Extra of blocks and tool calls, as "signature", and sent back with them; Gemini
// 3 insists on those of calls. Calls that another provider's model made have none;
// the API is then told that it need not look for one. The reasoning of other
// providers' models is left out.
//
// # What comes back
//
// Function calls have ids only where the API gives them. Others get one that is
// made of the response's id and the place of the call; such ids are not sent.
//
// A prompt or an answer that Google withholds stops for [llm.StopFilter]. An
// answer that ends for a reason that makes it useless, such as
// MALFORMED_FUNCTION_CALL, is an [*llm.Error] with that Code. The Metadata of an
// answer has model_provider, model_name, id and finish_reason (the API's own
// word), and where there are such block_reason, safety_ratings,
// citation_metadata, grounding_metadata, url_context_metadata and
// logprobs_result. Other parts of an answer, such as code that Google ran,
// are blocks of type "gemini_part", with the part as the API writes it in their
// Extra, and are sent back as they are.
//
// Failures are of type [*llm.Error]. Nothing is retried: that is [llm.Retry]'s
// part.
package gemini
