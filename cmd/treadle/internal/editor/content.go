package editor

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	acp "github.com/coder/acp-go-sdk"

	"github.com/treadle-go/treadle/llm"
)

// messageOf returns the user message of a prompt.
func messageOf(prompt []acp.ContentBlock) (llm.Message, error) {
	var blocks []llm.Block
	text := func(s string) { blocks = append(blocks, llm.Block{Type: llm.BlockText, Text: s}) }
	for i, b := range prompt {
		switch {
		case b.Text != nil:
			text(b.Text.Text)
		case b.ResourceLink != nil:
			text(fmt.Sprintf("[%s](%s)", b.ResourceLink.Name, b.ResourceLink.Uri))
		case b.Resource != nil && b.Resource.Resource.TextResourceContents != nil:
			r := b.Resource.Resource.TextResourceContents
			text(fmt.Sprintf("Content of %s:\n\n%s", r.Uri, r.Text))
		case b.Image != nil:
			data, err := base64.StdEncoding.DecodeString(b.Image.Data)
			if err != nil || len(data) == 0 {
				return llm.Message{}, invalid("prompt: image at index %d: invalid base64 data", i)
			}
			blocks = append(blocks, llm.Image(b.Image.MimeType, data))
		default:
			return llm.Message{}, invalid("prompt: unsupported content at index %d: send text, images, links, or text resources", i)
		}
	}
	if len(blocks) == 0 {
		return llm.Message{}, invalid("prompt: no content")
	}
	if len(blocks) == 1 && blocks[0].Type == llm.BlockText {
		return llm.User(blocks[0].Text), nil
	}
	return llm.User("", blocks...), nil
}

// plain returns the text of a message as an answer to a question. If the answer's schema wants
// something other than a string, JSON is taken as such.
func plain(m llm.Message, schema json.RawMessage) any {
	text := strings.TrimSpace(m.Text())
	var want struct {
		Type any `json:"type"`
	}
	if len(schema) > 0 && json.Unmarshal(schema, &want) == nil && want.Type != "string" && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

// messagesOf returns the conversation in a thread's state.
func messagesOf(values json.RawMessage) llm.Messages {
	var state struct {
		Messages llm.Messages `json:"messages"`
	}
	if len(values) == 0 || json.Unmarshal(values, &state) != nil {
		return nil // no conversation
	}
	return state.Messages
}

// titleOf returns the title of a session: the beginning of its first message.
func titleOf(content json.RawMessage) *string {
	var text string
	if json.Unmarshal(content, &text) != nil {
		var parts []struct{ Text string }
		if json.Unmarshal(content, &parts) != nil || len(parts) == 0 {
			return nil
		}
		text = parts[0].Text
	}
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if first == "" {
		return nil
	}
	return new(shortened(first))
}
