package spans

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/internal/schema"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
)

// modelInput is the input of a model call.
type modelInput struct {
	Messages []llm.Message `json:"messages"`
	Tools    []definition  `json:"tools,omitempty"`
	Output   *outputSchema `json:"output_schema,omitempty"`
}

type definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

type outputSchema struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
}

// inputOf returns the input of a call, as stored.
func inputOf(op *observe.Op) any {
	req, ok := op.Call.Detail.(*llm.Request)
	if !ok {
		return op.Input
	}
	in := modelInput{Messages: req.Messages}
	for _, t := range req.Tools {
		d := definition{Name: t.Name, Description: t.Description}
		if t.Parameters != nil {
			d.Parameters, _ = schema.Marshal(t.Parameters) // an invalid schema fails the call
		}
		in.Tools = append(in.Tools, d)
	}
	if o := req.Output; o != nil {
		in.Output = &outputSchema{Name: o.Name, Description: o.Description}
		if o.Schema != nil {
			in.Output.Schema, _ = schema.Marshal(o.Schema)
		}
	}
	return in
}

// secret matches the names of settings that may contain credentials.
var secret = regexp.MustCompile(`(?i)(key|token|secret|password|authorization|credential)s?$`)

// parameters returns the parameters of a model call that were set. Without content, it omits
// texts that are not names.
func parameters(r *llm.Request, noContent bool) ledger.Object {
	p := ledger.Object{"stream": !r.NoStream}
	set := func(name string, ok bool, v any) {
		if ok {
			p[name] = v
		}
	}
	set("model", r.Model != "", r.Model)
	set("max_tokens", r.MaxTokens > 0, r.MaxTokens)
	set("temperature", r.Temperature != nil, r.Temperature)
	set("top_p", r.TopP != nil, r.TopP)
	set("seed", r.Seed != nil, r.Seed)
	set("tool_choice", r.ToolChoice != "", r.ToolChoice)
	set("serial_tools", r.SerialTools, true)
	set("reasoning", r.Reasoning != "", r.Reasoning)
	set("prompt_cache_seconds", r.PromptCache > 0, r.PromptCache.Seconds())
	if noContent {
		return p
	}
	set("stop", len(r.StopWords) > 0, r.StopWords)
	if len(r.Settings) > 0 {
		settings := maps.Clone(r.Settings)
		for name := range settings {
			if secret.MatchString(name) {
				settings[name] = "[redacted]"
			}
		}
		raw, err := json.Marshal(settings)
		set("settings", err == nil && len(raw) <= maxError, json.RawMessage(raw))
	}
	return p
}

// encode returns v as JSON of at most limit bytes, and what it cut to achieve that. redact may
// be nil.
func encode(name string, v any, limit int, redact func(string) string) (json.RawMessage, []ledger.SpanCut) {
	raw, err := json.Marshal(v)
	if err != nil {
		raw, _ = json.Marshal(fmt.Sprintf("%v", v))
	}
	if redact == nil && len(raw) <= limit {
		return raw, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil { // a MarshalJSON method returned something odd
		return json.RawMessage("null"), []ledger.SpanCut{{Path: name, Bytes: len(raw)}}
	}
	if redact != nil {
		tree = mapped(tree, "", func(_, s string) string { return redacted(redact, s) })
		if raw = marshal(tree); len(raw) <= limit {
			return raw, nil
		}
	}
	return shrunk(name, tree, limit)
}

// marshal encodes a tree of JSON values, which cannot fail.
func marshal(tree any) []byte {
	raw, err := json.Marshal(tree)
	if err != nil {
		return []byte("null")
	}
	return raw
}

// redacted calls a user's function. A text that makes it panic is not stored.
func redacted(redact func(string) string, s string) (out string) {
	defer func() {
		if recover() != nil {
			out = "[not stored: Redact panicked]"
		}
	}()
	return redact(s)
}

// mapped returns tree with do applied to all strings except keys. path is the path of tree.
func mapped(tree any, path string, do func(path, s string) string) any {
	switch v := tree.(type) {
	case string:
		return do(path, v)
	case []any:
		for i, e := range v {
			v[i] = mapped(e, fmt.Sprintf("%s[%d]", path, i), do)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			v[k] = mapped(v[k], path+"."+k, do)
		}
	}
	return tree
}

// minText is the length below which texts are not cut.
const minText = 256

// shrunk returns a tree as JSON of at most limit bytes. It first cuts long texts, then removes
// messages from the middle of the conversation, and finally everything.
func shrunk(name string, tree any, limit int) (json.RawMessage, []ledger.SpanCut) {
	whole := map[string]string{} // cut texts, by path
	gone := map[string]int{}     // and how many of their bytes are missing
	var raw []byte
	for longest := max(limit/4, minText); ; longest /= 4 {
		tree = mapped(tree, name, func(path, s string) string {
			if w, ok := whole[path]; ok {
				s = w
			}
			if len(s) <= longest+64 {
				return s
			}
			whole[path] = s
			s, gone[path] = shortened(s, longest)
			return s
		})
		if raw = marshal(tree); len(raw) <= limit || longest < minText {
			break
		}
	}
	var cut []ledger.SpanCut
	for _, path := range slices.Sorted(maps.Keys(gone)) {
		cut = append(cut, ledger.SpanCut{Path: path, Bytes: gone[path]})
	}
	if len(raw) <= limit {
		return raw, cut
	}
	size := len(raw)
	if raw, n := withoutMiddle(tree, limit); raw != nil {
		return raw, append(cut, ledger.SpanCut{Path: fmt.Sprintf("%s.messages[1:%d]", name, n+1), Bytes: size - len(raw)})
	}
	return json.RawMessage("null"), append(cut, ledger.SpanCut{Path: name, Bytes: size})
}

// withoutMiddle removes messages after the first until the JSON fits the limit. It returns nil
// if tree has no messages or does not fit even then.
func withoutMiddle(tree any, limit int) (raw []byte, removed int) {
	o, _ := tree.(map[string]any)
	all, _ := o["messages"].([]any)
	for keep := len(all) / 2; keep > 0; keep /= 2 {
		removed = len(all) - 1 - keep
		o["messages"] = append([]any{all[0]}, all[len(all)-keep:]...)
		if raw = marshal(tree); len(raw) <= limit {
			return raw, removed
		}
	}
	return nil, 0
}

// shortened returns the start of a text, with a note of what is missing, and the number of missing
// bytes.
func shortened(s string, length int) (start string, missing int) {
	for length > 0 && !utf8.RuneStart(s[length]) {
		length--
	}
	missing = len(s) - length
	return fmt.Sprintf("%s… [%d bytes cut]", s[:length], missing), missing
}
