package draw

import (
	"strings"
	"unicode"
)

// runeWidth returns the number of terminal cells that r takes: none for combining
// marks, two for wide East Asian scripts and emoji, and one otherwise.
func runeWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r < 0x1100:
		return 1
	case r <= 0x115f, // Hangul Jamo
		0x2e80 <= r && r <= 0xa4cf && r != 0x303f, // CJK, Kana, Yi
		0xac00 <= r && r <= 0xd7a3,                // Hangul
		0xf900 <= r && r <= 0xfaff,                // CJK compatibility
		0xfe30 <= r && r <= 0xfe6f,                // CJK forms
		0xff00 <= r && r <= 0xff60,                // full width forms
		0xffe0 <= r && r <= 0xffe6,
		0x1f300 <= r && r <= 0x1f64f, // pictographs
		0x1f680 <= r && r <= 0x1f6ff,
		0x1f900 <= r && r <= 0x1faff,
		0x20000 <= r && r <= 0x3fffd:
		return 2
	}
	return 1
}

// textWidth returns the number of cells that s takes.
func textWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// clean converts s to one line of visible characters, so that a name cannot move the
// cursor or break out of its box.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u200d':
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// wrap breaks a label into lines of about wrapAt cells. A label that would take more
// than maxLines ends in an ellipsis; the other formats contain the full text.
func wrap(s string) []string {
	const wrapAt, maxLines = 24, 4
	var lines []string
	for word := range strings.FieldsSeq(clean(s)) {
		n := len(lines)
		switch {
		case n > 0 && textWidth(lines[n-1])+1+textWidth(word) <= wrapAt:
			lines[n-1] += " " + word
		case n == maxLines:
			lines[n-1] += " …"
			return lines
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
