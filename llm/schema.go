package llm

import "github.com/google/jsonschema-go/jsonschema"

// JSONSchema returns the schema of a message's JSON, which is part of a graph's
// state schema. [Message.UnmarshalJSON] accepts more forms than the schema.
func (Message) JSONSchema() *jsonschema.Schema {
	text := func() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }
	object := func() *jsonschema.Schema { return &jsonschema.Schema{Type: "object"} }
	list := func(of *jsonschema.Schema) *jsonschema.Schema { return &jsonschema.Schema{Type: "array", Items: of} }
	roles := []any{string(RoleHuman), string(RoleAI), string(RoleSystem), string(RoleTool), string(RoleRemove)}
	return &jsonschema.Schema{
		Title: "Message",
		Type:  "object",
		Properties: map[string]*jsonschema.Schema{
			"type":               {Type: "string", Enum: roles},
			"content":            {AnyOf: []*jsonschema.Schema{text(), list(&jsonschema.Schema{AnyOf: []*jsonschema.Schema{text(), object()}})}},
			"id":                 text(),
			"name":               text(),
			"tool_calls":         list(object()),
			"invalid_tool_calls": list(object()),
			"tool_call_id":       text(),
			"status":             {Type: "string", Enum: []any{string(StatusSuccess), string(StatusError)}},
			"artifact":           {},
			"usage_metadata":     object(),
			"response_metadata":  object(),
			"additional_kwargs":  object(),
		},
		PropertyOrder: []string{"type", "content", "id", "name", "tool_calls", "invalid_tool_calls", "tool_call_id", "status", "artifact",
			"usage_metadata", "response_metadata", "additional_kwargs"},
		Required: []string{"type", "content"},
	}
}

// JSONSchema returns the schema of a conversation's JSON.
func (Messages) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "array", Items: Message{}.JSONSchema()}
}
