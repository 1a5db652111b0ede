// Package anthropic lets programs ask Anthropic's Claude models, through
// Anthropic's official SDK:
//
//	model, err := anthropic.New("claude-sonnet-5-5", nil) // the key is in ANTHROPIC_API_KEY
//	answer, err := llm.Generate(ctx, model, llm.User("Why do owls hoot?"))
//
// [Provider] is for [llm.Open]. Anthropic has no embeddings.
//
// # What is sent
//
// System messages at the beginning are the system prompt, each of their texts a
// block of its own. A system message further on is sent as what Anthropic calls a
// mid-conversation system message, behind the user's messages and tool results
// that it stands among. Only some models take those; the others refuse the
// request. One that stands among no such messages is a [*llm.HistoryError].
//
// Messages of the user and results of tools that follow each other are one turn.
// Images may be bytes, addresses or ids of uploaded files; files may be PDFs and
// texts. Other media are an error. Of an answer's content goes back what Claude
// gave: its thinking with its signature, unchanged, and the blocks of tools that
// Anthropic runs. The reasoning and the tools' blocks of other providers' models
// mean nothing to Claude and are left out. Texts of nothing but spaces are left
// out too: Anthropic refuses them.
//
// Where Anthropic's API has cache_control, [llm.Block.Extra] and
// [llm.Tool.Extra] may have it too.
//
// # Settings
//
// The API wants a limit of tokens. If [llm.Request.MaxTokens] is not set, it is
// 16384, which includes what the model thinks.
//
// [llm.Request.Reasoning] turns thinking on, and gives its effort: "low",
// "medium" or "high", or Anthropic's own "xhigh" and "max". Models before Claude
// 4.6 know a budget of tokens instead: a quarter, a half or three quarters of the
// limit. "none" turns thinking off, which some models refuse. Seed is ignored.
//
// # What comes back
//
// Thinking arrives as reasoning blocks, its signature in their Extra. The
// Metadata of an answer has model_provider, model_name, id, stop_reason
// (Anthropic's own word for [llm.Message.Stop]) and, where there is one,
// stop_sequence or the stop_details of a refusal. A turn that Anthropic paused,
// to be sent back as it is and continued, stops for "pause_turn", which has no
// equal in [llm].
//
// Citations are in the Extra of a text block: in a whole answer that of the text
// that they are about, in a stream an empty one right behind it.
//
// Failures are of type [*llm.Error]. Nothing is retried: that is [llm.Retry]'s
// part.
package anthropic
