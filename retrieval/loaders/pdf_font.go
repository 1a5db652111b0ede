package loaders

import (
	"strconv"
	"strings"
	"unicode/utf16"
)

// font decodes the strings that a page shows.
type font struct {
	wide    bool // codes have two bytes
	utf16   bool // codes are UTF-16
	unicode map[int]string
	simple  *[256]string
	widths  map[int]float64 // in thousandths of the font size
	width   float64         // of the other codes
}

// font returns the font with the given dictionary.
func (f *file) font(d dict) (*font, error) {
	out := &font{unicode: map[int]string{}, widths: map[int]float64{}, width: 500}
	encoding := f.resolve(d["Encoding"])
	if d["Subtype"] == name("Type0") {
		out.wide = true
		n, _ := encoding.(name)
		out.utf16 = strings.Contains(string(n), "UCS2") || strings.Contains(string(n), "UTF16")
		out.width = 1000
		if below := f.array(d["DescendantFonts"]); len(below) > 0 {
			if err := f.cidWidths(out, f.dict(below[0])); err != nil {
				return nil, err
			}
		}
	} else {
		var err error
		if out.simple, err = f.encoding(encoding); err != nil {
			return nil, err
		}
		widths := f.array(d["Widths"])
		if err := f.widths(out, int(f.number(d["FirstChar"])), widths[:min(256, len(widths))]); err != nil {
			return nil, err
		}
	}
	if s, ok := f.resolve(d["ToUnicode"]).(*stream); ok {
		if err := f.toUnicode(out, s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// cidWidths reads the widths of a font with two-byte codes.
func (f *file) cidWidths(out *font, d dict) error {
	if w := f.number(d["DW"]); w > 0 {
		out.width = w
	}
	list := f.array(d["W"])
	for i := 0; i+1 < len(list); {
		first := int(f.number(list[i]))
		if widths := f.array(list[i+1]); widths != nil {
			if err := f.widths(out, first, widths); err != nil {
				return err
			}
			i += 2
			continue
		}
		if i+2 >= len(list) {
			break
		}
		first, last, w := max(0, first), min(maxCode, int(f.number(list[i+1]))), f.number(list[i+2])
		if err := f.use(3 + max(0, last-first)); err != nil {
			return err
		}
		for code := first; code <= last; code++ {
			out.widths[code] = w
		}
		i += 3
	}
	return nil
}

// maxCode is the greatest code of a character in a font.
const maxCode = 0xffff

// widths sets the widths of the codes from first on.
func (f *file) widths(out *font, first int, widths []any) error {
	if err := f.use(len(widths)); err != nil {
		return err
	}
	for i, w := range widths {
		if code := first + i; code >= 0 && code <= maxCode {
			out.widths[code] = f.number(w)
		}
	}
	return nil
}

// toUnicode reads a font's table of characters.
func (f *file) toUnicode(out *font, s *stream) error {
	data, err := f.decode(s)
	if err != nil {
		return err
	}
	p := parser{data, 0, f.budget}
	var args []any
	for {
		v, err := p.object(0)
		if err != nil {
			return err
		}
		w, ok := v.(word)
		if !ok {
			args = append(args, v)
			continue
		}
		switch w {
		case "":
			return nil
		case "endbfchar":
			for i := 0; i+1 < len(args); i += 2 {
				code, ok1 := args[i].(str)
				text, ok2 := args[i+1].(str)
				if ok1 && ok2 {
					out.unicode[codeOf(code)] = string(decodeUTF16(text))
				}
			}
		case "endbfrange":
			if err := f.addRanges(out, args); err != nil {
				return err
			}
		case "endcodespacerange":
			if hi, ok := last(args).(str); ok {
				out.wide = len(hi) == 2
			}
		}
		args = nil
	}
}

func last(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// addRanges adds ranges of codes whose characters are consecutive. The codes count as objects,
// because many ranges with many codes would take long.
func (f *file) addRanges(out *font, args []any) error {
	for i := 0; i+2 < len(args); i += 3 {
		from, ok1 := args[i].(str)
		to, ok2 := args[i+1].(str)
		if !ok1 || !ok2 {
			continue
		}
		lo, hi := codeOf(from), codeOf(to)
		if err := f.use(max(0, hi-lo)); err != nil {
			return err
		}
		switch first := args[i+2].(type) {
		case str:
			f.decoded -= max(0, hi-lo) * len(first)
			if f.decoded < 0 {
				return errDecoded
			}
			text := decodeUTF16(first)
			for code := lo; code <= hi && len(text) > 0; code++ {
				out.unicode[code] = string(text)
				text[len(text)-1]++
			}
		case []any:
			for j, v := range first {
				if s, ok := v.(str); ok && lo+j <= hi {
					out.unicode[lo+j] = string(decodeUTF16(s))
				}
			}
		}
	}
	return nil
}

func codeOf(s str) (code int) {
	for i := range min(len(s), 2) {
		code = code<<8 | int(s[i])
	}
	return code
}

func decodeUTF16(s str) []rune {
	if len(s) == 1 {
		return []rune{rune(s[0])}
	}
	var units []uint16
	for i := 0; i+1 < len(s); i += 2 {
		units = append(units, uint16(s[i])<<8|uint16(s[i+1]))
	}
	return utf16.Decode(units)
}

// decode calls yield with the text and the width of each code in s.
func (out *font) decode(s str, yield func(text string, width float64, code byte)) {
	size := 1
	if out.wide {
		size = 2
	}
	for i := 0; i+size <= len(s); i += size {
		code := codeOf(s[i : i+size])
		w, ok := out.widths[code]
		if !ok {
			w = out.width
		}
		yield(out.text(code), w, s[i+size-1])
	}
}

// text returns the text of a code; empty if it is unknown.
func (out *font) text(code int) string {
	if t, ok := out.unicode[code]; ok {
		return t
	}
	switch {
	case out.simple != nil && code < 256:
		return out.simple[code]
	case out.utf16:
		return string(rune(code))
	}
	return ""
}

// encoding returns the characters of a font with one-byte codes.
func (f *file) encoding(v any) (*[256]string, error) {
	// A table takes as much memory as many objects.
	if err := f.use(50); err != nil {
		return nil, err
	}
	var out [256]string
	base, _ := v.(name)
	d, _ := v.(dict)
	if n, ok := f.resolve(d["BaseEncoding"]).(name); ok {
		base = n
	}
	for i := 32; i < 256; i++ {
		out[i] = string(rune(i))
	}
	high, start := windows1252, 0x80
	if base == "MacRomanEncoding" {
		high = macRoman
	}
	for i, r := range []rune(high) {
		out[start+i] = string(r)
	}
	differences := f.array(d["Differences"])
	if err := f.use(len(differences)); err != nil {
		return nil, err
	}
	code := 0
	for _, x := range differences {
		switch x := f.resolve(x).(type) {
		case float64:
			code = int(x)
		case name:
			if code >= 0 && code < 256 {
				if text, ok := glyph(string(x)); ok {
					out[code] = text
				}
			}
			code++
		}
	}
	return &out, nil
}

const (
	windows1252 = "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ"
	macRoman    = "ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø¿¡¬√ƒ≈∆«»…\u00a0ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\uf8ffÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ"
)

// glyph returns the text of a glyph name.
func glyph(n string) (string, bool) {
	n, _, _ = strings.Cut(n, ".")
	if len(n) == 1 {
		return n, true
	}
	if text, ok := glyphs[n]; ok {
		return text, true
	}
	for _, prefix := range []string{"uni", "u"} {
		if digits, ok := strings.CutPrefix(n, prefix); ok && len(digits) >= 4 {
			if r, err := strconv.ParseUint(digits[:min(len(digits), 6)], 16, 32); err == nil {
				return string(rune(r)), true
			}
		}
	}
	if n == "" {
		return "", false
	}
	// A letter with an accent, such as eacute.
	if accent, ok := accents[n[1:]]; ok {
		if i := strings.IndexByte(accent[0], n[0]); i >= 0 {
			return string([]rune(accent[1])[i]), true
		}
	}
	return "", false
}

var accents = map[string][2]string{
	"grave": {"AEIOUaeiou", "ÀÈÌÒÙàèìòù"}, "acute": {"AEIOUYaeiouyCcNnSsZz", "ÁÉÍÓÚÝáéíóúýĆćŃńŚśŹź"},
	"circumflex": {"AEIOUaeiou", "ÂÊÎÔÛâêîôû"}, "tilde": {"ANOano", "ÃÑÕãñõ"}, "dieresis": {"AEIOUYaeiouy", "ÄËÏÖÜŸäëïöüÿ"},
	"caron": {"CEDNRSTZcednrstz", "ČĚĎŇŘŠŤŽčěďňřšťž"}, "ring": {"AUau", "ÅŮåů"}, "cedilla": {"CcSs", "ÇçŞş"}, "ogonek": {"AEae", "ĄĘąę"},
}

// glyphs contains the names of the punctuation, digits, and letters of Western languages, and
// of the ligatures.
var glyphs = map[string]string{
	"space": " ", "exclam": "!", "quotedbl": `"`, "numbersign": "#", "dollar": "$", "percent": "%", "ampersand": "&", "quotesingle": "'",
	"parenleft": "(", "parenright": ")", "asterisk": "*", "plus": "+", "comma": ",", "hyphen": "-", "period": ".", "slash": "/",
	"zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
	"colon": ":", "semicolon": ";", "less": "<", "equal": "=", "greater": ">", "question": "?", "at": "@", "bracketleft": "[", "backslash": `\`,
	"bracketright": "]", "asciicircum": "^", "underscore": "_", "grave": "`", "braceleft": "{", "bar": "|", "braceright": "}", "asciitilde": "~",
	"quoteleft": "‘", "quoteright": "’", "quotedblleft": "“", "quotedblright": "”", "quotesinglbase": "‚", "quotedblbase": "„",
	"guillemotleft": "«", "guillemotright": "»", "endash": "–", "emdash": "—", "bullet": "•", "ellipsis": "…", "minus": "−", "multiply": "×",
	"divide": "÷", "plusminus": "±", "degree": "°", "section": "§", "paragraph": "¶", "copyright": "©", "registered": "®", "trademark": "™",
	"Euro": "€", "sterling": "£", "yen": "¥", "cent": "¢", "mu": "µ", "germandbls": "ß", "AE": "Æ", "ae": "æ", "OE": "Œ", "oe": "œ",
	"Oslash": "Ø", "oslash": "ø", "Lslash": "Ł", "lslash": "ł", "Eth": "Ð", "eth": "ð", "Thorn": "Þ", "thorn": "þ", "dotlessi": "ı",
	"ff": "ff", "fi": "fi", "fl": "fl", "ffi": "ffi", "ffl": "ffl", "periodcentered": "·", "nbspace": " ", "sfthyphen": "-", "exclamdown": "¡",
	"questiondown": "¿", "onehalf": "½", "onequarter": "¼", "threequarters": "¾", "onesuperior": "¹", "twosuperior": "²", "threesuperior": "³",
}
