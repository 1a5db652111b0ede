package minilm

import (
	"bytes"
	"errors"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// maxWord is the number of characters above which a word is unknown.
const maxWord = 100

// vocab maps the pieces of words to their numbers. A piece that continues a word starts
// with "##".
type vocab struct {
	ids                   map[string]int32
	unknown, first, final int32 // pieces for unknown words, and for the start and the end
	size                  int   // number of pieces
}

func parseVocab(content []byte) (*vocab, error) {
	v := &vocab{ids: map[string]int32{}}
	for line := range bytes.Lines(content) {
		v.ids[strings.TrimRight(string(line), "\r\n")] = int32(v.size)
		v.size++
	}
	for name, to := range map[string]*int32{"[UNK]": &v.unknown, "[CLS]": &v.first, "[SEP]": &v.final} {
		id, ok := v.ids[name]
		if !ok {
			return nil, errors.New("no " + name + ": not the vocabulary of all-MiniLM-L6-v2")
		}
		*to = id
	}
	return v, nil
}

// tokens returns the numbers of the first pieces of a text, with the marks of its start
// and end, at most limit.
func (v *vocab) tokens(text string, limit int) []int32 {
	ids := []int32{v.first}
	each(text, func(word string) bool {
		ids = v.pieces(ids, word)
		return len(ids) < limit
	})
	return append(ids[:min(len(ids), limit-1)], v.final)
}

// pieces appends the longest pieces of a word, from left to right, or the unknown piece.
func (v *vocab) pieces(ids []int32, word string) []int32 {
	if len(word) > maxWord && len([]rune(word)) > maxWord {
		return append(ids, v.unknown)
	}
	before, prefix := len(ids), ""
	for rest := word; rest != ""; {
		end := len(rest)
		for ; end > 0; end-- {
			if id, ok := v.ids[prefix+rest[:end]]; ok {
				ids = append(ids, id)
				break
			}
		}
		if end == 0 {
			return append(ids[:before], v.unknown)
		}
		rest, prefix = rest[end:], "##"
	}
	return ids
}

// each calls yield with the words of a text until it returns false: in lower case,
// without accents, and with each punctuation mark and Chinese character as a word.
func each(text string, yield func(string) bool) {
	var word strings.Builder
	flush := func() bool {
		if word.Len() == 0 {
			return true
		}
		w := word.String()
		word.Reset()
		return yield(w)
	}
	var source norm.Iter
	source.InitString(norm.NFD, strings.ToValidUTF8(text, ""))
	for !source.Done() {
		for _, r := range string(source.Next()) {
			switch {
			case unicode.IsSpace(r):
				if !flush() {
					return
				}
			case r == 0 || r == unicode.ReplacementChar || unicode.In(r, unicode.C, unicode.Mn):
			case isPunctuation(r) || isChinese(r):
				if !flush() || !yield(string(r)) {
					return
				}
			default:
				word.WriteRune(unicode.ToLower(r))
			}
		}
	}
	flush()
}

// isPunctuation reports whether the vocabulary treats r as a separate word. It includes
// all signs of ASCII, such as "$".
func isPunctuation(r rune) bool {
	return r < unicode.MaxASCII && unicode.In(r, unicode.P, unicode.S) || unicode.IsPunct(r)
}

// isChinese reports whether r is an ideograph, as the model's tokenizer defines them.
func isChinese(r rune) bool {
	for _, block := range [][2]rune{{0x4E00, 0x9FFF}, {0x3400, 0x4DBF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
		{0x2B920, 0x2CEAF}, {0xF900, 0xFAFF}, {0x2F800, 0x2FA1F}} {
		if block[0] <= r && r <= block[1] {
			return true
		}
	}
	return false
}
