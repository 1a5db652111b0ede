package words_test

import (
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/words"
)

func TestWordsAreFolded(t *testing.T) {
	for text, want := range map[string]string{
		"Hello, World!":          "hello world",
		"don't":                  "don t",
		"Crème BRÛLÉE ẞ":         "creme brulee ss",
		"cafe\u0301s":            "cafes",
		"ΟΔΟΣ οδός":              "οδοσ οδοσ",
		"Ёлка":                   "елка",
		"R2-D2 3.14":             "r2 d2 3 14",
		"我喜欢pizza":               "我 喜 欢 pizza",
		"ﬁn":                     "ﬁn", // as far as folding goes
		"🍕":                      "emoji1f355",
		"🍕🍔 ok":                  "emoji1f355 emoji1f354 ok",
		"👍🏽 ☕":                   "emoji1f44d emoji2615",
		"🇩🇪🇫🇷":                   "emoji1f1e91f1ea emoji1f1eb1f1f7",
		"├─┤ → ©":                "",
		"ﾊﾟﾝとﾋﾟｻﾞ":               "パ ン と ピ ザ",
		"ｶﾞｷﾞ ｳﾞ ｱﾞ":             "ガ ギ ヴ ア",
		"ＡＢ１２":                   "ab12",
		"a\x00b":                 "a b",
		`{"key":"<b>"}`:          "key b",
		"½ Ⅷ":                    "½ ⅷ",
		"naïve—Ærøskøbing":       "naive aeroskobing",
		strings.Repeat("x", 200): strings.Repeat("x", 128),
	} {
		var got []string
		words.Each(text, func(w string) { got = append(got, w) })
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q has the words %q, want %q", text, got, want)
		}
	}
}
