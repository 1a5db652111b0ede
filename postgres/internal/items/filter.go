package items

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/store"
)

// A filtered search asks the database only for items whose value, as jsonb, contains the
// values that the filter requires to be equal. [store.Query.Match] then makes the final
// decision. To avoid missing items, a value that jsonb rejects or would alter is not
// stored as jsonb, and such items are always included.

// Limits for values stored as jsonb. The limits of jsonb itself are higher.
const (
	maxDoc    = 64 << 10
	maxDepth  = 64
	maxDigits = 100
)

// exact reports whether jsonb preserves a JSON value unchanged.
func exact(raw []byte) bool {
	if len(raw) > maxDoc || bytes.Contains(raw, []byte(`\u`)) { // NUL or an unpaired surrogate
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
			depth++
			if depth > maxDepth {
				return false
			}
		case c == '}' || c == ']':
			depth--
			digits = 0
		case c == ',' || c == ':':
			digits = 0
		case c == 'e' || c == 'E':
			if digits > 0 { // an exponent can expand to many digits
				return false
			}
		case c >= '0' && c <= '9':
			digits++
			if digits > maxDigits {
				return false
			}
		}
	}
	return true
}

// doc returns a value to store as jsonb, or nil for NULL.
func (p *prepared) doc(value []byte) any {
	if len(value) == 0 || !p.server.utf8 || !exact(value) {
		return nil
	}
	return string(value)
}

// A narrowing is a condition on store_item i that all items that pass a filter meet.
type narrowing struct {
	sql  string // has a question mark for each argument; empty if nothing is known
	args []any  // JSON values, as text
}

// maxNarrow is the maximum number of values that a condition compares with.
const maxNarrow = 64

// narrow returns a condition that all items that pass a filter meet.
func (p *prepared) narrow(f store.Filter) narrowing {
	n := p.narrowing(f)
	if !p.server.utf8 || len(n.args) > maxNarrow {
		return narrowing{}
	}
	return n
}

func (p *prepared) narrowing(f store.Filter) narrowing {
	switch f.Op {
	case store.OpAnd:
		var known []narrowing
		for _, of := range f.Of {
			if n := p.narrowing(of); n.sql != "" {
				known = append(known, n)
			}
		}
		return joined(known, " AND ")
	case store.OpOr:
		all := make([]narrowing, len(f.Of))
		for i, of := range f.Of {
			all[i] = p.narrowing(of)
		}
		return joined(all, " OR ")
	case store.OpEq, store.OpIn:
		all := make([]narrowing, len(f.Values))
		for i, v := range f.Values {
			if contained, ok := nest(f.Path, v); ok {
				all[i] = narrowing{"i.doc @> ?::jsonb", []any{contained}}
			}
		}
		return joined(all, " OR ")
	}
	return narrowing{}
}

// joined joins conditions. If one of them is empty, the result is empty.
func joined(all []narrowing, by string) (out narrowing) {
	if len(all) == 1 {
		return all[0]
	}
	var texts []string
	for _, n := range all {
		if n.sql == "" {
			return narrowing{}
		}
		texts, out.args = append(texts, n.sql), append(out.args, n.args...)
	}
	if texts != nil {
		out.sql = "(" + strings.Join(texts, by) + ")"
	}
	return out
}

// nest returns the JSON object that contains a value at a path.
func nest(path []string, value json.RawMessage) (string, bool) {
	var b strings.Builder
	for _, key := range path {
		if strings.Trim(key, "0123456789") == "" {
			return "", false // may be an array index
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

// narrowed returns the condition on a scope's arguments. The first argument has the
// number first.
func (s *scope) narrowed(first int) string {
	if s.sql == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString(" AND (i.doc IS NULL OR ")
	for i, part := range strings.Split(s.sql, "?") {
		if i > 0 {
			fmt.Fprintf(&b, "$%d", first+i-1)
		}
		b.WriteString(part)
	}
	return b.String() + ")"
}
