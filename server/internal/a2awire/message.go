package a2awire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/a2a"

	"github.com/treadle-go/treadle/internal/origin"
	"github.com/treadle-go/treadle/llm"
)

// SendParams are the parameters of a message sent to an agent.
type SendParams struct {
	Message       *messageBody `json:"message"`
	Configuration struct {
		Blocking          *bool `json:"blocking"`
		ReturnImmediately bool  `json:"returnImmediately"`
		HistoryLength     *int  `json:"historyLength"`

		Push   json.RawMessage `json:"pushNotificationConfig"`     // version 0.3
		PushV1 json.RawMessage `json:"taskPushNotificationConfig"` // version 1.0
	} `json:"configuration"`

	// Decoded is the message with decoded parts. Read sets it.
	Decoded a2a.Message `json:"-"`
}

// messageBody is a message whose parts may lack the "kind" that version 0.3 requires.
type messageBody struct {
	ID        string            `json:"messageId"`
	ContextID string            `json:"contextId"`
	TaskID    string            `json:"taskId"`
	Role      string            `json:"role"`
	Parts     []json.RawMessage `json:"parts"`
}

// Immediate reports whether the client does not wait for the run to end.
func (p *SendParams) Immediate() bool {
	blocking := p.Configuration.Blocking
	return p.Configuration.ReturnImmediately || blocking != nil && !*blocking
}

// Read validates and decodes the message.
func (p *SendParams) Read() error {
	m := p.Message
	switch {
	case m == nil:
		return errors.New("message: it is missing")
	case m.ID == "":
		return errors.New("message.messageId: it is missing")
	case len(m.Parts) == 0:
		return errors.New("message.parts: want at least one part")
	case p.Configuration.HistoryLength != nil && *p.Configuration.HistoryLength < 0:
		return errors.New("configuration.historyLength: want a number that is not negative")
	}
	switch strings.ToLower(strings.TrimPrefix(m.Role, "ROLE_")) {
	case "user":
	default:
		return fmt.Errorf("message.role: want user, not %q", m.Role)
	}
	p.Decoded = a2a.Message{ID: m.ID, ContextID: m.ContextID, TaskID: a2a.TaskID(m.TaskID), Role: a2a.MessageRoleUser}
	for i, raw := range m.Parts {
		part, err := readPart(raw)
		if err != nil {
			return fmt.Errorf("message.parts[%d]: %w", i, err)
		}
		p.Decoded.Parts = append(p.Decoded.Parts, part)
	}
	return nil
}

// readPart decodes a message part of any version. Drafts of version 0.3 called the kind "type".
func readPart(raw json.RawMessage) (a2a.Part, error) {
	var p map[string]any
	if err := json.Unmarshal(raw, &p); err != nil || p == nil {
		return nil, fmt.Errorf("want an object")
	}
	if p["kind"] == nil {
		switch {
		case p["type"] != nil:
			p["kind"] = p["type"]
		case p["text"] != nil:
			p["kind"] = "text"
		case p["data"] != nil:
			p["kind"] = "data"
		case p["file"] != nil:
			p["kind"] = "file"
		case p["raw"] != nil || p["url"] != nil:
			p["kind"], p["file"] = "file", map[string]any{"bytes": p["raw"], "uri": p["url"], "mimeType": p["mediaType"], "name": p["filename"]}
		default:
			return nil, fmt.Errorf("want a text, data or file")
		}
	}
	list, err := json.Marshal([]any{p})
	if err != nil {
		return nil, err
	}
	var parts a2a.ContentParts
	if err := json.Unmarshal(list, &parts); err != nil {
		return nil, err
	}
	return parts[0], nil
}

// Resume returns the "resume" value of a data part, or nil.
func (p *SendParams) Resume() any {
	for _, part := range p.Decoded.Parts {
		if data, ok := part.(a2a.DataPart); ok && data.Data["resume"] != nil {
			return data.Data["resume"]
		}
	}
	return nil
}

// Command returns the command that answers the interrupts with the given IDs, with a data part's answers
// by ID, or else the message's text or data.
func (p *SendParams) Command(open []string) (json.RawMessage, error) {
	answer := p.Resume()
	byID := map[string]any{}
	if list, ok := answer.([]any); ok {
		for _, item := range list {
			one, _ := item.(map[string]any)
			id, _ := one["id"].(string)
			if !slices.Contains(open, id) {
				return nil, fmt.Errorf("message.parts: resume: want objects with id and value; the id %q is not asked", id)
			}
			byID[id] = one["value"]
		}
		answer = byID
	} else if answer == nil {
		answer = p.plainAnswer()
	}
	if len(byID) == 0 && len(open) > 1 {
		return nil, fmt.Errorf("message.parts: there are %d questions: answer with a data part {\"resume\": [{\"id\", \"value\"}]}", len(open))
	}
	raw, err := json.Marshal(map[string]any{"resume": answer})
	return raw, err
}

// plainAnswer returns the text of the message, or its data if it has no text.
func (p *SendParams) plainAnswer() any {
	var texts []string
	var data any
	for _, part := range p.Decoded.Parts {
		switch part := part.(type) {
		case a2a.TextPart:
			texts = append(texts, part.Text)
		case a2a.DataPart:
			data = part.Data
		}
	}
	if len(texts) > 0 || data == nil {
		return strings.Join(texts, "\n")
	}
	return data
}

// Input returns the graph input: texts and files become a message, and data becomes fields.
// The error names agent, if its input has no field for messages.
func (p *SendParams) Input(fields []string, agent string) (json.RawMessage, error) {
	input := map[string]any{}
	var blocks []llm.Block
	for i, part := range p.Decoded.Parts {
		switch part := part.(type) {
		case a2a.DataPart:
			maps.Copy(input, part.Data)
		case a2a.TextPart:
			blocks = append(blocks, llm.Text(part.Text))
		case a2a.FilePart:
			block, err := fileBlock(part)
			if err != nil {
				return nil, fmt.Errorf("message.parts[%d]: %w", i, err)
			}
			blocks = append(blocks, block)
		}
	}
	if len(blocks) > 0 {
		if !slices.Contains(fields, "messages") {
			return nil, fmt.Errorf("%s does not support A2A conversational messages. "+
				"Graph input schema must include a 'messages' field to accept text or file parts. Available input fields: ['%s']", agent, strings.Join(fields, "', '"))
		}
		m := llm.User("", blocks...)
		if len(blocks) == 1 && blocks[0].Type == llm.BlockText {
			m = llm.User(blocks[0].Text)
		}
		m.ID = p.Decoded.ID
		input["messages"] = llm.Messages{m}
	}
	return json.Marshal(input)
}

// fileBlock converts a file to a message block. A link that is not public becomes text: the model's
// provider, or a program that shows the message, would fetch it.
func fileBlock(p a2a.FilePart) (b llm.Block, err error) {
	var meta a2a.FileMeta
	switch f := p.File.(type) {
	case a2a.FileBytes:
		meta = f.FileMeta
		if b.Data, err = base64.StdEncoding.DecodeString(f.Bytes); err != nil {
			return b, fmt.Errorf("file.bytes: want base64: %w", err)
		}
	case a2a.FileURI:
		if !origin.PublicURL(f.URI) {
			return llm.Text(strings.TrimSpace(f.Name + " " + f.URI)), nil
		}
		meta, b.URL = f.FileMeta, f.URI
	}
	b.Type, b.MIMEType = llm.BlockFile, meta.MimeType
	kind, _, _ := strings.Cut(meta.MimeType, "/")
	switch kind {
	case "image":
		b.Type = llm.BlockImage
	case "audio":
		b.Type = llm.BlockAudio
	}
	if meta.Name != "" {
		b.Extra = map[string]any{"filename": meta.Name}
	}
	return b, nil
}
