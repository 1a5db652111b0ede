package treadletype

import "github.com/google/jsonschema-go/jsonschema"

// Schemas contains the JSON schemas of a graph's types.
type Schemas struct {
	Input   *jsonschema.Schema `json:"input"`
	Output  *jsonschema.Schema `json:"output"`
	State   *jsonschema.Schema `json:"state"`
	Context *jsonschema.Schema `json:"context,omitempty"` // if declared with ContextType
}
