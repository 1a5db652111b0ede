package toolindex

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/words"
	"github.com/treadle-go/treadle/llm"
)

// fields is the number of texts of a tool: its name, its description, the names of its
// arguments, and the texts about them.
const fields = 4

const (
	maxDepth = 8        // of nested arguments
	maxText  = 16 << 10 // bytes of each text
	maxEnum  = 64       // values of an argument
)

// texts returns the texts of a tool.
func texts(t *llm.Tool) [fields]string {
	a := arguments{seen: map[*jsonschema.Schema]bool{}}
	a.add(t.Parameters, 0)
	return [fields]string{t.Name, clip(t.Description, maxText), clip(a.names.String(), maxText), clip(a.texts.String(), maxText)}
}

// arguments collects the names of arguments, their descriptions, and their allowed values.
type arguments struct {
	names, texts strings.Builder
	seen         map[*jsonschema.Schema]bool // a schema may contain itself
}

func (a *arguments) add(s *jsonschema.Schema, depth int) {
	if s == nil || depth > maxDepth || a.seen[s] || a.names.Len()+a.texts.Len() > 2*maxText {
		return
	}
	a.seen[s] = true
	if depth > 0 {
		a.texts.WriteString(s.Description + "\n")
		for _, v := range s.Enum[:min(len(s.Enum), maxEnum)] {
			fmt.Fprintln(&a.texts, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		a.names.WriteString(name + "\n")
		a.add(s.Properties[name], depth+1)
	}
	a.add(s.Items, depth+1)
	for _, all := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf, s.AllOf} {
		for _, one := range all {
			a.add(one, depth+1)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Defs)) {
		a.add(s.Defs[name], depth+1)
	}
}

// meaning returns the text that an embedder gets for a tool.
func meaning(t *llm.Tool) string {
	var name []string
	words.Each(split(t.Name), func(w string) { name = append(name, w) })
	return strings.Join(name, " ") + ": " + clip(t.Description, maxText)
}

// terms returns the stems of the words of a text, without function words.
func terms(text string) []string {
	var all []string
	words.Each(split(text), func(w string) { all = append(all, w) })
	drop := words.Function(all)
	out := all[:0]
	for _, w := range all {
		if !drop[w] {
			out = append(out, words.Stem(w))
		}
	}
	return out
}

// split separates the words of identifiers such as getHTTPStatus.
func split(text string) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/8)
	runes := []rune(text)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) {
			before := runes[i-1]
			startsWord := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if unicode.IsLower(before) || unicode.IsDigit(before) || unicode.IsUpper(before) && startsWord {
				b.WriteByte(' ')
			}
		}
		b.WriteRune(r)
	}
	return b.String()
}

// trigrams returns the distinct sequences of three characters in a word, with its ends.
func trigrams(word string) []string {
	runes := []rune("^" + word + "$")
	var out []string
	for i := range len(runes) - 2 {
		if gram := string(runes[i : i+3]); !slices.Contains(out, gram) {
			out = append(out, gram)
		}
	}
	return out
}

// clip shortens a text to n bytes.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}
