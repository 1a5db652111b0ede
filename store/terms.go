package store

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// analysis is the version of the rules in this file. It is part of the stamp, so
// that a store indexes its items again when they change.
const analysis = "1"

// maxTerm is the maximum length of a word, in bytes; the rest of it is ignored.
// Longer ones are data rather than words, and databases limit the keys of their
// indexes.
const maxTerm = 128

// eachWord calls yield with the words of a text: runs of letters and digits, in
// lower case, without the marks and accents that folding has. In scripts without
// spaces each character is a word.
func eachWord(text string, yield func(string)) {
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			yield(word.String())
			word.Reset()
		}
	}
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai) && unicode.IsLetter(r):
			flush()
			yield(string(r))
		case unicode.IsLetter(r) || unicode.IsNumber(r):
			for _, r := range fold(r) {
				if word.Len()+utf8.RuneLen(r) <= maxTerm {
					word.WriteRune(r)
				}
			}
		case unicode.Is(unicode.M, r): // a mark belongs to the letter before it
		default:
			flush()
		}
	}
	flush()
}

// fold returns a letter in lower case and without its accent.
func fold(r rune) string {
	r = unicode.ToLower(r)
	if r < utf8.RuneSelf {
		return string(r)
	}
	if base, ok := folding[r]; ok {
		return base
	}
	return string(unicode.ToLower(unicode.ToUpper(r))) // ſ is s, ς is σ
}

var folding = func() map[rune]string {
	table := map[rune]string{}
	for base, letters := range map[string]string{
		"a": "àáâãäåāăąǎǻạảấầẩẫậắằẳẵặ", "ae": "æǽ", "c": "çćĉċč", "d": "ďđð",
		"e": "èéêëēĕėęěẹẻẽếềểễệ", "g": "ĝğġģǧ", "h": "ĥħ", "i": "ìíîïĩīĭįıǐỉị",
		"ij": "ĳ", "j": "ĵ", "k": "ķǩ", "l": "ĺļľŀł", "n": "ñńņňŋ",
		"o": "òóôõöøōŏőǒǿơọỏốồổỗộớờởỡợ", "oe": "œ", "r": "ŕŗř", "s": "śŝşšș",
		"ss": "ß", "t": "ţťŧțþ", "u": "ùúûüũūŭůűųưǔụủứừửữự", "w": "ŵẁẃẅ",
		"y": "ýÿŷỳỵỷỹ", "z": "źżž", "α": "ά", "ε": "έ", "η": "ή", "ι": "ίϊΐ",
		"ο": "ό", "υ": "ύϋΰ", "ω": "ώ", "и": "й", "е": "ё",
	} {
		for _, r := range letters {
			table[r] = base
		}
	}
	return table
}()

// termsOf returns the words of texts with their counts, sorted.
func termsOf(texts []text) []Term {
	counts := map[string]int{}
	for _, t := range texts {
		eachWord(t.text, func(w string) { counts[w]++ })
	}
	terms := make([]Term, 0, len(counts))
	for w, n := range counts {
		terms = append(terms, Term{w, n})
	}
	slices.SortFunc(terms, func(a, b Term) int { return cmp.Compare(a.Text, b.Text) })
	return terms
}

// The limits of a query: a message may contain a whole log file, and the time of a search
// grows with the number of words.
const (
	maxQueryTerms    = 128
	maxQueryText     = 64 << 10 // bytes that are searched for words
	maxEmbeddedQuery = 8 << 10  // bytes that are embedded
)

// queryTerms returns the different words of a query, sorted. Of too many words it
// takes half from the beginning and the end, and half from the rarest in the query,
// longer ones first. The frequency among the items would be better, but asking the
// index for every word is the work that this avoids.
func queryTerms(query string) []string {
	var words []string
	eachWord(ends(query, maxQueryText), func(w string) { words = append(words, w) })
	counts := map[string]int{}
	for _, w := range words {
		counts[w]++
	}
	different := slices.Sorted(maps.Keys(counts))
	if len(different) <= maxQueryTerms {
		return different
	}
	taken := map[string]bool{}
	for i := 0; len(taken) < maxQueryTerms/2; i++ {
		taken[words[i]] = true
		taken[words[len(words)-1-i]] = true
	}
	slices.SortStableFunc(different, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[a], counts[b]), cmp.Compare(len(b), len(a)))
	})
	for _, w := range different {
		if len(taken) >= maxQueryTerms {
			break
		}
		taken[w] = true
	}
	return slices.Sorted(maps.Keys(taken))
}

// ends returns a text; one that is longer than size is reduced to its beginning and
// end, cut between words if possible.
func ends(text string, size int) string {
	if len(text) <= size {
		return text
	}
	head, tail := text[:size/2], text[len(text)-size/2:]
	if i := strings.LastIndexFunc(head, unicode.IsSpace); i > 0 {
		head = head[:i]
	}
	if i := strings.IndexFunc(tail, unicode.IsSpace); i >= 0 {
		tail = tail[i:]
	}
	return strings.ToValidUTF8(head, "") + "\n" + strings.ToValidUTF8(strings.TrimSpace(tail), "")
}
