package llm

import "encoding/json"

// ToolCall is a model's request to call a tool.
type ToolCall struct {
	// ID identifies the call. The result has it as its ToolCallID.
	ID   string
	Name string // the name of the tool
	// Args is a JSON object. Empty means {}.
	Args json.RawMessage
	// Extra contains the fields of the call's JSON that have no field here, such as
	// a signature that the provider expects back.
	Extra map[string]any
}

// InvalidToolCall is a tool call whose arguments are not a JSON object.
type InvalidToolCall struct {
	ID    string
	Name  string
	Args  string // the text that the model wrote
	Error string // why it is invalid
	Extra map[string]any
}

// ToolCallChunk is a streamed piece of a tool call. Pieces with the same Index and no
// differing ID form one call. Their Args are concatenated. A Name is appended to the name
// so far, unless it repeats it.
type ToolCallChunk struct {
	Index *int
	ID    string
	Name  string
	Args  string // a piece of the arguments' JSON
	Extra map[string]any
}
