package llm

import "strings"

// Role identifies the author of a message. The values are LangChain's message
// types.
type Role string

// Roles of messages. In JSON, "user", "assistant", and "developer" are also
// accepted.
const (
	RoleHuman  Role = "human"
	RoleAI     Role = "ai"
	RoleSystem Role = "system"
	RoleTool   Role = "tool"
	// RoleRemove marks an update that removes the message with the same ID; see
	// [Remove].
	RoleRemove Role = "remove"
)

// Message is one entry of a conversation. Its Role determines which fields are
// used. To change a message, change the fields of a copy. Do not change the
// elements of its slices and maps, because copies share them.
type Message struct {
	Role Role
	// ID identifies the message within its conversation. [Messages.Reduce] assigns
	// an ID to a message without one.
	ID string
	// Name is the name of the author: the agent of an AI message, or the tool of a
	// tool message.
	Name string

	// Content is the message's text. Blocks contain content that is not plain text.
	// If both are set, Content comes first. See [Message.Text] and [Message.Parts].
	Content string
	Blocks  []Block

	// ToolCalls lists the calls that an AI message requests. They come after the
	// content, unless blocks of type [BlockToolCall] mark their places; see
	// [Message.Sequence].
	ToolCalls []ToolCall
	// InvalidToolCalls lists calls of an AI message whose arguments are not a JSON
	// object.
	InvalidToolCalls []InvalidToolCall
	// Usage contains the token counts of the call that produced an AI message, if
	// known.
	Usage *Usage
	// Stop is the reason why the model ended an AI message.
	Stop StopReason
	// Metadata contains further data from the provider about its response
	// (LangChain's response_metadata).
	Metadata map[string]any

	// ToolCallID is the ID of the call that a tool message answers.
	ToolCallID string
	// Status is the status of a tool message; empty means success.
	Status Status
	// Artifact is a part of a tool's result that is not sent to models. It must be
	// encodable as JSON.
	Artifact any

	// Extra contains the fields of the message's JSON that have no field here, such
	// as additional_kwargs. They are written back to JSON.
	Extra map[string]any
}

// Status is the outcome of a tool call.
type Status string

// Statuses of tool messages.
const (
	StatusSuccess Status = "success"
	StatusError   Status = "error"
)

// StopReason is the reason why a model ended its response. The values are the same
// for all providers. The message's Metadata may contain the provider's own value.
type StopReason string

// Reasons why models stop.
const (
	// StopEnd means that the response is complete.
	StopEnd StopReason = "stop"
	// StopTools means that the model waits for the results of its tool calls.
	StopTools StopReason = "tool_calls"
	// StopLength means that the response was truncated at the token limit.
	StopLength StopReason = "length"
	// StopRefusal means that the model refused to answer. The content, if any,
	// gives the reason.
	StopRefusal StopReason = "refusal"
	// StopFilter means that the provider withheld the response or part of it.
	StopFilter StopReason = "content_filter"
)

// User returns a user message.
func User(text string, blocks ...Block) Message {
	return Message{Role: RoleHuman, Content: text, Blocks: blocks}
}

// System returns a message with instructions for the model.
func System(text string) Message { return Message{Role: RoleSystem, Content: text} }

// Assistant returns a model's message, with the tool calls that it requests.
func Assistant(text string, calls ...ToolCall) Message {
	return Message{Role: RoleAI, Content: text, ToolCalls: calls}
}

// Remove returns an update that removes the message with the given ID from a
// conversation. Applying it fails if the conversation does not contain the message.
func Remove(id string) Message { return Message{Role: RoleRemove, ID: id} }

// removeAll is the message ID that clears a conversation, as in LangGraph.
const removeAll = "__remove_all__"

// RemoveAll returns an update that removes all messages of a conversation, and the
// messages before it in the same update. Messages after it in the update are kept.
func RemoveAll() Message { return Message{Role: RoleRemove, ID: removeAll} }

// MessageID returns the message's ID. Runs use it to detect messages that were
// already streamed.
func (m Message) MessageID() string { return m.ID }

// Text returns the text of the message: Content and the text of its text blocks,
// concatenated.
func (m Message) Text() string {
	if len(m.Blocks) == 0 {
		return m.Content
	}
	var b strings.Builder
	b.WriteString(m.Content)
	for i := range m.Blocks {
		if m.Blocks[i].Type == BlockText {
			b.WriteString(m.Blocks[i].Text)
		}
	}
	return b.String()
}

// Reasoning returns the text of the message's reasoning blocks, concatenated.
func (m Message) Reasoning() string {
	var b strings.Builder
	for _, p := range m.Blocks {
		if p := p.standard(); p.Type == BlockReasoning {
			b.WriteString(p.Reasoning)
		}
	}
	return b.String()
}

// Parts returns the content as a list of blocks, for implementations of [Model]:
// Content as a text block, then Blocks. Blocks in a provider's format (OpenAI's
// image_url, input_audio, and file; Anthropic's source, thinking, and document) are
// converted to the format of this package. Empty texts and blocks that repeat
// ToolCalls are omitted; [Message.Sequence] includes the calls. Blocks of unknown
// types are left unchanged.
func (m Message) Parts() []Block {
	parts := make([]Block, 0, 1+len(m.Blocks))
	if m.Content != "" {
		parts = append(parts, Block{Type: BlockText, Text: m.Content})
	}
	for _, b := range m.Blocks {
		b = b.standard()
		if b.Type == BlockText && b.Text == "" || repeatsCall(b.Type) {
			continue
		}
		parts = append(parts, b)
	}
	return parts
}
