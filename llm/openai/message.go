package openai

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// messages is the conversation in the API's words.
func (m *Model) messages(history llm.Messages) ([]object, error) {
	turn := 0 // where the present turn begins
	for i := range history {
		if history[i].Role == llm.RoleHuman {
			turn = i
		}
	}
	out := make([]object, 0, len(history))
	var shown []any // by tools, not yet sent
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
			one, err = m.assistant(msg, i > turn)
		case llm.RoleTool:
			var media []any
			one, media, err = m.tool(msg)
			shown = append(shown, media...)
		default:
			err = fmt.Errorf("the API has no such role")
		}
		if err != nil {
			return nil, fmt.Errorf("message %d (%s): %w", i, msg.Role, err)
		}
		out = append(out, one)
	}
	return flush(out, shown), nil
}

// flush sends what tools have shown. The API takes media from users only, and
// nothing may stand between the results of one answer's calls.
func flush(out []object, shown []any) []object {
	if len(shown) == 0 {
		return out
	}
	return append(out, object{{"content", shown}, {"role", "user"}})
}

var notInName = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// nameOf is a speaker's name as the API allows it.
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
		return nil, fmt.Errorf("a block of type %s cannot be sent in a system message: put it into a message of the user", media[0].Type)
	}
	return said("system", contentOf(texts), msg.Name), nil
}

// said is a message with no more than content and a speaker.
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

// assistant is an answer of a model. With current set it is of the turn that is
// going on.
func (m *Model) assistant(msg *llm.Message, current bool) (object, error) {
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
		case llm.BlockImage, llm.BlockAudio, llm.BlockVideo, llm.BlockFile:
			if b.Type == llm.BlockAudio && b.ID != "" {
				out = append(out, field{"audio", object{{"id", b.ID}}}) // the server knows what it said
				continue
			}
			return nil, fmt.Errorf("a block of type %s cannot be sent: the API accepts it only in messages of the user", b.Type)
		}
		// Blocks of other types are another provider's notes on its own work.
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
		out = append(out, field{"content", nil}) // some servers want to see that there is none
	}
	if m.own {
		return out, nil
	}
	return out.with(sendBack(thoughts, current)), nil
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

// tool is a result. Its media come apart, with a word on what they are.
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

// texts is the texts of a message, and the blocks that are none.
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

// contentOf is the texts as a string, which all servers understand, if nothing
// is lost by it.
func contentOf(texts []object) any {
	switch {
	case len(texts) == 0:
		return ""
	case len(texts) == 1 && len(texts[0]) == len(textPart("")): // no mark is on it
		return texts[0][0].value
	}
	return texts
}

// text is a text with the marks that servers put on texts for their caches.
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
