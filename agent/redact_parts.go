package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/treadle-go/treadle/llm"
)

// cleaner redacts the parts of a message. It records whether it found anything, and
// the first error.
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

// blocks returns redacted copies of the blocks: their text and reasoning, text
// documents, and the fields of blocks with unknown types, which a provider's
// adapter may send verbatim.
func (c *cleaner) blocks(in []llm.Block) []llm.Block {
	out := slices.Clone(in) // the originals are shared
	for i := range out {
		b := &out[i]
		c.text(&b.Text)
		c.text(&b.Reasoning)
		if !strings.HasPrefix(b.URL, "data:") {
			c.address(&b.URL)
		}
		if isText(b.MIMEType) && utf8.Valid(b.Data) {
			text := string(b.Data)
			c.text(&text)
			if text != string(b.Data) {
				b.Data = []byte(text)
			}
		}
		if extra, ok := c.value(b.Extra).(map[string]any); ok {
			b.Extra = extra
		}
	}
	return out
}

// address redacts the URL of an image or file, but not for being a URL: without it,
// the image would be lost.
func (c *cleaner) address(s *string) {
	others := *c
	others.Find = slices.DeleteFunc(slices.Clone(c.Find), func(p PII) bool { return p.Name == URL.Name })
	others.text(s)
	c.changed, c.err = others.changed, others.err
}

func isText(mime string) bool {
	return strings.HasPrefix(mime, "text/") || strings.Contains(mime, "json") || strings.Contains(mime, "xml") || strings.Contains(mime, "yaml")
}

// opaque lists fields that are left unchanged: identifiers and encoded data.
var opaque = []string{"type", "id", "index", "mime_type", "media_type", "base64", "signature", "encrypted_content", "file_id",
	"cache_control", "tool_call_id", "call_id", "thought_signature", "lc_source"}

// value returns a redacted copy of a JSON value: its strings, numbers, and field
// names.
func (c *cleaner) value(v any) any {
	switch v := v.(type) {
	case string:
		if !strings.HasPrefix(v, "data:") {
			c.text(&v)
		}
		return v
	case json.Number:
		return c.number(v, string(v))
	case float64:
		return c.number(v, strconv.FormatFloat(v, 'f', -1, 64))
	case int, int64, uint64:
		return c.number(v, fmt.Sprint(v))
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
			out[unused(out, name)] = in
		}
		return out
	}
	return v
}

// number returns v, or its redacted text if personal data was found in it.
func (c *cleaner) number(v any, text string) any {
	was := text
	c.text(&text)
	if text != was {
		return text
	}
	return v
}

// unused returns a name that is not used in m. Redaction can make different names
// equal, and no field may be lost.
func unused(m map[string]any, name string) string {
	free := name
	for n := 2; ; n++ {
		if _, taken := m[free]; !taken {
			return free
		}
		free = name + "_" + strconv.Itoa(n)
	}
}

// json returns a redacted copy of encoded JSON. Invalid JSON is redacted as text.
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

// message redacts all parts of a message that a model reads.
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
	if m.Role == llm.RoleHuman { // for other roles it is the name of an agent or tool
		c.text(&m.Name)
	}
	if c.changed && c.err == nil {
		m.Blocks = blocks
		m.ToolCalls = calls
		m.InvalidToolCalls = bad
		m.Extra = extra
	}
	return c.changed, c.err
}
