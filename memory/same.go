package memory

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sameStatement reports whether two contents of one kind say the same in the same words, so
// that storing the second adds nothing. Only case at the start of a sentence, punctuation
// around words, and the article "the" can differ. Any other word may be the news: a number,
// a negation, a name, a preposition, a tense, a plural, or the "a" of "a few".
func sameStatement(a, b json.RawMessage) bool {
	var x, y any
	if decodeNumbers(a, &x) != nil || decodeNumbers(b, &y) != nil {
		return false
	}
	return sameValue(x, y)
}

// decodeNumbers decodes JSON without rounding its numbers.
func decodeNumbers(raw json.RawMessage, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(v)
}

func sameValue(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !sameValue(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !sameValue(a[i], b[i]) {
				return false
			}
		}
		return true
	case string:
		b, ok := b.(string)
		return ok && (a == b || sameText(a, b))
	}
	return a == b
}

// sameText compares two texts word by word.
func sameText(a, b string) bool {
	x := statement(a)
	return len(x) > 1 && slices.Equal(x, statement(b)) // a single word is a value, such as an identifier
}

// Punctuation that can surround a word without changing the statement. A question mark is
// not part of it, nor is a sign such as "-" before a number.
const (
	opening = "\"'“”‘’«»(["
	closing = "\"'“”‘’«»)].,;:!…"
)

// statement returns the words of a text, without "the".
func statement(text string) (out []string) {
	start := true
	for field := range strings.FieldsSeq(strings.ReplaceAll(text, "’", "'")) {
		w := strings.TrimRight(strings.TrimLeft(field, opening), closing)
		if start {
			w = uncapitalized(w)
		}
		start = strings.ContainsAny(field[len(field)-1:], ".!?")
		if w != "" && w != "the" {
			out = append(out, w)
		}
	}
	return out
}

// uncapitalized returns a word without the capital that starts a sentence.
func uncapitalized(w string) string {
	first, size := utf8.DecodeRuneInString(w)
	if rest := w[size:]; unicode.IsUpper(first) && strings.ToLower(rest) == rest {
		return string(unicode.ToLower(first)) + rest
	}
	return w
}

// textOfContent returns the text that a content is compared by: of a note its text, and of
// other kinds their JSON.
func textOfContent(kind string, content json.RawMessage) string {
	if text := textOf(Document{Kind: kind, Content: content}); text != "" {
		return text
	}
	return string(content)
}
