package a2awire

import (
	"encoding/json"

	"github.com/treadle-go/treadle/llm"
)

// StreamedText is the text of the response being streamed.
type StreamedText struct {
	Text     string
	id, sent string // of the message; the text sent to the client so far
}

// Add adds a chunk of a response and reports whether to send an update. Each update contains
// the whole text, so updates of a long text are less frequent: the total sent is at most about
// 64 times the text.
func (t *StreamedText) Add(data json.RawMessage) bool {
	var pair []json.RawMessage
	var m struct {
		Type    string          `json:"type"`
		ID      string          `json:"id"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(data, &pair) != nil || len(pair) == 0 || json.Unmarshal(pair[0], &m) != nil {
		return false
	}
	piece := contentText(m.Content)
	switch {
	case piece == "":
		return false
	case m.Type == "AIMessageChunk" && m.ID == t.id:
		t.Text += piece
	case m.Type == "AIMessageChunk", m.Type == "ai":
		t.id, t.Text, t.sent = m.ID, piece, ""
	default:
		return false
	}
	if len(t.Text) <= len(t.sent)+len(t.sent)/64 {
		return false
	}
	t.sent = t.Text
	return true
}

// contentText returns the text of a message's content, which is a string or blocks.
func contentText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var blocks []llm.Block
	if json.Unmarshal(raw, &blocks) != nil {
		return ""
	}
	m := llm.Message{Blocks: blocks}
	return m.Text()
}
