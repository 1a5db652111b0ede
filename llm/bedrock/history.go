package bedrock

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// object is a JSON object. Its fields are encoded in the same order each time, as
// the prompt cache requires.
type object = map[string]any

// turn is a message in the API's format.
type turn struct {
	Role    string   `json:"role"`
	Content []object `json:"content"`
}

// history converts a conversation. The API requires that user and assistant turns
// alternate, starting with the user's.
type history struct {
	family family
	tools  bool // the request has tools; otherwise calls and results become texts

	system []object
	turns  []turn
	late   []object        // media of tool results, placed after all results
	names  map[string]bool // names of documents
	warn   *adapter.Warner
}

// addAll adds a conversation. reads reports whether the model reads images.
func (h *history) addAll(messages llm.Messages, reads bool) error {
	moved := adapter.MoveMedia(messages, reads, nil, func(b llm.Block) bool {
		_, err := h.block(b)
		return err == nil
	})
	h.warn.Media(moved)
	for i := range moved.Messages {
		m := &moved.Messages[i]
		if err := h.add(m); err != nil {
			return &llm.HistoryError{Index: moved.At(i), ID: m.ID, Reason: err.Error()}
		}
	}
	h.flush()
	if len(h.turns) == 0 {
		return errors.New("conversation without user messages")
	}
	h.trimEnd()
	for i := range h.turns {
		h.explainDocuments(&h.turns[i])
	}
	return nil
}

func (h *history) add(m *llm.Message) error {
	if m.Role != llm.RoleTool {
		h.flush()
	}
	switch m.Role {
	case llm.RoleSystem:
		return h.addSystem(m)
	case llm.RoleHuman:
		content, err := h.content(m.Parts())
		if err == nil && len(content) == 0 {
			err = errors.New("empty message, which Bedrock rejects")
		}
		h.append("user", content)
		return err
	case llm.RoleTool:
		return h.addResult(m)
	case llm.RoleAI:
		content := h.answer(m)
		if len(content) > 0 && len(h.turns) == 0 {
			return errors.New("conversation starts with a model's message: Bedrock requires a user message first")
		}
		h.append("assistant", content)
		return nil
	}
	return fmt.Errorf("unknown role %q", m.Role)
}

// append adds content to the last turn if it has the same role, and otherwise
// starts a turn.
func (h *history) append(role string, content []object) {
	if len(content) == 0 {
		return
	}
	if n := len(h.turns); n > 0 && h.turns[n-1].Role == role {
		h.turns[n-1].Content = append(h.turns[n-1].Content, content...)
		return
	}
	h.turns = append(h.turns, turn{role, content})
}

// flush adds the media of tool results after all results, because the results must
// be together.
func (h *history) flush() {
	h.append("user", h.late)
	h.late = nil
}

func (h *history) addSystem(m *llm.Message) error {
	for _, b := range m.Parts() {
		if b.Type != llm.BlockText && b.Type != llm.BlockPlain {
			return fmt.Errorf("block of type %q in a system message: only texts are possible", b.Type)
		}
		if blank(b.Text) {
			continue
		}
		h.system = append(h.system, guarded(b, object{"text": b.Text}))
		h.system = append(h.system, h.cachePoint(b.Extra)...)
	}
	return nil
}

// content returns the content of a user message.
func (h *history) content(parts []llm.Block) ([]object, error) {
	var out []object
	for _, b := range parts {
		if b.Type == llm.BlockReasoning || b.Type == llm.BlockText && blank(b.Text) {
			continue
		}
		block, err := h.block(b)
		if err != nil {
			return nil, err
		}
		out = append(out, guarded(b, block))
		out = append(out, h.cachePoint(b.Extra)...)
	}
	return out, nil
}

// guarded marks a text or an image for the guardrail if its Extra has guard.
func guarded(b llm.Block, block object) object {
	if on, _ := b.Extra["guard"].(bool); !on {
		return block
	}
	if text, ok := block["text"]; ok {
		return object{"guardContent": object{"text": object{"text": text}}}
	}
	return object{"guardContent": block}
}

// cachePoint returns a cache point if extra has cache_control and the model
// supports it.
func (h *history) cachePoint(extra map[string]any) []object {
	mark, ok := extra["cache_control"]
	if !ok || mark == nil || !h.family.caches() {
		return nil
	}
	point := object{"type": "default"}
	if fields, ok := mark.(map[string]any); ok && fields["ttl"] != nil && h.family.claude() {
		point["ttl"] = fields["ttl"]
	}
	return []object{{"cachePoint": point}}
}

// addResult adds a tool result to the user's turn.
func (h *history) addResult(m *llm.Message) error {
	var inside, outside, marks []object
	for _, b := range m.Parts() {
		if b.Type == llm.BlockReasoning || b.Type == llm.BlockText && blank(b.Text) {
			continue
		}
		block, err := h.block(b)
		if err != nil {
			return err
		}
		marks = append(marks, h.cachePoint(b.Extra)...)
		_, isText := block["text"]
		_, isAudio := block["audio"]
		if isText || h.tools && h.family.mediaInResults() && !isAudio {
			inside = append(inside, block)
		} else {
			outside = append(outside, block)
		}
	}
	if h.family.nova() {
		marks = nil // not next to results
	}
	if len(outside) > 0 {
		h.late = append(append(h.late, object{"text": fmt.Sprintf("From tool %s:", m.Name)}), outside...)
	}
	if !h.tools {
		var text strings.Builder
		for _, b := range inside {
			fmt.Fprintf(&text, "\n%s", b["text"])
		}
		h.append("user", []object{{"text": fmt.Sprintf("Result of tool %s:%s", m.Name, &text)}})
		return nil
	}
	if len(inside) == 0 {
		inside = []object{{"text": "(no output)"}}
	}
	result := object{"toolUseId": callID(m.ToolCallID), "content": inside}
	if m.Status == llm.StatusError {
		result["status"] = "error"
	}
	h.append("user", append([]object{{"toolResult": result}}, marks...))
	return nil
}

// answer returns the content of an AI message, in order: models reject reasoning in
// another place.
func (h *history) answer(m *llm.Message) []object {
	var out []object
	reasons, own := h.accepts(m)
	if !reasons && m.Reasoning() != "" {
		h.warn.ForeignReasoning(m.Metadata["model_provider"])
	}
	flat := !h.tools && len(m.ToolCalls) > 0
	for b, call := range m.Sequence() {
		switch {
		case call != nil && flat:
			out = append(out, object{"text": fmt.Sprintf("Called tool %s with arguments %s.", call.Name, arguments(call))})
		case call != nil:
			out = append(out, object{"toolUse": object{"toolUseId": callID(call.ID), "name": call.Name, "input": arguments(call)}})
			if !h.family.nova() {
				out = append(out, h.cachePoint(call.Extra)...)
			}
		case b.Type == llm.BlockText || b.Type == llm.BlockPlain:
			if !blank(b.Text) {
				out = append(out, object{"text": b.Text})
				out = append(out, h.cachePoint(b.Extra)...)
			}
		case isThought(b.Type):
			if block := h.thought(b, own); block != nil && reasons && !flat {
				out = append(out, block)
			}
		case b.Type == nonStandard:
			if value, ok := b.Extra["value"].(map[string]any); ok && own && h.tools {
				out = append(out, value)
			}
		}
		// Skip blocks of other types, which are data of another provider.
	}
	return out
}

// isThought reports whether blocks of a type are reasoning.
func isThought(typ string) bool { return typ == llm.BlockReasoning || typ == blockRedacted }

// blockRedacted is the type of a block with encrypted reasoning, as in Anthropic's
// API.
const blockRedacted = "redacted_thinking"

// accepts reports whether the model accepts the reasoning of a message, and whether
// the message comes from a model of the same vendor on Bedrock.
func (h *history) accepts(m *llm.Message) (reasoning, own bool) {
	from, known := m.Metadata["model_provider"].(string)
	name, _ := m.Metadata["model_name"].(string)
	switch {
	case !known: // possibly the model's own message
		return true, true
	case from == source || from == provider:
		own = familyOf(name).vendor() == h.family.vendor()
		return own, own
	}
	// Signatures of Claude's thinking are valid on all platforms.
	return from == "anthropic" && h.family.claude(), false
}

// thought returns a reasoning block, or nil if the model rejects it.
func (h *history) thought(b llm.Block, own bool) object {
	if b.Type == blockRedacted {
		if !own || len(b.Data) == 0 {
			return nil
		}
		return object{"reasoningContent": object{"redactedContent": b.Data}}
	}
	signature, _ := b.Extra["signature"].(string)
	if !h.family.acceptsReasoning(signature != "") {
		return nil
	}
	text := object{"text": b.Reasoning}
	if signature != "" {
		text["signature"] = signature
	}
	return object{"reasoningContent": object{"reasoningText": text}}
}

// nonStandard is LangChain's type for a provider's own blocks.
const nonStandard = "non_standard"

func arguments(call *llm.ToolCall) json.RawMessage {
	if len(call.Args) == 0 {
		return json.RawMessage("{}")
	}
	return call.Args
}

var validID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// callID returns a call ID in the form that all models accept. The result is the
// same for a call and its result.
func callID(id string) string {
	if validID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// trimEnd removes white space at the end of the conversation if it ends with a
// model's text, which the model continues.
func (h *history) trimEnd() {
	last := &h.turns[len(h.turns)-1]
	if last.Role != "assistant" {
		return
	}
	end := last.Content[len(last.Content)-1]
	if text, ok := end["text"].(string); ok {
		end["text"] = strings.TrimRight(text, " \t\r\n")
	}
}

// explainDocuments adds a text to a turn with documents alone, which Bedrock
// rejects.
func (h *history) explainDocuments(t *turn) {
	documents := false
	for _, b := range t.Content {
		if b["text"] != nil {
			return
		}
		documents = documents || b["document"] != nil
	}
	if documents {
		t.Content = append(t.Content, object{"text": "See the documents."})
	}
}

// blank reports whether a text consists of white space only, which the API rejects.
func blank(text string) bool { return strings.TrimSpace(text) == "" }
