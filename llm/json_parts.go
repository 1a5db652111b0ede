package llm

import (
	"encoding/json"
	"errors"
	"fmt"
)

// MarshalJSON encodes the block in LangChain's format.
func (b Block) MarshalJSON() ([]byte, error) {
	var w objectWriter
	w.putText("type", b.Type)
	w.putText("id", b.ID)
	if b.Index != nil {
		w.put("index", *b.Index)
	}
	if _, kept := b.Extra["text"]; b.Text != "" || b.Type == BlockText && !kept {
		w.putString("text", b.Text)
	}
	if _, kept := b.Extra["reasoning"]; b.Reasoning != "" || b.Type == BlockReasoning && !kept {
		w.putString("reasoning", b.Reasoning)
	}
	w.putText("url", b.URL)
	if len(b.Data) > 0 {
		w.put("base64", b.Data)
	}
	w.putText("file_id", b.FileID)
	w.putText("mime_type", b.MIMEType)
	return w.end(b.Extra)
}

// UnmarshalJSON decodes any JSON object. Fields that are unknown, or whose type
// differs from what this package writes, are kept in Extra.
func (b *Block) UnmarshalJSON(raw []byte) error {
	*b = Block{}
	o, err := readObject(raw)
	if err != nil {
		return fmt.Errorf("block is not an object: %w", err)
	}
	for name, dst := range map[string]any{
		"type": &b.Type, "id": &b.ID, "index": &b.Index, "text": &b.Text, "reasoning": &b.Reasoning,
		"url": &b.URL, "base64": &b.Data, "file_id": &b.FileID, "mime_type": &b.MIMEType,
	} {
		// A field that cannot be decoded stays in o. A null is ignored, except in
		// unknown fields.
		_ = o.take(name, dst)
	}
	b.Extra, err = o.rest()
	return err
}

// MarshalJSON encodes the call in LangChain's format.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	var w objectWriter
	w.putString("name", c.Name)
	w.put("args", c.arguments())
	w.putString("id", c.ID)
	w.putString("type", "tool_call")
	return w.end(c.Extra)
}

// UnmarshalJSON decodes a call in LangChain's or OpenAI's format. It fails if the
// arguments are not a JSON object; a [Message] keeps such a call as an
// [InvalidToolCall].
func (c *ToolCall) UnmarshalJSON(raw []byte) error {
	call, bad, err := readCall(raw)
	if err != nil {
		return err
	}
	if bad != nil {
		return fmt.Errorf("tool call %s: %s", bad.ID, bad.Error)
	}
	*c = call
	return nil
}

// readCall decodes a valid or invalid call.
func readCall(raw []byte) (call ToolCall, bad *InvalidToolCall, err error) {
	o, err := readObject(raw)
	if err != nil {
		return call, nil, fmt.Errorf("tool call is not an object: %w", err)
	}
	if err := o.take("id", &call.ID); err != nil {
		return call, nil, err
	}
	args, err := takeCall(o, &call.Name)
	if err != nil {
		return call, nil, err
	}
	delete(o, "type")
	if call.Extra, err = o.rest(); err != nil {
		return call, nil, err
	}
	var problem string
	if call.Args, problem = parseArgs(args, false); problem != "" {
		return call, &InvalidToolCall{ID: call.ID, Name: call.Name, Args: args, Error: problem, Extra: call.Extra}, nil
	}
	return call, nil, nil
}

// takeCall takes the name and the arguments from o. The arguments are an object, or
// a string that contains one.
func takeCall(o object, name *string) (args string, err error) {
	field := "args"
	if !o.isNull("function") { // OpenAI's format
		var fn object
		if err := o.take("function", &fn); err != nil {
			return "", err
		}
		if fn == nil {
			return "", errors.New("function: null instead of an object")
		}
		if err := fn.take("name", name); err != nil {
			return "", err
		}
		o, field = fn, "arguments"
	} else if err := o.take("name", name); err != nil {
		return "", err
	}
	raw := o[field]
	delete(o, field)
	if len(raw) > 0 && raw[0] == '"' {
		err = json.Unmarshal(raw, &args)
		return args, err
	}
	if string(raw) == "null" {
		return "", nil
	}
	return string(raw), nil
}

// readCalls decodes the calls of a message from all fields that may contain them.
func (m *Message) readCalls(o object) error {
	var list []json.RawMessage
	if err := o.take("tool_calls", &list); err != nil {
		return err
	}
	if len(list) == 0 && !o.isNull("additional_kwargs") && m.Role == RoleAI {
		// LangChain keeps calls in OpenAI's format there.
		var kwargs struct {
			ToolCalls []json.RawMessage `json:"tool_calls"`
		}
		if json.Unmarshal(o["additional_kwargs"], &kwargs) == nil {
			list = kwargs.ToolCalls
		}
	}
	var pieces []ToolCallChunk
	if err := o.take("tool_call_chunks", &pieces); err != nil {
		return err
	}
	if err := o.take("invalid_tool_calls", &m.InvalidToolCalls); err != nil {
		return err
	}
	if len(m.InvalidToolCalls) == 0 {
		m.InvalidToolCalls = nil
	}
	if len(list) == 0 && len(m.InvalidToolCalls) == 0 && len(pieces) > 0 {
		whole := Chunk{ToolCalls: pieces}.Message()
		m.ToolCalls, m.InvalidToolCalls = whole.ToolCalls, whole.InvalidToolCalls
	}
	for i, raw := range list {
		call, bad, err := readCall(raw)
		if err != nil {
			return fmt.Errorf("tool_calls %d: %w", i, err)
		}
		if bad != nil {
			m.InvalidToolCalls = append(m.InvalidToolCalls, *bad)
		} else {
			m.ToolCalls = append(m.ToolCalls, call)
		}
	}
	return nil
}

// MarshalJSON encodes the call in LangChain's format.
func (c InvalidToolCall) MarshalJSON() ([]byte, error) {
	var w objectWriter
	w.putString("name", c.Name)
	w.putString("args", c.Args)
	w.putString("id", c.ID)
	w.putString("error", c.Error)
	w.putString("type", "invalid_tool_call")
	return w.end(c.Extra)
}

// UnmarshalJSON decodes a call in LangChain's format.
func (c *InvalidToolCall) UnmarshalJSON(raw []byte) error {
	*c = InvalidToolCall{}
	o, err := readObject(raw)
	if err != nil {
		return err
	}
	for name, dst := range map[string]any{"name": &c.Name, "args": &c.Args, "id": &c.ID, "error": &c.Error} {
		if err := o.take(name, dst); err != nil {
			return err
		}
	}
	delete(o, "type")
	c.Extra, err = o.rest()
	return err
}

// MarshalJSON encodes the piece in LangChain's format.
func (c ToolCallChunk) MarshalJSON() ([]byte, error) {
	var w objectWriter
	w.putOrNull("name", c.Name)
	w.putString("args", c.Args)
	w.putOrNull("id", c.ID)
	w.put("index", c.Index)
	w.putString("type", "tool_call_chunk")
	return w.end(c.Extra)
}

// UnmarshalJSON decodes a piece in LangChain's format.
func (c *ToolCallChunk) UnmarshalJSON(raw []byte) error {
	*c = ToolCallChunk{}
	o, err := readObject(raw)
	if err != nil {
		return err
	}
	for name, dst := range map[string]any{"name": &c.Name, "args": &c.Args, "id": &c.ID, "index": &c.Index} {
		if err := o.take(name, dst); err != nil {
			return err
		}
	}
	delete(o, "type")
	c.Extra, err = o.rest()
	return err
}

// MarshalJSON encodes the chunk in LangChain's format. It writes all fields,
// because clients read a chunk's fields without checking that they exist.
func (c Chunk) MarshalJSON() ([]byte, error) {
	var w objectWriter
	putContent(&w, c.Content, c.Blocks)
	if kwargs, ok := c.Extra["additional_kwargs"]; ok {
		w.put("additional_kwargs", kwargs)
	} else {
		w.putRaw("additional_kwargs", []byte("{}"))
	}
	if c.Stop == "" && len(c.Metadata) == 0 {
		w.putRaw("response_metadata", []byte("{}"))
	}
	w.putString("type", "AIMessageChunk")
	w.putOrNull("name", c.Name)
	w.putOrNull("id", c.ID)
	calls, invalid := c.calls()
	putAll(&w, "tool_calls", calls)
	putAll(&w, "invalid_tool_calls", invalid)
	if c.Usage == nil {
		w.putRaw("usage_metadata", []byte("null"))
	}
	putAll(&w, "tool_call_chunks", c.ToolCalls)
	writeAnswer(&w, c.Usage, c.Stop, c.Metadata)
	if c.Stop != "" {
		w.putString("chunk_position", "last")
	} else {
		w.putRaw("chunk_position", []byte("null"))
	}
	return w.end(c.Extra)
}

// calls returns the chunk's tool call pieces that are valid calls by themselves,
// and the others as invalid.
func (c Chunk) calls() (calls []callPiece, invalid []callPiece) {
	for _, piece := range c.ToolCalls {
		args, problem := parseArgs(piece.Args, true)
		if problem == "" {
			calls = append(calls, callPiece{piece, args})
		} else {
			invalid = append(invalid, callPiece{piece, nil})
		}
	}
	return calls, invalid
}

// callPiece is a piece of a tool call encoded as a call. args is nil if the piece
// is invalid.
type callPiece struct {
	ToolCallChunk
	args json.RawMessage
}

// MarshalJSON encodes the piece as LangChain encodes the calls of chunks.
func (p callPiece) MarshalJSON() ([]byte, error) {
	var w objectWriter
	if p.args != nil {
		w.putString("name", p.Name)
		w.put("args", p.args)
		w.putOrNull("id", p.ID)
		w.putString("type", "tool_call")
		return w.end(nil)
	}
	w.putOrNull("name", p.Name)
	w.putString("args", p.Args)
	w.putOrNull("id", p.ID)
	w.putRaw("error", []byte("null"))
	w.putString("type", "invalid_tool_call")
	return w.end(nil)
}

// UnmarshalJSON decodes a chunk in LangChain's format.
func (c *Chunk) UnmarshalJSON(raw []byte) error {
	*c = Chunk{}
	o, err := readObject(raw)
	if err != nil {
		return fmt.Errorf("llm: chunk: %w", err)
	}
	var content contentJSON
	for name, dst := range map[string]any{"content": &content, "name": &c.Name, "id": &c.ID, "tool_call_chunks": &c.ToolCalls} {
		if err := o.take(name, dst); err != nil {
			return fmt.Errorf("llm: chunk: %w", err)
		}
	}
	c.Content, c.Blocks = content.text, content.blocks
	if c.Stop, err = readAnswer(o, &c.Usage, &c.Metadata); err != nil {
		return fmt.Errorf("llm: chunk: %w", err)
	}
	for _, name := range []string{"type", "chunk_position", "tool_calls", "invalid_tool_calls"} {
		delete(o, name) // redundant with other fields
	}
	if isEmptyObject(o["additional_kwargs"]) {
		delete(o, "additional_kwargs")
	}
	c.Extra, err = o.rest()
	return err
}
