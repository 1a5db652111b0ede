package agent

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/treadle-go/treadle/llm"
)

// cleaner rewrites the parts of a message and remembers whether something was
// found, and the first error.
type cleaner struct {
	redactor
	where   llm.Role
	changed bool
	err     error
}

func (c *cleaner) text(s *string) {
	if *s == "" || c.err != nil {
		return
	}
	clean, err := c.redactor.text(*s, c.where)
	if err != nil {
		c.err = err
		return
	}
	if clean != *s {
		*s, c.changed = clean, true
	}
}

// blocks are the blocks without what is found in them: in texts and reasoning, in
// documents of text, and in the fields of blocks of any other form, since a
// provider's adapter may send them as they are.
func (c *cleaner) blocks(in []llm.Block) []llm.Block {
	out := slices.Clone(in) // the old ones are shared
	for i := range out {
		b := &out[i]
		c.text(&b.Text)
		c.text(&b.Reasoning)
		if !strings.HasPrefix(b.URL, "data:") {
			c.address(&b.URL)
		}
		if isText(b.MIMEType) && utf8.Valid(b.Data) {
			text := string(b.Data)
			if c.text(&text); text != string(b.Data) {
				b.Data = []byte(text)
			}
		}
		if extra, ok := c.value(b.Extra).(map[string]any); ok {
			b.Extra = extra
		}
	}
	return out
}

// address is the address of a picture or a file. That it is an address is no
// finding: without it there is no picture.
func (c *cleaner) address(s *string) {
	others := *c
	others.Find = slices.DeleteFunc(slices.Clone(c.Find), func(p PII) bool { return p.Name == URL.Name })
	others.text(s)
	c.changed, c.err = others.changed, others.err
}

func isText(mime string) bool {
	return strings.HasPrefix(mime, "text/") || strings.Contains(mime, "json") || strings.Contains(mime, "xml") || strings.Contains(mime, "yaml")
}

// opaque are fields that hold no words: names of things and encoded data.
var opaque = []string{"type", "id", "index", "mime_type", "media_type", "base64", "signature", "encrypted_content", "file_id",
	"cache_control", "tool_call_id", "call_id", "thought_signature", "lc_source"}

// value is a JSON value without what is found in its texts, its numbers and the
// names of its fields.
func (c *cleaner) value(v any) any {
	switch v := v.(type) {
	case string:
		if !strings.HasPrefix(v, "data:") {
			c.text(&v)
		}
		return v
	case json.Number:
		if text := string(v); c.err == nil {
			if c.text(&text); text != string(v) {
				return text
			}
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = c.value(v[i])
		}
		return out
	case map[string]any:
		if v == nil {
			return v
		}
		encoded := v["type"] == "base64" || v["source_type"] == "base64"
		out := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			in := v[name]
			if !slices.Contains(opaque, name) && (!encoded || name != "data") {
				in = c.value(in)
			}
			c.text(&name)
			out[name] = in
		}
		return out
	}
	return v
}

// json is the same for JSON as it is written.
func (c *cleaner) json(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || c.err != nil {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		text := string(raw)
		c.text(&text)
		return json.RawMessage(text)
	}
	before := c.changed
	c.changed = false
	v = c.value(v)
	found := c.changed
	c.changed = before || found
	if !found || c.err != nil {
		return raw
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if c.err = e.Encode(v); c.err != nil {
		return raw
	}
	return bytes.TrimSpace(b.Bytes())
}

// message rewrites all of a message that a model reads.
func (r redactor) message(m *llm.Message) (changed bool, err error) {
	c := &cleaner{redactor: r, where: m.Role}
	c.text(&m.Content)
	blocks := c.blocks(m.Blocks)
	calls, bad := slices.Clone(m.ToolCalls), slices.Clone(m.InvalidToolCalls)
	for i := range calls {
		calls[i].Args = c.json(calls[i].Args)
	}
	for i := range bad {
		c.text(&bad[i].Args)
	}
	extra, _ := c.value(m.Extra).(map[string]any)
	if m.Role == llm.RoleHuman { // of others it is the name of an agent or a tool
		c.text(&m.Name)
	}
	if c.changed && c.err == nil {
		m.Blocks, m.ToolCalls, m.InvalidToolCalls, m.Extra = blocks, calls, bad, extra
	}
	return c.changed, c.err
}
