package words

import (
	"strings"
	"unicode"
)

// Names returns the words of a text, in the form of [Each], that look like names of
// people, places, or things: words capitalized within a sentence, words in quotation
// marks, handles such as @ann, and numbers of three or more digits. The first word of a
// sentence is always capitalized, so it does not count as a name. Neither does any word
// of a sentence in which all words are capitalized. In scripts without capitals, only the
// other kinds are found.
func Names(text string) map[string]bool {
	names := map[string]bool{}
	add := func(s string) { Each(s, func(w string) { names[w] = true }) }
	for _, s := range strings.FieldsFunc(text, endsSentence) {
		var capitals []string
		lower, first := false, true
		for _, w := range strings.FieldsFunc(s, func(r rune) bool { return !inWord(r) && r != '@' && r != '_' }) {
			switch handle, ok := strings.CutPrefix(w, "@"); {
			case ok:
				add(handle)
			case digits(w) >= minDigits:
				add(w)
			case startsLower(w):
				lower = true
			case !first && startsUpper(w):
				capitals = append(capitals, w)
			}
			first = false
		}
		if lower {
			add(strings.Join(capitals, " "))
		}
	}
	for _, marks := range quotes {
		for rest := text; ; {
			_, after, opened := strings.Cut(rest, marks[0])
			quoted, next, closed := strings.Cut(after, marks[1])
			if !opened || !closed {
				break
			}
			if len(quoted) <= maxTitle {
				add(quoted)
			}
			rest = next
		}
	}
	return names
}

// maxTitle is the maximum length in bytes of a quotation that counts as a title; longer
// quotations are speech.
const maxTitle = 60

var quotes = [][2]string{{`"`, `"`}, {"“", "”"}, {"„", "“"}, {"«", "»"}, {"「", "」"}, {"『", "』"}, {"《", "》"}}

func endsSentence(r rune) bool { return strings.ContainsRune(".!?:;\n。！？：；…", r) }

func inWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.M, r)
}

// minDigits is the minimum number of digits in an identifying number, such as a year, an
// order number, or a flight number.
const minDigits = 3

func digits(w string) (n int) {
	for _, r := range w {
		if unicode.IsDigit(r) {
			n++
		}
	}
	return n
}

// startsUpper reports whether a word of two or more letters starts with a capital. A
// single letter is "I" or a list label.
func startsUpper(w string) bool {
	rs := []rune(w)
	return len(rs) > 1 && unicode.IsUpper(rs[0])
}

func startsLower(w string) bool {
	for _, r := range w {
		return unicode.IsLower(r)
	}
	return false
}
