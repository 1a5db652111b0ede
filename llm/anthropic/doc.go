// Package anthropic has Anthropic's Claude models. It uses Anthropic's official SDK.
//
//	model, err := anthropic.New("claude-sonnet-5-5", nil) // the key is in ANTHROPIC_API_KEY
//	answer, err := llm.Generate(ctx, model, llm.User("Why do owls hoot?"))
//
// [Provider] is for [llm.Open]. Anthropic has no embeddings.
//
// # Requests
//
// System messages at the beginning are the system prompt; each of their texts is
// one block. A later system message is sent as a mid-conversation system message,
// after the messages of the user and the tool results around it. Only some models
// accept these. A system message without a message of the user or a tool result
// next to it is a [*llm.HistoryError].
//
// Consecutive messages of the user and tool results are one turn. Images may be
// given by bytes, URL or the id of an uploaded file; files may be PDFs and texts.
// Other media are an error. Claude's thinking is sent back unchanged, with its
// signature, and so are the blocks of tools that Anthropic runs. The reasoning and
// tool blocks of other providers are not sent. Blank texts are not sent either,
// because Anthropic rejects them.
//
// cache_control may be put into the Extra of an [llm.Block] or an [llm.Tool].
//
// # Settings
//
// The API requires a limit of tokens, which includes the thinking. If
// [llm.Request].MaxTokens is 0, it is 16384.
//
// [llm.Request].Reasoning turns thinking on and sets its effort: "low", "medium",
// "high", or Anthropic's "xhigh" and "max". Models before Claude 4.6 have a budget
// of tokens instead: a quarter, a half or three quarters of the limit. "none" turns
// thinking off, which some models reject. Seed is ignored.
//
// # Answers
//
// Thinking becomes reasoning blocks, with the signature in their Extra. The Metadata
// of an answer has model_provider, model_name, id and stop_reason, which is
// Anthropic's value for [llm.Message].Stop. It may also have stop_sequence, or the
// stop_details of a refusal. If Anthropic pauses a turn, Stop is "pause_turn": send
// the answer back unchanged to continue the turn.
//
// Citations are in the Extra of text blocks. In a whole answer it is the block that
// they belong to; in a stream it is an empty block after it.
//
// Failures are of type [*llm.Error]. Nothing is retried; use [llm.Retry].
package anthropic
