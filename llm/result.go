package llm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ToolOutput is a tool's result in two parts: what the model is told, and what
// is kept for the program.
type ToolOutput struct {
	Content  any // what [ToolResult] takes
	Artifact any // must be JSON
}

// ToolResult is the message that answers a call:
//
//   - a string is the content, and so are blocks (Block or []Block);
//   - a [ToolOutput] is content and artifact;
//   - an error is its text, with [StatusError]; an error that has a method
//     ForModel() string tells the model that instead;
//   - a [Message] is taken as it is, as the result of this call;
//   - of anything else the content is its JSON.
//
// A value that has no JSON gives an error for the model.
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
		e.SetEscapeHTML(false) // it is read by a model, not by a browser
		if err := e.Encode(v); err != nil {
			m.Content, m.Status = fmt.Sprintf("tool %s: its result has no JSON: %v", call.Name, err), StatusError
			break
		}
		m.Content = strings.TrimSuffix(b.String(), "\n")
	}
	return m
}
