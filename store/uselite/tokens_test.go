package uselite

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTokensOfSmallVocabulary(t *testing.T) {
	// The first piece after the reserved ones is number 6.
	vocab, err := parseVocab([]byte(`[["?",0],["",0],["",0],["",0],["",0],["",0],
		["▁",-2],["a",-3],["b",-1.5],["ab",-4.5],["ba",-3],["cde",-1],["a",-2.5],[":",null]]`))
	if err != nil {
		t.Fatal(err)
	}
	const mark, b, ba, a, colon = 6, 8, 10, 12, 13
	for _, test := range []struct {
		name, text string
		want       []int32
	}{
		{"nothing", "", nil},
		{"word mark", "a", []int32{mark, a}},
		{"highest sum: two pieces", "ab", []int32{mark, a, b}},
		{"highest sum: one piece", "ba", []int32{mark, ba}},
		{"later of two pieces with the same text", "aa", []int32{mark, a, a}},
		{"unknown", "x", []int32{mark, 0}},
		{"consecutive unknown runes", "axyzb", []int32{mark, a, 0, b}},
		{"rune that occurs only in longer pieces", "c", []int32{mark, 0}},
		{"two spaces", "a  a", []int32{mark, a, mark, mark, a}},
		{"compatible forms", "ａ", []int32{mark, a}},
		{"null score counts as 0", "a:", []int32{mark, a, colon}},
		{"invalid UTF-8", "a\xff\xfeb", []int32{mark, a, 0, b}},
		{"reserved piece as text", "?", []int32{mark, 0}},
		{"unknown runes cost nothing and beat a piece", "cde", []int32{mark, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := vocab.tokens(test.text, maxTokens); !slices.Equal(got, test.want) {
				t.Errorf("tokens of %q: got %v, want %v", test.text, got, test.want)
			}
		})
	}
	if got, want := vocab.tokens("ab ab ab", 4), []int32{mark, a, b, mark}; !slices.Equal(got, want) {
		t.Errorf("first 4 tokens: got %v, want %v", got, want)
	}
}

// A long text is read only as far as needed, which must not change any token.
func TestLimitOnlyTruncatesTokens(t *testing.T) {
	vocab := openModel(t).vocab
	parts := rapid.SampledFrom([]string{" ", "a", "the", "ing", ":", ":)", "30", "”5", "漢", "の", "►", "▁", "\n", "Ω", "s", "committee"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(parts, 0, 40).Draw(t, "parts"), "")
		text = strings.Repeat(text, rapid.IntRange(1, 100).Draw(t, "repeat"))
		limit := rapid.SampledFrom([]int{1, 2, 50, maxTokens, 1000}).Draw(t, "limit")
		all := vocab.split(text)
		if got, want := vocab.tokens(text, limit), all[:min(limit, len(all))]; !slices.Equal(got, want) {
			t.Fatalf("first %d tokens of %q: got %v, want %v", limit, text, got, want)
		}
	})
}

func FuzzVocab(f *testing.F) {
	f.Add([]byte(`[["?",0],["",0],["",0],["",0],["",0],["",0],["a",-1],["▁",-2],["ab",1e300]]`), "ab abc x")
	f.Add([]byte(`[["?",0],["",0],["",0],["",0],["",0],["",0],["▁a",null],["`+"\\ud800"+`",-2]]`), "a\xff")
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		vocab, err := parseVocab(file)
		if err != nil {
			return
		}
		ids := vocab.tokens(text, maxTokens)
		if len(ids) > maxTokens || text == "" && len(ids) != 0 {
			t.Fatalf("%q: got %d tokens", text, len(ids))
		}
		for _, id := range ids {
			if id < 0 || int(id) >= len(vocab.pieces) || id > 0 && id < reserved {
				t.Fatalf("%q: got invalid token %d", text, id)
			}
		}
	})
}
