package agui

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// Version is the newest version of the protocol that this package speaks. Clients that do not
// name it receive no fields that earlier clients reject.
const Version = "1.0"

// Input is a request to run an agent (RunAgentInput).
type Input struct {
	ThreadID  string          `json:"threadId"`
	RunID     string          `json:"runId"`
	Version   string          `json:"protocolVersion"`
	State     json.RawMessage `json:"state"`
	Messages  []Message       `json:"messages"`
	Tools     []Tool          `json:"tools"`
	Context   []Fact          `json:"context"`
	Forwarded map[string]any  `json:"forwardedProps"`
	Resume    []Answer        `json:"resume"`
}

// Message is a message as the client has it.
type Message struct {
	ID         string          `json:"id"`
	Role       string          `json:"role"`
	Name       string          `json:"name"`
	Content    json.RawMessage `json:"content"` // a text or parts
	ToolCallID string          `json:"toolCallId"`
	Error      string          `json:"error"`
}

// Tool is a tool that the client runs.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// Fact is a part of the client's context.
type Fact struct {
	Description string `json:"description"`
	Value       any    `json:"value"`
}

// Answer is the answer to an interrupt.
type Answer struct {
	ID      string          `json:"interruptId"`
	Status  string          `json:"status"` // resolved or cancelled
	Payload json.RawMessage `json:"payload"`
}

// Canceled reports whether the client declines to answer.
func (a Answer) Canceled() bool { return a.Status == "cancelled" }

// Check validates the input.
func (in *Input) Check() error {
	for i, m := range in.Messages {
		switch m.Role {
		case "user", "assistant", "system", "developer", "tool", "reasoning", "activity":
		default:
			return fmt.Errorf("messages[%d].role: want user, assistant, system, developer, tool, reasoning, or activity, not %q", i, m.Role)
		}
		if m.Role == "user" {
			if _, err := m.User(); err != nil {
				return fmt.Errorf("messages[%d].content: %w", i, err)
			}
		}
	}
	for i, t := range in.Tools {
		if t.Name == "" {
			return fmt.Errorf("tools[%d].name: required", i)
		}
	}
	for i, f := range in.Context {
		if f.Description == "" {
			return fmt.Errorf("context[%d].description: required", i)
		}
	}
	seen := map[string]bool{}
	for i, a := range in.Resume {
		switch {
		case a.ID == "":
			return fmt.Errorf("resume[%d].interruptId: required", i)
		case seen[a.ID]:
			return fmt.Errorf("resume[%d].interruptId: duplicate %q", i, a.ID)
		case a.Status != "resolved" && !a.Canceled():
			return fmt.Errorf("resume[%d].status: want resolved or cancelled, not %q", i, a.Status)
		}
		seen[a.ID] = true
	}
	return nil
}

// part is a part of a message.
type part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	MIMEType string `json:"mimeType"` // before 1.0: binary parts
	Data     string `json:"data"`
	URL      string `json:"url"`
	Source   struct {
		Type     string `json:"type"` // data, url, or file
		Value    string `json:"value"`
		MIMEType string `json:"mimeType"`
	} `json:"source"`
}

// Text returns the text of the message.
func (m *Message) Text() string {
	var text string
	if len(m.Content) == 0 || json.Unmarshal(m.Content, &text) == nil {
		return text
	}
	var parts []part
	if json.Unmarshal(m.Content, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// User returns a user message.
func (m *Message) User() (llm.Message, error) {
	out := llm.Message{Role: llm.RoleHuman, ID: m.ID, Name: m.Name}
	if len(m.Content) == 0 || json.Unmarshal(m.Content, &out.Content) == nil {
		return out, nil
	}
	var parts []part
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return out, fmt.Errorf("want a string or a list of parts")
	}
	for i, p := range parts {
		b, err := p.block()
		if err != nil {
			return out, fmt.Errorf("part %d: %w", i, err)
		}
		out.Blocks = append(out.Blocks, b)
	}
	return out, nil
}

// block converts a part.
func (p part) block() (b llm.Block, err error) {
	switch p.Type {
	case "text":
		return llm.Text(p.Text), nil
	case "image", "audio", "video", "document":
		b = llm.Block{Type: map[string]string{"image": llm.BlockImage, "audio": llm.BlockAudio, "video": llm.BlockVideo, "document": llm.BlockFile}[p.Type], MIMEType: p.Source.MIMEType}
	case "binary":
		b.Type, b.MIMEType = llm.BlockFile, p.MIMEType
		p.Source.Type, p.Source.Value = "data", p.Data
		if p.Data == "" {
			p.Source.Type, p.Source.Value = "url", p.URL
		}
		switch kind, _, _ := strings.Cut(p.MIMEType, "/"); kind {
		case "image":
			b.Type = llm.BlockImage
		case "audio":
			b.Type = llm.BlockAudio
		}
	default:
		return b, fmt.Errorf("want type text, image, audio, video, or document, not %q", p.Type)
	}
	switch p.Source.Type {
	case "data":
		if b.Data, err = base64.StdEncoding.DecodeString(p.Source.Value); err != nil {
			return b, fmt.Errorf("source.value: want base64: %w", err)
		}
	case "url":
		b.URL = p.Source.Value
	case "file":
		b.FileID = p.Source.Value
	default:
		return b, fmt.Errorf("source.type: want data, url, or file, not %q", p.Source.Type)
	}
	return b, nil
}

// Messages returns a conversation as clients show it.
func Messages(ms llm.Messages) []map[string]any {
	out := []map[string]any{}
	for _, m := range ms {
		if shown := shownMessage(m); shown != nil {
			out = append(out, shown)
		}
	}
	return out
}

// shownMessage returns a message as clients show it, or nil if they show none of its kind.
func shownMessage(m llm.Message) map[string]any {
	out := map[string]any{"id": m.ID, "content": m.Text()}
	if m.Name != "" {
		out["name"] = m.Name
	}
	switch m.Role {
	case llm.RoleHuman:
		out["role"] = "user"
		if parts := partsOf(m); parts != nil {
			out["content"] = parts
		}
	case llm.RoleSystem:
		out["role"] = "system"
	case llm.RoleTool:
		delete(out, "name")
		out["role"], out["toolCallId"] = "tool", m.ToolCallID
		if m.Status == llm.StatusError {
			out["error"] = out["content"]
		}
	case llm.RoleAI:
		out["role"] = "assistant"
		var calls []map[string]any
		for _, c := range m.ToolCalls {
			args := string(c.Args)
			if args == "" {
				args = "{}"
			}
			calls = append(calls, map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": args}})
		}
		if calls != nil {
			out["toolCalls"] = calls
		}
	default:
		return nil
	}
	return out
}

// partsOf returns the parts of a user message with media, or nil.
func partsOf(m llm.Message) (out []map[string]any) {
	media := false
	for _, b := range m.Parts() {
		kind := map[string]string{llm.BlockImage: "image", llm.BlockAudio: "audio", llm.BlockVideo: "video", llm.BlockFile: "document"}[b.Type]
		switch {
		case b.Type == llm.BlockText:
			out = append(out, map[string]any{"type": "text", "text": b.Text})
		case kind != "":
			media = true
			source := map[string]any{"type": "data", "value": base64.StdEncoding.EncodeToString(b.Data)}
			if b.URL != "" {
				source = map[string]any{"type": "url", "value": b.URL}
			} else if b.FileID != "" {
				source = map[string]any{"type": "file", "value": b.FileID}
			}
			if b.MIMEType != "" {
				source["mimeType"] = b.MIMEType
			}
			out = append(out, map[string]any{"type": kind, "source": source})
		}
	}
	if !media {
		return nil
	}
	return out
}
