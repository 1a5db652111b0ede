package llm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ToolOutput is a tool's result in two parts: Content for the model, and Artifact
// for the program.
type ToolOutput struct {
	Content  any // a value for [ToolResult]
	Artifact any // must be encodable as JSON
}

// ToolResult returns the message that answers a call. The type of v determines its
// content:
//
//   - A string, a Block, or a []Block is the content.
//   - A [ToolOutput] is the content and the artifact.
//   - An error is the content, as text, with [StatusError]. If the error has a
//     method ForModel() string, the text is that method's result.
//   - A [Message] is the result itself, with the ID of this call.
//   - The content of any other value is its JSON.
//
// A value that cannot be encoded as JSON becomes an error for the model.
func ToolResult(call ToolCall, v any) Message {
	m := Message{Role: RoleTool, Name: call.Name, ToolCallID: call.ID}
	switch v := v.(type) {
	case string:
		m.Content = v
	case Block:
		m.Blocks = []Block{v}
	case []Block:
		m.Blocks = v
	case json.RawMessage:
		m.Content = string(v)
	case ToolOutput:
		m = ToolResult(call, v.Content)
		m.Artifact = v.Artifact
	case *ToolOutput:
		if v != nil {
			return ToolResult(call, *v)
		}
		m.Content = "null"
	case Message:
		m = v
		m.Role, m.ToolCallID = RoleTool, call.ID
		m.Name = cmp.Or(v.Name, call.Name)
	case error:
		m.Content, m.Status = v.Error(), StatusError
		if told, ok := errors.AsType[interface {
			error
			ForModel() string
		}](v); ok {
			m.Content = told.ForModel()
		}
	default:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false) // read by a model, not by a browser
		if err := e.Encode(v); err != nil {
			m.Content, m.Status = fmt.Sprintf("tool %s: result cannot be encoded as JSON: %v", call.Name, err), StatusError
			break
		}
		m.Content = strings.TrimSuffix(b.String(), "\n")
	}
	return m
}
