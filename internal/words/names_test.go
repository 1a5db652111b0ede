package words_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/words"
)

func TestNames(t *testing.T) {
	for text, want := range map[string]string{
		"Where does Petra work?":                        "petra",
		"What did Ann say? Tell Bob about Łódź.":        "ann bob lodz",
		"Petra works in Halle":                          "halle",
		"where does petra work":                         "",
		"Hello. Yes: Sure; Fine":                        "",
		"WHERE DOES PETRA WORK":                         "",
		"Petra Meier":                                   "",
		"I think I am ill":                              "",
		"ask @petra_m and @Bob":                         "bob m petra",
		`has she read "the old man and the sea" yet`:    "and man old sea the",
		"hat sie „der Zauberberg“ gelesen":              "der zauberberg",
		"彼女は「雪国」を読んだ":                                   "国 雪",
		"彼女は東京に住んでいる":                                   "",
		"где живёт Анна":                                "анна",
		`it's 5" wide`:                                  "",
		"was order 20931 of lh455 5 years ago":          "20931 lh455",
		"":                                              "",
		`he said "` + strings.Repeat("long ", 20) + `"`: "",
	} {
		if got := strings.Join(slices.Sorted(maps.Keys(words.Names(text))), " "); got != want {
			t.Errorf("%s: names are %q, want %q", text, got, want)
		}
	}
}
