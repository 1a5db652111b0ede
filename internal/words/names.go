package words

import (
	"strings"
	"unicode"
)

// Names returns the words of a text, in the form of [Each], that seem to be names of
// people, places and things: words with a capital letter inside a sentence, words in
// quotation marks, handles such as @ann, and numbers of three digits or more. The first word of a sentence has a capital
// anyway, so it is not a name, nor is any word of a sentence in which all words have
// one. In scripts without capitals only the others are found.
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

// maxTitle is the length in bytes up to which a quotation counts as a title; a longer
// one is something that somebody said.
const maxTitle = 60

var quotes = [][2]string{{`"`, `"`}, {"“", "”"}, {"„", "“"}, {"«", "»"}, {"「", "」"}, {"『", "』"}, {"《", "》"}}

func endsSentence(r rune) bool { return strings.ContainsRune(".!?:;\n。！？：；…", r) }

func inWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.M, r)
}

// minDigits is the number of digits from which on a word is a number of something, such
// as a year, an order or a flight.
const minDigits = 3

func digits(w string) (n int) {
	for _, r := range w {
		if unicode.IsDigit(r) {
			n++
		}
	}
	return n
}

// startsUpper reports whether a word of two letters or more starts with a capital. One
// letter is "I" or a mark of a list.
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
