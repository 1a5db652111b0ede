package llm

import "encoding/json"

// ToolCall is a model's wish to have a tool called.
type ToolCall struct {
	// ID is the call's name: the result refers to it.
	ID   string
	Name string // of the tool
	// Args is a JSON object. Empty stands for {}.
	Args json.RawMessage
	// Extra holds what else the provider wants to see again with the call, such
	// as a signature, and the fields of the call's JSON that have no field here.
	Extra map[string]any
}

// InvalidToolCall is a tool call whose arguments are no JSON object.
type InvalidToolCall struct {
	ID    string
	Name  string
	Args  string // what the model wrote
	Error string // what is wrong with it
	Extra map[string]any
}

// ToolCallChunk is a piece of a tool call as it is streamed. Pieces with the
// same Index are one call, whose ID, Name and Args are joined of the pieces'.
type ToolCallChunk struct {
	Index *int
	ID    string
	Name  string
	Args  string // a piece of the arguments' JSON
	Extra map[string]any
}
