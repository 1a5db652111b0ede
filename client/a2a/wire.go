package a2a

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/internal/origin"
	"github.com/treadle-go/treadle/llm"
)

// state is the state of a task, by its name in version 0.3.
type state string

const (
	working       state = "working"
	completed     state = "completed"
	inputRequired state = "input-required"
)

// UnmarshalJSON also accepts the names of version 1.0, such as TASK_STATE_INPUT_REQUIRED.
func (s *state) UnmarshalJSON(raw []byte) error {
	var name string
	if err := json.Unmarshal(raw, &name); err != nil {
		return err
	}
	name = strings.TrimPrefix(name, "TASK_STATE_")
	*s = state(strings.ReplaceAll(strings.ToLower(name), "_", "-"))
	switch *s {
	case "submitted", working, completed, inputRequired, "canceled", "failed", "rejected", "auth-required", "unknown", "unspecified":
		return nil
	}
	return fmt.Errorf("unknown state of a task %.100q", name)
}

// open reports whether the agent works on a task in this state.
func (s state) open() bool {
	return s == "submitted" || s == working || s == "unknown" || s == "unspecified"
}

// part is a part of a message. Version 0.3 puts a file in an object.
type part struct {
	Kind string          `json:"kind,omitempty"` // of version 0.3
	Text string          `json:"text,omitempty"`
	File *file           `json:"file,omitempty"` // of version 0.3
	Data json.RawMessage `json:"data,omitempty"`

	Raw       []byte `json:"raw,omitempty"`
	URL       string `json:"url,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	Filename  string `json:"filename,omitempty"`
}

type file struct {
	Bytes    []byte `json:"bytes,omitempty"`
	URI      string `json:"uri,omitempty"`
	MIMEType string `json:"mimeType,omitempty"`
	Name     string `json:"name,omitempty"`
}

type message struct {
	Kind      string `json:"kind,omitempty"` // of version 0.3
	ID        string `json:"messageId"`
	Role      string `json:"role"`
	ContextID string `json:"contextId,omitempty"`
	TaskID    string `json:"taskId,omitempty"`
	Parts     []part `json:"parts"`
}

type status struct {
	State   state    `json:"state"`
	Message *message `json:"message,omitempty"`
}

type task struct {
	ID        string     `json:"id"`
	ContextID string     `json:"contextId"`
	Status    status     `json:"status"`
	Artifacts []artifact `json:"artifacts,omitempty"`
}

type artifact struct {
	Parts []part `json:"parts"`
}

// response is the result of sending a message: a task, or a message if the agent answers
// at once.
type response struct {
	Task    *task    `json:"task,omitempty"`
	Message *message `json:"message,omitempty"`
}

// UnmarshalJSON also accepts the form of version 0.3, which names the kind.
func (r *response) UnmarshalJSON(raw []byte) error {
	var old struct{ Kind string }
	if err := json.Unmarshal(raw, &old); err != nil {
		return err
	}
	type plain response
	var err error
	switch old.Kind {
	case "task":
		err = json.Unmarshal(raw, &r.Task)
	case "message":
		err = json.Unmarshal(raw, &r.Message)
	default:
		err = json.Unmarshal(raw, (*plain)(r))
	}
	switch {
	case err != nil:
		return err
	case r.Task == nil && r.Message == nil:
		return errors.New("want a task or a message")
	case r.Task != nil && r.Task.ID == "":
		return errors.New("task without an ID")
	}
	return nil
}

// partsOf converts a message for a version of the protocol.
func partsOf(m llm.Message, v1 bool) ([]part, error) {
	var out []part
	if m.Content != "" {
		out = append(out, part{Text: m.Content})
	}
	for _, b := range m.Blocks {
		switch {
		case b.Type == llm.BlockText || b.Type == llm.BlockPlain:
			if b.Text != "" {
				out = append(out, part{Text: b.Text})
			}
		case b.Data != nil || b.URL != "":
			out = append(out, part{Raw: b.Data, URL: b.URL, MediaType: b.MIMEType, Filename: b.Filename()})
		default:
			return nil, fmt.Errorf("a2a: a message cannot contain a block of type %q", b.Type)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("a2a: empty message")
	}
	for i, p := range out {
		switch {
		case v1:
		case p.Text != "":
			out[i].Kind = "text"
		default:
			out[i] = part{Kind: "file", File: &file{p.Raw, p.URL, p.MediaType, p.Filename}}
		}
	}
	return out, nil
}

// answerOf returns the parts of an answer to a question: text, or data.
func answerOf(answer any, v1 bool) ([]part, error) {
	p := part{}
	if text, ok := answer.(string); ok && text != "" {
		p.Kind, p.Text = "text", text
	} else {
		if _, ok := answer.(map[string]any); !ok { // data is an object
			answer = map[string]any{"answer": answer}
		}
		raw, err := json.Marshal(answer)
		if err != nil {
			return nil, err
		}
		p.Kind, p.Data = "data", raw
	}
	if v1 {
		p.Kind = ""
	}
	return []part{p}, nil
}

// blocks converts what an agent has said. Data becomes text, and so does a link that is not public:
// a provider in this network, or a program that shows the block, would fetch it.
func blocks(parts []part) (out []llm.Block) {
	for _, p := range parts {
		if p.File != nil {
			p.Raw, p.URL, p.MediaType, p.Filename = p.File.Bytes, p.File.URI, p.File.MIMEType, p.File.Name
		}
		switch {
		case p.Text != "":
			out = append(out, llm.Text(p.Text))
		case p.Raw != nil || origin.PublicURL(p.URL):
			out = append(out, media(p))
		case p.URL != "":
			out = append(out, llm.Text(strings.TrimSpace(p.Filename+" "+p.URL)))
		case p.Data != nil:
			out = append(out, llm.Text(string(p.Data)))
		}
	}
	return out
}

// media returns the block for a file of an agent.
func media(p part) llm.Block {
	b := llm.File(p.Filename, p.MediaType, p.Raw)
	if p.Raw == nil {
		b.URL = p.URL
	}
	for prefix, kind := range map[string]string{"image/": llm.BlockImage, "audio/": llm.BlockAudio, "video/": llm.BlockVideo} {
		if strings.HasPrefix(p.MediaType, prefix) {
			b.Type, b.Extra = kind, nil
		}
	}
	return b
}
