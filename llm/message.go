package llm

import (
	"slices"
	"strings"
)

// Role says who speaks in a message. The values are LangChain's message types.
type Role string

// The roles of messages. In JSON "user", "assistant" and "developer" are read
// as well.
const (
	RoleHuman  Role = "human"
	RoleAI     Role = "ai"
	RoleSystem Role = "system"
	RoleTool   Role = "tool"
	// RoleRemove is no turn of a conversation but an update of one: it takes
	// the message with its id away. See [Remove].
	RoleRemove Role = "remove"
)

// Message is one turn of a conversation. Which fields count depends on its
// Role. A message is a value: copy it, then change the copy's fields, but never
// what its slices and maps hold, which other copies share.
type Message struct {
	Role Role
	// ID identifies the message within its conversation. [Messages.Reduce]
	// gives one to a message that has none.
	ID string
	// Name tells several speakers of one role apart: the agent that an AI
	// message is from, the tool that a tool message is from.
	Name string

	// Content is the message's text. What is not plain text stands in Blocks;
	// if there are both, Content comes first. See [Message.Text] and
	// [Message.Parts].
	Content string
	Blocks  []Block

	// ToolCalls is what an AI message asks to be called. These are the calls,
	// whatever blocks there are in its content.
	ToolCalls []ToolCall
	// InvalidToolCalls are calls of an AI message whose arguments are no JSON
	// object.
	InvalidToolCalls []InvalidToolCall
	// Usage counts the tokens of the call that gave an AI message, if known.
	Usage *Usage
	// Stop is why the model stopped, for an AI message.
	Stop StopReason
	// Metadata is what else the provider said about its answer (LangChain's
	// response_metadata).
	Metadata map[string]any

	// ToolCallID is the call that a tool message answers.
	ToolCallID string
	// Status of a tool message; empty is a success.
	Status Status
	// Artifact is what a tool made besides what it tells the model. Models
	// never see it. It must be JSON.
	Artifact any

	// Extra holds the fields of the message's JSON that have no field here, such
	// as additional_kwargs. They are kept and written back.
	Extra map[string]any
}

// Status is the outcome of a tool call.
type Status string

// The statuses of tool messages.
const (
	StatusSuccess Status = "success"
	StatusError   Status = "error"
)

// StopReason is why a model ended its answer, in one vocabulary for all
// providers. Providers' own words may stand in a message's Metadata.
type StopReason string

// The reasons for which models stop.
const (
	// StopEnd: the answer is complete.
	StopEnd StopReason = "stop"
	// StopTools: the model waits for the results of its tool calls.
	StopTools StopReason = "tool_calls"
	// StopLength: the answer was cut off by the limit of tokens.
	StopLength StopReason = "length"
	// StopRefusal: the model declined to answer; the content, if any, says why.
	StopRefusal StopReason = "refusal"
	// StopFilter: the provider withheld the answer or a part of it.
	StopFilter StopReason = "content_filter"
)

// User is a message from the user.
func User(text string, blocks ...Block) Message {
	return Message{Role: RoleHuman, Content: text, Blocks: blocks}
}

// System is an instruction to the model.
func System(text string) Message { return Message{Role: RoleSystem, Content: text} }

// Assistant is an answer of a model, with the tool calls that it asks for.
func Assistant(text string, calls ...ToolCall) Message {
	return Message{Role: RoleAI, Content: text, ToolCalls: calls}
}

// Remove is an update that takes the message with the given id out of a
// conversation. Removing a message that is not there is an error.
func Remove(id string) Message { return Message{Role: RoleRemove, ID: id} }

// removeAll is the id by which LangGraph clears a conversation.
const removeAll = "__remove_all__"

// RemoveAll is an update that clears a conversation: what stands before it goes,
// in the same update too, and what comes after it stays.
func RemoveAll() Message { return Message{Role: RoleRemove, ID: removeAll} }

// MessageID is the message's ID. By it a run knows which messages its stream
// has shown already.
func (m Message) MessageID() string { return m.ID }

// Text is all the text of the message: Content and the text of its text blocks,
// without anything between them.
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

// Reasoning is the text of the message's reasoning blocks, without anything
// between them.
func (m Message) Reasoning() string {
	var b strings.Builder
	for _, p := range m.Blocks {
		if p := p.standard(); p.Type == BlockReasoning {
			b.WriteString(p.Reasoning)
		}
	}
	return b.String()
}

// Parts is the content as providers' adapters want it: Content as a text block,
// then the blocks in this package's form, whichever provider's form they were
// written in (OpenAI's image_url, input_audio and file, Anthropic's source,
// thinking and document). Empty texts are left out, and so are blocks that
// repeat tool calls, which are in ToolCalls. Blocks of other types are given as
// they are.
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

// repeatsCall reports whether blocks of a type say in the content what stands
// in ToolCalls as well: LangChain's own and Anthropic's and OpenAI's.
func repeatsCall(typ string) bool {
	return slices.Contains([]string{"tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call", "function_call", "input_json_delta"}, typ)
}
