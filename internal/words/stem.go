package words

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Language selects the endings that [Language.Stem] removes.
type Language string

// Unknown is the language of a text that gives no clue. Its words have no stems, except
// words in scripts of one language.
const Unknown Language = ""

// English is the language of texts whose words are all made of the letters a to z, unless
// they contain words of another language.
const English Language = "en"

// known lists function words that identify a language. A word of several languages is in
// each, so it decides nothing between them. A word that is also an English name, such as dan,
// is missing.
var known = map[Language]map[string]bool{
	English: set(`a about and are at because been but by can could did do does for from had has have having he her his how i in is it
		its like me my not of on or our she should so than that the their them there these they this those to very was we were what
		when where which while who whom whose why will with would you your`),
	"de": set(`aber als am auf aus bei bin bist das dass dem den der des die ein eine einem einen einer er es fur hat ich ihr im in ist
		ja kein keine mein mit nach nicht noch oder sein seine sie sind sich und uns von vor war was wenn wer wie wir wird wo zu zum zur`),
	"fr": set(`au aux avec ce ces cette dans de des du elle en est et il ils je la le les leur lui ma mais mes mon ne nous on ou par pas
		plus pour qu que qui sa sans se ses son sont sur un une vous y`),
	"es": set(`al como con de del donde el ella ellos en era es esta este fue ha hay la las le lo los mas me mi muy no nos o para pero
		por que se ser si sin sobre su sus tiene tu un una y yo`),
	"it": set(`al alla anche che chi ci come con da dal dei del della di dove e ed gli ha ho i il in io la le lei lo lui ma mi nel non o
		per piu quando se si sono su sua suo tra un una`),
	"pt": set(`ao as com como da das de do dos e ela ele eles em era essa esta eu foi ha isso ja mais mas me meu minha muito na nao no
		nos o onde os ou para pela por que quem se sem seu sua tem um uma voce`),
	"nl": set(`aan als bij dat de die dit door een en er ge geen haar heeft hem het hij hoe ik in is je kan maar met mijn naar
		niet nog of om ook op over te toen uit van voor waar was wat we wel wie zij zijn zo`),
	"sv": set(`alla att av bara blir da de den det din du efter ej eller en ett for fran gor han har hon i inte jag kan med men mig min
		mot mycket nar nu och om pa sa sig som till under upp ut var vi vid ar`),
}

// endings lists the endings of a language, longest first. They are for words without
// accents, and for matching, not for reading.
var endings = map[Language][]string{
	"de": {"ern", "em", "en", "er", "es", "e", "n"},
	"fr": {"issements", "issement", "ements", "ement", "ations", "ation", "aient", "erent", "ieres", "iere", "euses", "euse", "eurs", "antes", "ante",
		"ants", "eur", "ant", "ees", "ent", "ons", "ais", "ait", "ee", "ez", "er", "es", "ie", "e", "s", "x"},
	"es": {"amientos", "amiento", "aciones", "acion", "adoras", "adores", "adora", "ador", "iendo", "ando", "aban", "aba", "ados", "adas", "idos",
		"idas", "ado", "ada", "ido", "ida", "ar", "er", "ir", "an", "en", "as", "es", "os", "a", "e", "o", "s"},
	"it": {"azioni", "azione", "amenti", "amento", "ando", "endo", "ati", "ate", "ato", "ata", "iti", "ite", "ito", "ita", "are", "ere", "ire", "ano",
		"ono", "i", "e", "o", "a"},
	"pt": {"amentos", "amento", "acoes", "acao", "ando", "endo", "indo", "ados", "adas", "idos", "idas", "ado", "ada", "ido", "ida", "oes", "ar", "er",
		"ir", "am", "em", "ao", "as", "os", "es", "a", "e", "o", "s"},
	"nl": {"heden", "ingen", "eren", "ing", "en", "es", "e", "s"},
	"sv": {"anden", "arna", "erna", "orna", "ande", "aste", "aren", "are", "ade", "ad", "ar", "er", "or", "en", "et", "a", "e", "s"},
	"ru": {"иями", "ями", "ами", "ого", "его", "ому", "ему", "ыми", "ими", "иях", "ией", "ях", "ах", "ои", "еи", "ыи", "ии", "ая", "яя", "ое", "ее",
		"ые", "ие", "ов", "ев", "ом", "ем", "ам", "ям", "ую", "юю", "ть", "ал", "ла", "ли", "ет", "ит", "ут", "ют", "ат", "ят", "а", "я", "о", "е",
		"ы", "и", "у", "ю", "ь"},
}

// particles lists the Korean particles that follow a noun, longest first. Those of one
// syllable in doubtful also end many nouns, so more of the word must remain.
var (
	particles = []string{"에서는", "에게서", "으로는", "에서", "에게", "한테", "께서", "까지", "부터", "으로", "하고", "처럼", "보다", "이랑", "이나",
		"은", "는", "을", "를", "에", "이", "가", "의", "로", "와", "과", "도", "만", "랑"}
	doubtful = set("이 가 의 로 와 과 도 만 랑")
)

// LanguageOf returns the language of a text with these words.
func LanguageOf(words []string) Language {
	counts := map[Language]int{}
	latin := true
	seen := map[string]bool{}
	for _, w := range words {
		if seen[w] {
			continue
		}
		seen[w] = true
		for l, function := range known {
			if function[w] {
				counts[l]++
			}
		}
		latin = latin && strings.Trim(w, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
	}
	best, ties := Unknown, false
	for l, n := range counts {
		switch {
		case n > counts[best]:
			best, ties = l, false
		case n == counts[best] && l != best:
			ties = true
		}
	}
	switch {
	case best != Unknown && (!ties || counts[English] < counts[best]):
		if ties {
			return Unknown
		}
		return best
	case latin:
		return English
	}
	return Unknown
}

// Stem returns the form of a word in a text of the language that all its inflected forms
// share, or the word itself. The script of a Korean or Russian word is clue enough.
func (l Language) Stem(word string) string {
	first, _ := utf8.DecodeRuneInString(word)
	switch {
	case unicode.Is(unicode.Hangul, first):
		return korean(word)
	case unicode.Is(unicode.Cyrillic, first):
		l = "ru"
	case l == English:
		return Stem(word)
	}
	for _, e := range endings[l] {
		stem, ok := strings.CutSuffix(word, e)
		if ok && utf8.RuneCountInString(stem) >= minStem {
			if l == "nl" {
				stem = undouble(stem)
			}
			return stem
		}
	}
	return word
}

// korean returns a word without its particle.
func korean(word string) string {
	for _, p := range particles {
		noun, ok := strings.CutSuffix(word, p)
		least := 1
		if doubtful[p] {
			least = 2
		}
		if ok && utf8.RuneCountInString(noun) >= least {
			return noun
		}
	}
	return word
}
