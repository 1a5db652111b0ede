package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/store"
)

// A search asks the database for those items only whose value, as jsonb,
// contains what the filter says must be equal. What comes back is decided by
// [store.Query.Match]; so that it misses nothing, a value that jsonb does not
// take, or would take for another, is not kept as jsonb and always asked for.

// Bounds of what is kept as jsonb. Its own are further out.
const (
	maxDoc    = 64 << 10
	maxDepth  = 64
	maxDigits = 100
)

// exact reports whether jsonb holds a JSON value as it is.
func exact(raw []byte) bool {
	if len(raw) > maxDoc || bytes.Contains(raw, []byte(`\u`)) { // NUL, or half of a character
		return false
	}
	depth, digits := 0, 0
	quoted := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
			digits = 0
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return false
			}
		case c == '}' || c == ']':
			depth--
			digits = 0
		case c == ',' || c == ':':
			digits = 0
		case c == 'e' || c == 'E':
			if digits > 0 { // an exponent makes many digits of few
				return false
			}
		case c >= '0' && c <= '9':
			if digits++; digits > maxDigits {
				return false
			}
		}
	}
	return true
}

// doc is a value as jsonb, or NULL.
func (p *prepared) doc(value []byte) any {
	if len(value) == 0 || !p.server.utf8 || !exact(value) {
		return nil
	}
	return string(value)
}

// narrow are JSON values that the value of an item contains if the filter lets it
// through.
func (p *prepared) narrow(f store.Filter) []any {
	if !p.server.utf8 {
		return nil
	}
	switch f.Op {
	case store.OpAnd:
		var all []any
		for _, of := range f.Of {
			all = append(all, p.narrow(of)...)
		}
		return all
	case store.OpEq:
		if contained, ok := nest(f.Path, f.Values[0]); ok {
			return []any{contained}
		}
	}
	return nil
}

// nest is the object that has a value at a path.
func nest(path []string, value json.RawMessage) (string, bool) {
	var b strings.Builder
	for _, key := range path {
		if strings.Trim(key, "0123456789") == "" {
			return "", false // it may be an index
		}
		quoted, err := json.Marshal(key)
		if err != nil {
			return "", false
		}
		fmt.Fprintf(&b, "{%s:", quoted)
	}
	b.Write(value)
	b.WriteString(strings.Repeat("}", len(path)))
	return b.String(), exact([]byte(b.String()))
}

// narrowed is the condition on store_item i for a scope's arguments, of which
// the first has this number.
func (s *scope) narrowed(first int) string {
	if len(s.args) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(" AND (i.doc IS NULL OR ")
	for n := range s.args {
		if n > 0 {
			b.WriteString(" AND ")
		}
		fmt.Fprintf(&b, "i.doc @> $%d::jsonb", first+n)
	}
	return b.String() + ")"
}
