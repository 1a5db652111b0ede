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
// a store indexes its items anew when they change.
const analysis = "1"

// maxTerm bounds a word, in bytes; the rest of it is ignored. Longer ones are
// data rather than words, and databases bound the keys of their indexes.
const maxTerm = 128

// eachWord calls yield with the words of a text: runs of letters and digits, in
// lower case, without marks and accents as far as folding knows them. In scripts
// without spaces each character is a word.
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

// fold is a letter in lower case and without its accent.
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

// termsOf are the words of texts with their counts, sorted.
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

// The bounds of a query: a message may have a whole log pasted into it, and the
// time of a search grows with the words it looks for.
const (
	maxQueryTerms    = 128
	maxQueryText     = 64 << 10 // bytes that are looked through for words
	maxEmbeddedQuery = 8 << 10  // bytes that an embedder is given
)

// queryTerms are the different words of a query, sorted. If there are too many, half
// of those taken are the nearest to its beginning and its end, and half the rarest
// in it, of those the longest. How rare a word is among the items would tell more;
// but to ask an index for every word is the work that this avoids.
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

// ends is a text of which, if it is longer than size, only the beginning and the
// end are left, cut between words if there are any.
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
