package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/treadle-go/treadle/internal/plainjson"
)

// MarshalJSON encodes the message in LangChain's format. Empty fields are omitted,
// except the content.
func (m Message) MarshalJSON() ([]byte, error) {
	if m.Role == "" {
		return nil, errors.New("llm: message without a role: create it with User, System, Assistant, or ToolResult")
	}
	var w objectWriter
	w.putString("type", string(m.Role))
	putContent(&w, m.Content, m.Blocks)
	w.putText("name", m.Name)
	w.putText("id", m.ID)
	if m.Role == RoleTool {
		w.putString("tool_call_id", m.ToolCallID)
	} else {
		w.putText("tool_call_id", m.ToolCallID)
	}
	w.putText("status", string(m.Status))
	if m.Artifact != nil {
		w.put("artifact", m.Artifact)
	}
	putList(&w, "tool_calls", m.ToolCalls)
	putList(&w, "invalid_tool_calls", m.InvalidToolCalls)
	writeAnswer(&w, m.Usage, m.Stop, m.Metadata)
	raw, err := w.end(m.Extra)
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", m.ID, err)
	}
	return raw, nil
}

// writeAnswer writes a provider's data about a response.
func writeAnswer(w *objectWriter, usage *Usage, stop StopReason, meta map[string]any) {
	if usage != nil {
		w.put("usage_metadata", usage)
	}
	if stop != "" {
		meta = maps.Clone(meta)
		if meta == nil {
			meta = map[string]any{}
		}
		meta["finish_reason"] = string(stop)
	}
	if len(meta) > 0 {
		w.put("response_metadata", meta)
	}
}

// putContent writes the content: a string, or a list if there are blocks.
func putContent(w *objectWriter, text string, blocks []Block) {
	switch {
	case len(blocks) == 0:
		w.putString("content", text)
	case text == "":
		putList(w, "content", blocks)
	default:
		list := []any{text}
		for _, b := range blocks {
			list = append(list, b)
		}
		w.put("content", list)
	}
}

// contentJSON is content to decode: a string, or a list of blocks whose first
// element may be a string.
type contentJSON struct {
	text   string
	blocks []Block
}

// UnmarshalJSON decodes a string or a list of blocks.
func (c *contentJSON) UnmarshalJSON(raw []byte) error {
	switch raw[0] {
	case '"':
		return json.Unmarshal(raw, &c.text)
	case '[':
	default:
		return errors.New("want a string or a list of blocks")
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	for i, item := range list {
		var b Block
		if item[0] == '"' {
			if err := json.Unmarshal(item, &b.Text); err != nil {
				return err
			}
			if i == 0 && len(list) > 1 && b.Text != "" {
				c.text = b.Text
				continue
			}
			b.Type = BlockText
		} else if err := json.Unmarshal(item, &b); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
		c.blocks = append(c.blocks, b)
	}
	return nil
}

// UnmarshalJSON decodes a message in LangChain's format. It also accepts a string,
// which is a user message; a pair [role, content]; OpenAI's object with a role; and
// LangChain's object with constructor arguments.
func (m *Message) UnmarshalJSON(raw []byte) error {
	*m = Message{}
	raw = bytes.TrimSpace(raw)
	var err error
	switch {
	case len(raw) == 0:
		err = errors.New("empty JSON")
	case raw[0] == '"':
		m.Role = RoleHuman
		err = json.Unmarshal(raw, &m.Content)
	case raw[0] == '[':
		err = m.readPair(raw)
	case raw[0] == '{':
		if m.readPlain(raw) || m.readSimple(raw) {
			return nil
		}
		*m = Message{}
		var o object
		if o, err = readObject(raw); err == nil {
			err = m.read(o)
		}
	default:
		err = errors.New("want an object, a string, or a pair of role and content")
	}
	if err != nil {
		return fmt.Errorf("llm: message: %w", err)
	}
	return nil
}

// plainMessage is the format in which this package writes most messages.
type plainMessage struct {
	Type       Role            `json:"type"`
	Content    *string         `json:"content"`
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	ToolCallID string          `json:"tool_call_id"`
	Status     Status          `json:"status"`
	Usage      *Usage          `json:"usage_metadata"`
	Metadata   json.RawMessage `json:"response_metadata"`
	ToolCalls  []struct {
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
		ID   string          `json:"id"`
		Type string          `json:"type"`
	} `json:"tool_calls"`
}

// readPlain decodes most of what this package writes without encoding/json, because
// a conversation is decoded whenever its thread is opened. It returns false for
// other formats and invalid JSON.
func (m *Message) readPlain(raw []byte) bool {
	var in plainMessage
	return plainjson.Unmarshal(raw, &in) && m.setPlain(&in)
}

// readSimple decodes a message that has only the fields of plainMessage. It returns
// false for all others.
func (m *Message) readSimple(raw []byte) bool {
	var in plainMessage
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(&in) == nil && m.setPlain(&in)
}

func (m *Message) setPlain(in *plainMessage) bool {
	switch in.Type {
	case RoleHuman, RoleAI, RoleSystem, RoleTool:
	default:
		return false
	}
	if in.Content == nil {
		return false
	}
	*m = Message{
		Role:       in.Type,
		ID:         in.ID,
		Name:       in.Name,
		Content:    *in.Content,
		ToolCallID: in.ToolCallID,
		Status:     in.Status,
		Usage:      in.Usage,
	}
	for _, c := range in.ToolCalls {
		args, problem := parseArgs(string(c.Args), false)
		if problem != "" {
			return false
		}
		m.ToolCalls = append(m.ToolCalls, ToolCall{ID: c.ID, Name: c.Name, Args: args})
	}
	if len(in.Metadata) == 0 {
		return true
	}
	var err error
	m.Stop, err = readAnswer(object{"response_metadata": in.Metadata}, &m.Usage, &m.Metadata)
	return err == nil
}

func (m *Message) readPair(raw []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(raw, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("list of %d elements: want a pair of role and content", len(pair))
	}
	return m.read(object{"role": pair[0], "content": pair[1]})
}

// roles maps names of roles and of LangChain's classes to roles.
var roles = map[string]Role{
	"human": RoleHuman, "user": RoleHuman, "HumanMessage": RoleHuman, "HumanMessageChunk": RoleHuman,
	"ai": RoleAI, "assistant": RoleAI, "AIMessage": RoleAI, "AIMessageChunk": RoleAI,
	"system": RoleSystem, "developer": RoleSystem, "SystemMessage": RoleSystem, "SystemMessageChunk": RoleSystem,
	"tool": RoleTool, "ToolMessage": RoleTool, "ToolMessageChunk": RoleTool,
	"remove": RoleRemove, "RemoveMessage": RoleRemove,
	"function": "function", "FunctionMessage": "function", "FunctionMessageChunk": "function",
	"chat": "chat", "ChatMessage": "chat", "ChatMessageChunk": "chat",
}

// openAIRole is LangChain's marker for a system message whose role is developer in
// OpenAI's API.
const openAIRole = "__openai_role__"

func (m *Message) read(o object) error {
	if !o.isNull("lc") && !o.isNull("kwargs") {
		var err error
		if o, err = openEnvelope(o); err != nil {
			return err
		}
	}
	developer, err := m.readRole(o)
	if err != nil {
		return err
	}
	if o.isNull("content") && m.Role != RoleAI && m.Role != RoleRemove && o["content"] == nil {
		return fmt.Errorf("message with role %s needs content", m.Role)
	}
	var content contentJSON
	for name, dst := range map[string]any{
		"content": &content, "id": &m.ID, "name": &m.Name, "tool_call_id": &m.ToolCallID, "status": &m.Status,
	} {
		if err := o.take(name, dst); err != nil {
			return err
		}
	}
	m.Content, m.Blocks = content.text, content.blocks
	if m.Role == RoleRemove && (m.Content != "" || len(m.Blocks) > 0) {
		return errors.New("removal with content")
	}
	if raw, ok := o["artifact"]; ok {
		if m.Artifact, err = decodeAny(raw); err != nil {
			return fmt.Errorf("artifact: %w", err)
		}
		delete(o, "artifact")
	}
	if m.Stop, err = readAnswer(o, &m.Usage, &m.Metadata); err != nil {
		return err
	}
	if err := m.readCalls(o); err != nil {
		return err
	}
	if isEmptyObject(o["additional_kwargs"]) {
		delete(o, "additional_kwargs")
	}
	if m.Extra, err = o.rest(); err != nil {
		return err
	}
	if developer {
		m.mark(openAIRole, "developer")
	}
	return nil
}

func isEmptyObject(raw json.RawMessage) bool {
	return string(bytes.TrimSpace(raw)) == "{}" || string(raw) == "null"
}

// mark sets a value in additional_kwargs.
func (m *Message) mark(name, value string) {
	kwargs, _ := m.Extra["additional_kwargs"].(map[string]any)
	if kwargs == nil {
		kwargs = map[string]any{}
	}
	kwargs[name] = value
	if m.Extra == nil {
		m.Extra = map[string]any{}
	}
	m.Extra["additional_kwargs"] = kwargs
}

// readRole determines the role from the field role, as in OpenAI's format, or type.
func (m *Message) readRole(o object) (developer bool, err error) {
	var role, typ string
	if raw := o["type"]; raw != nil && json.Unmarshal(raw, &typ) == nil && roles[typ] == "chat" {
		m.Role = "chat" // its role is any word, and is kept
		delete(o, "type")
		return false, nil
	}
	if err := o.take("role", &role); err != nil {
		return false, err
	}
	if role == "" {
		if err := o.take("type", &role); err != nil {
			return false, err
		}
	} else if roles[typ] != "" || typ == "message" {
		delete(o, "type")
	}
	switch {
	case role == "":
		return false, errors.New("neither role nor type")
	case roles[role] == "":
		return false, fmt.Errorf("unknown role %q: want human or user, ai or assistant, system or developer, tool, remove", role)
	}
	m.Role = roles[role]
	return role == "developer", nil
}

// openEnvelope decodes LangChain's serialized constructor call. It supports only
// messages: the class is looked up, never loaded.
func openEnvelope(o object) (object, error) {
	var path []string
	if err := o.take("id", &path); err != nil {
		return nil, err
	}
	class := ""
	if len(path) > 0 {
		class = path[len(path)-1]
	}
	if roles[class] == "" || !strings.Contains(class, "Message") {
		return nil, fmt.Errorf("%q is not a message class of LangChain", strings.Join(path, "."))
	}
	kwargs, err := readObject(o["kwargs"])
	if err != nil {
		return nil, fmt.Errorf("kwargs: %w", err)
	}
	kwargs["type"], err = json.Marshal(class)
	delete(kwargs, "role")
	return kwargs, err
}

// readAnswer reads a provider's data about a response.
func readAnswer(o object, usage **Usage, meta *map[string]any) (StopReason, error) {
	if err := o.take("usage_metadata", usage); err != nil {
		return "", err
	}
	if err := o.takeMap("response_metadata", meta); err != nil {
		return "", err
	}
	reason, ok := (*meta)["finish_reason"].(string)
	if !ok || reason == "" {
		return "", nil
	}
	delete(*meta, "finish_reason")
	if len(*meta) == 0 {
		*meta = nil
	}
	return StopReason(reason), nil
}

// UnmarshalJSON decodes a list of messages, or one message as a list of one.
func (ms *Messages) UnmarshalJSON(raw []byte) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && (raw[0] == '{' || raw[0] == '"') {
		*ms = make(Messages, 1)
		return json.Unmarshal(raw, &(*ms)[0])
	}
	return json.Unmarshal(raw, (*[]Message)(ms))
}

// MarshalJSON encodes the conversation; an empty conversation is [], never null.
func (ms Messages) MarshalJSON() ([]byte, error) {
	if ms == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]Message(ms))
}
