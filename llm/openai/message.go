package openai

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// messages returns the conversation in the API's format. reads reports whether the model
// reads images.
func (m *Model) messages(conversation llm.Messages, reads bool) ([]object, error) {
	moved := adapter.MoveMedia(conversation, reads, isStored, func(b llm.Block) bool {
		_, err := m.part(b)
		return err == nil
	})
	m.warn.Media(moved)
	history, turn := moved.Messages, moved.Turn()
	out := make([]object, 0, len(history))
	var shown []any // media of tool results, not yet sent
	for i := range history {
		msg := &history[i]
		if msg.Role != llm.RoleTool {
			out, shown = flush(out, shown), nil
		}
		var one object
		var err error
		switch msg.Role {
		case llm.RoleSystem:
			one, err = m.system(msg)
		case llm.RoleHuman:
			one, err = m.user(msg)
		case llm.RoleAI:
			one = m.assistant(msg, i > turn)
		case llm.RoleTool:
			var media []any
			one, media, err = m.tool(msg)
			shown = append(shown, media...)
		default:
			err = fmt.Errorf("invalid role")
		}
		if err != nil {
			return nil, fmt.Errorf("message %d (%s): %w", moved.At(i), msg.Role, err)
		}
		out = append(out, one)
	}
	return flush(out, shown), nil
}

// flush appends the media of tool results as a user message. The API accepts media
// only from users, and nothing may come between the results of one message's calls.
func flush(out []object, shown []any) []object {
	if len(shown) == 0 {
		return out
	}
	return append(out, object{{"content", shown}, {"role", "user"}})
}

var notInName = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// nameOf returns an author's name in the form that the API allows.
func nameOf(name string) string {
	if name == "" {
		return ""
	}
	name = strings.Trim(notInName.ReplaceAllString(name, "_"), "_")
	return name[:min(len(name), 64)]
}

func (m *Model) system(msg *llm.Message) (object, error) {
	texts, media := m.texts(msg)
	if len(media) > 0 {
		return nil, fmt.Errorf("block of type %s in a system message: move it to a user message", media[0].Type)
	}
	return said("system", contentOf(texts), msg.Name), nil
}

// said returns a message that consists of content and a name.
func said(role string, content any, name string) object {
	out := object{{"content", content}}
	out.add("name", nameOf(name))
	return append(out, field{"role", role})
}

func (m *Model) user(msg *llm.Message) (object, error) {
	texts, media := m.texts(msg)
	if len(media) == 0 {
		return said("user", contentOf(texts), msg.Name), nil
	}
	var parts []any
	for _, b := range msg.Parts() {
		if b.Type == llm.BlockReasoning {
			continue
		}
		part, err := m.part(b)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return said("user", parts, msg.Name), nil
}

// isStored reports whether a block is audio that the server has stored.
func isStored(_ *llm.Message, b llm.Block) bool { return b.Type == llm.BlockAudio && b.ID != "" }

// assistant returns a model's message. current reports whether it belongs to the
// current turn.
func (m *Model) assistant(msg *llm.Message, current bool) object {
	var out object
	out.add("name", nameOf(msg.Name))
	var text strings.Builder
	var thoughts []llm.Block
	for _, b := range msg.Parts() {
		switch b.Type {
		case llm.BlockText, llm.BlockPlain:
			text.WriteString(b.Text)
		case llm.BlockReasoning:
			thoughts = append(thoughts, b)
		case llm.BlockAudio:
			out = append(out, field{"audio", object{{"id", b.ID}}})
		}
		// Skip blocks of other types, which are data of another provider.
	}
	if text.Len() > 0 || len(msg.ToolCalls) == 0 {
		out = append(out, field{"content", text.String()})
	}
	if len(msg.ToolCalls) > 0 {
		calls := make([]object, len(msg.ToolCalls))
		for i, call := range msg.ToolCalls {
			calls[i] = m.call(call)
		}
		out = append(out, field{"tool_calls", calls})
	}
	out = append(out, field{"role", "assistant"})
	if text.Len() == 0 && len(msg.ToolCalls) > 0 {
		out = append(out, field{"content", nil}) // some servers require an explicit null
	}
	if from, known := msg.Metadata["model_provider"]; known && from != provider && len(thoughts) > 0 {
		m.warn.ForeignReasoning(from)
	}
	if m.own {
		return out
	}
	return out.with(sendBack(thoughts, current))
}

func (m *Model) call(call llm.ToolCall) object {
	args := string(call.Args)
	if args == "" {
		args = "{}"
	}
	out := object{{"id", call.ID}, {"function", object{{"arguments", args}, {"name", call.Name}}}, {"type", "function"}}
	if v, there := call.Extra[extraContent]; there && !m.own {
		out = append(out, field{extraContent, v})
	}
	return out
}

// tool returns a tool result. Its media are returned separately, with a text that
// identifies them.
func (m *Model) tool(msg *llm.Message) (out object, media []any, err error) {
	texts, blocks := m.texts(msg)
	if len(blocks) > 0 {
		what := fmt.Sprintf("From the tool %s (call %s):", msg.Name, msg.ToolCallID)
		media = append(media, textPart(what))
		if len(texts) == 0 {
			texts = append(texts, textPart("The result is in the next message of the user."))
		}
	}
	for _, b := range blocks {
		part, err := m.part(b)
		if err != nil {
			return nil, nil, err
		}
		media = append(media, part)
	}
	return object{{"content", contentOf(texts)}, {"tool_call_id", msg.ToolCallID}, {"role", "tool"}}, media, nil
}

// texts returns the texts of a message, and the blocks that are not text.
func (m *Model) texts(msg *llm.Message) (texts []object, media []llm.Block) {
	for _, b := range msg.Parts() {
		switch b.Type {
		case llm.BlockText, llm.BlockPlain:
			texts = append(texts, m.text(b))
		case llm.BlockReasoning:
		default:
			media = append(media, b)
		}
	}
	return texts, media
}

func textPart(text string) object { return object{{"text", text}, {"type", "text"}} }

// contentOf returns the texts as a string, which all servers support, if nothing is
// lost by that.
func contentOf(texts []object) any {
	switch {
	case len(texts) == 0:
		return ""
	case len(texts) == 1 && len(texts[0]) == len(textPart("")): // without a cache mark
		return texts[0][0].value
	}
	return texts
}

// text returns a text part with the cache marks that servers support.
func (m *Model) text(b llm.Block) object {
	t := textPart(b.Text)
	mark := "cache_control" // OpenRouter's
	if m.own {
		mark = "prompt_cache_breakpoint"
	}
	if v, there := b.Extra[mark]; there {
		t = append(t, field{mark, v})
	}
	return t
}
