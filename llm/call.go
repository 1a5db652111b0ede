package llm

import "encoding/json"

// ToolCall is a model's request to call a tool.
type ToolCall struct {
	// ID identifies the call. The result has it as ToolCallID.
	ID   string
	Name string // of the tool
	// Args is a JSON object. Empty means {}.
	Args json.RawMessage
	// Extra holds the fields of the call's JSON that have no field here, such as
	// a signature that the provider needs back.
	Extra map[string]any
}

// InvalidToolCall is a tool call whose arguments are not a JSON object.
type InvalidToolCall struct {
	ID    string
	Name  string
	Args  string // what the model wrote
	Error string // why it is invalid
	Extra map[string]any
}

// ToolCallChunk is a streamed piece of a tool call. Pieces with the same Index
// are one call: its ID, Name and Args are those of the pieces, concatenated.
type ToolCallChunk struct {
	Index *int
	ID    string
	Name  string
	Args  string // a piece of the arguments' JSON
	Extra map[string]any
}
