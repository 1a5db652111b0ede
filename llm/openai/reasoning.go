package openai

import (
	"encoding/json"
	"maps"

	"github.com/treadle-go/treadle/llm"
)

// Fields that servers use for reasoning. None is OpenAI's.
const (
	fieldContent = "reasoning_content" // DeepSeek, vLLM, SGLang, Qwen, Kimi
	fieldPlain   = "reasoning"         // Ollama, OpenRouter, Groq, newer vLLM
	fieldDetails = "reasoning_details" // OpenRouter
)

// reasoningField is the key in a reasoning block's Extra for the name of the field
// that its text came in.
const reasoningField = "reasoning_field"

// reasoning is the reasoning in a piece of a response.
type reasoning struct {
	text, field string
	details     []map[string]any
}

// reasoningOf returns the reasoning from the texts of both fields and the encoded
// details.
func reasoningOf(content, plain string, details []byte) (r reasoning) {
	switch { // servers that send both send the same text
	case content != "":
		r.text, r.field = content, fieldContent
	case plain != "":
		r.text, r.field = plain, fieldPlain
	}
	r.details = detailsOf(details)
	if r.text == "" {
		for _, d := range r.details {
			for _, name := range []string{"text", "summary"} {
				text, _ := d[name].(string)
				r.text += text
			}
		}
	}
	return r
}

func detailsOf(raw []byte) []map[string]any {
	if len(raw) == 0 {
		return nil
	}
	var list []map[string]any
	_ = json.Unmarshal(raw, &list) // anything other than a list of objects is ignored
	return list
}

// thought collects the reasoning of a response.
type thought struct {
	field   string
	details []map[string]any
}

// add returns a piece of the reasoning block.
func (t *thought) add(r reasoning) (llm.Block, bool) {
	for _, d := range r.details {
		t.addDetail(d)
	}
	if r.text == "" {
		return llm.Block{}, false
	}
	b := llm.Block{Type: llm.BlockReasoning, Index: new(thoughtIndex), Reasoning: r.text}
	if t.field == "" && r.field != "" {
		t.field = r.field // once, because strings in Extra are concatenated
		b.Extra = map[string]any{reasoningField: r.field}
	}
	return b, true
}

// addDetail merges the pieces of one detail: its texts are concatenated, and the
// rest is repeated with every piece.
func (t *thought) addDetail(d map[string]any) {
	var old map[string]any
	for _, o := range t.details {
		if d["index"] != nil && o["index"] == d["index"] && o["type"] == d["type"] {
			old = o
		}
	}
	if old == nil {
		t.details = append(t.details, maps.Clone(d))
		return
	}
	for name, v := range d {
		text, ok := v.(string)
		was, grows := old[name].(string)
		switch name {
		case "text", "summary", "data", "signature":
			if ok && grows {
				old[name] = was + text
				continue
			}
		}
		if v != nil {
			old[name] = v
		}
	}
}

// last returns the end of the reasoning block: the details to send back.
func (t *thought) last() (llm.Block, bool) {
	if len(t.details) == 0 {
		return llm.Block{}, false
	}
	list := make([]any, len(t.details))
	for i, d := range t.details {
		list[i] = d
	}
	return llm.Block{Type: llm.BlockReasoning, Index: new(thoughtIndex), Extra: map[string]any{fieldDetails: list}}, true
}

// sendBack returns the fields of an assistant message that return its reasoning:
// the details always, the text only during the turn that it belongs to.
func sendBack(blocks []llm.Block, current bool) map[string]any {
	fields := map[string]any{}
	var details []any
	for _, b := range blocks {
		list, _ := b.Extra[fieldDetails].([]any)
		details = append(details, list...)
		field, _ := b.Extra[reasoningField].(string)
		if current && b.Reasoning != "" && (field == fieldContent || field == fieldPlain) {
			was, _ := fields[field].(string)
			fields[field] = was + b.Reasoning
		}
	}
	if len(details) > 0 {
		fields[fieldDetails] = details
	}
	return fields
}
