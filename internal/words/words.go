// Package words splits texts into words. The store's index, its queries, and memory
// recall use the same rules. If the rules change, the store's stamp must change too.
package words

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTerm is the maximum length of a word in bytes; the rest is ignored. Longer words are
// data, not words, and databases limit the size of index keys.
const maxTerm = 128

// Each calls yield for each word of a text: runs of letters and digits, in lower case and
// without the accents that folding removes. In scripts without spaces, each character is
// a word, and so is each emoji.
func Each(text string, yield func(string)) {
	word := make([]byte, 0, maxTerm)
	flush := func() {
		if len(word) > 0 {
			yield(string(word))
			word = word[:0]
		}
	}
	var flag rune // the first of the two letters of a flag
	for _, r := range usual(text) {
		switch {
		case r < utf8.RuneSelf: // most texts; faster than the general rules, with the same result
			switch {
			case 'A' <= r && r <= 'Z':
				r += 'a' - 'A'
				fallthrough
			case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
				if len(word) < maxTerm {
					word = append(word, byte(r))
				}
			default:
				flush()
			}
		case unicode.Is(unicode.Regional_Indicator, r):
			flush()
			if flag == 0 {
				flag = r
				continue
			}
			yield(fmt.Sprintf("emoji%x%x", flag, r))
		case isEmoji(r):
			flush()
			yield(fmt.Sprintf("emoji%x", r))
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai) && unicode.IsLetter(r):
			flush()
			yield(string(r))
		case unicode.IsLetter(r) || unicode.IsNumber(r):
			for _, r := range fold(r) {
				if len(word)+utf8.RuneLen(r) <= maxTerm {
					word = utf8.AppendRune(word, r)
				}
			}
		case unicode.Is(unicode.M, r): // a mark belongs to the preceding letter
		default:
			flush()
		}
		flag = 0
	}
	flush()
}

// isEmoji reports whether a symbol is a word by itself. It is spelled with letters and
// digits, because databases index only these.
func isEmoji(r rune) bool {
	return r >= 0x2300 && unicode.Is(unicode.So, r) && (r < 0x2400 || r >= 0x2600) && (r < 0x2800 || r >= 0x2B00)
}

// halfWidth lists the full-width forms of U+FF66 to U+FF9D.
var halfWidth = []rune("ヲァィゥェォャュョッーアイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワン")

// usual returns text with the usual forms of full-width Latin letters, digits, and signs,
// and of half-width katakana.
func usual(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r >= 0xFF01 && r <= 0xFF9F }) {
		return text
	}
	var out []rune
	for _, r := range text {
		switch {
		case r >= 0xFF01 && r <= 0xFF5E:
			r += '!' - 0xFF01
		case r >= 0xFF66 && r <= 0xFF9D:
			r = halfWidth[r-0xFF66]
		case r == 0xFF9E || r == 0xFF9F:
			if last := len(out) - 1; last >= 0 {
				out[last] = voiced(out[last], r)
			}
			continue
		}
		out = append(out, r)
	}
	return string(out)
}

// voiced returns a katakana with a voicing mark, or r if it has none.
func voiced(r, mark rune) rune {
	switch {
	case mark == 0xFF9F && strings.ContainsRune("ハヒフヘホ", r):
		return r + 2
	case mark != 0xFF9E:
	case r == 'ウ':
		return 'ヴ'
	case strings.ContainsRune("カキクケコサシスセソタチツテトハヒフヘホ", r):
		return r + 1
	}
	return r
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
