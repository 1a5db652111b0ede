// Package anthropic implements [llm.Model] for Anthropic's Claude models. It uses
// Anthropic's official SDK.
//
//	model, err := anthropic.New("claude-sonnet-5-5", nil) // the key is in ANTHROPIC_API_KEY
//	answer, err := llm.Generate(ctx, model, llm.User("Why do owls hoot?"))
//
// [Provider] is for [llm.Open]. Anthropic has no embeddings.
//
// # Requests
//
// System messages at the start form the system prompt; each of their texts is one
// block. A later system message is sent as a mid-conversation system message, after
// the user messages and tool results around it. Only some models accept these. A
// system message without an adjacent user message or tool result causes a
// [*llm.HistoryError].
//
// Consecutive user messages and tool results form one turn. Images may be given by
// bytes, URL, or the ID of an uploaded file; files may be PDFs and texts. Other
// media cause an error. Claude's thinking is sent back unchanged, with its
// signature, and so are the blocks of tools that Anthropic runs. The reasoning and
// tool blocks of other providers are not sent, and neither are blank texts, because
// Anthropic rejects them.
//
// [llm.CachePrompt] marks the prompt for Anthropic's cache. For marks in other
// places, the Extra of an [llm.Block] or an [llm.Tool] may contain cache_control.
//
// # Settings
//
// The API requires a token limit, which includes thinking. If
// [llm.Request].MaxTokens is 0, the limit is 16384.
//
// [llm.Request].Reasoning enables thinking and sets its effort: "low", "medium",
// "high", or Anthropic's "xhigh" and "max". Models before Claude 4.6 use a token
// budget instead: a quarter, half, or three quarters of the limit, and at least
// 1024. "none" disables thinking, which some models reject. Seed is ignored.
//
// # Responses
//
// Thinking becomes reasoning blocks, with the signature in their Extra. The
// Metadata of a response contains model_provider, model_name, id, and stop_reason,
// Anthropic's value for [llm.Message].Stop. It may also contain stop_sequence, or
// the stop_details of a refusal. If Anthropic pauses a turn, Stop is "pause_turn":
// send the message back unchanged to continue the turn.
//
// Citations are in the Extra of the text blocks that they belong to, and go back to
// Anthropic with the text. If a request has a tool that Anthropic runs, or documents
// with citations, all texts of the response are blocks.
//
// Failures have the type [*llm.Error]. Nothing is retried; use [llm.Retry].
package anthropic
