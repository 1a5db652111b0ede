// Package words splits texts into words. The store's index, its queries, and memory
// recall use the same rules. If the rules change, the store's stamp must change too.
package words

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTerm is the maximum length of a word in bytes; the rest is ignored. Longer words are
// data, not words, and databases limit the size of index keys.
const maxTerm = 128

// Each calls yield for each word of a text: runs of letters and digits, in lower case and
// without the accents that folding removes. In scripts without spaces, each character is
// a word.
func Each(text string, yield func(string)) {
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
		case unicode.Is(unicode.M, r): // a mark belongs to the preceding letter
		default:
			flush()
		}
	}
	flush()
}

// fold returns a letter in lower case without its accent.
func fold(r rune) string {
	r = unicode.ToLower(r)
	if r < utf8.RuneSelf {
		return string(r)
	}
	if base, ok := folding[r]; ok {
		return base
	}
	return string(unicode.ToLower(unicode.ToUpper(r))) // ſ becomes s, ς becomes σ
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
