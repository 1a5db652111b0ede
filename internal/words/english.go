package words

import "strings"

// function is the set of English function words, which say little about the topic of a
// text. Some are content words in other languages, such as "or", "most", and "once", or
// match a content word once accents are folded, such as thé; see Function.
var function = set(`a about after again all also am an and any are as at be because been before being between both but by could
	did do does doing done down during each for from had has have having he her here hers him his how i if in into is it its itself
	just me more most my no nor not of off on once only or other our out over own s she should so some such t than that the their
	them then there these they this those through to too under until up very was we were what when where which while who whom whose
	why with would you your`)

// english is the set of function words that identify a text as English.
var english = set(`about and are because been being could did does doing from had has have having her his how itself should she
	that their them there these they this those through very were what when where which while who whom whose why with would you your`)

func set(text string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		out[w] = true
	}
	return out
}

// Function returns the English function words among words, such as "what", "does", and
// "the". It returns nil if the words are not clearly English or are all function words.
func Function(words []string) map[string]bool {
	sure, others := false, false
	found := map[string]bool{}
	for _, w := range words {
		sure = sure || english[w]
		if function[w] {
			found[w] = true
		} else {
			others = true
		}
	}
	if !sure && len(found) < minFunction || !others {
		return nil
	}
	return found
}

// minFunction is the number of distinct function words that identify a text as English.
// In a related language, such as Dutch, that many matching words are function words too.
const minFunction = 3

// minStem is the minimum number of letters in a stem.
const minStem = 3

// Stem removes inflectional endings from a lowercase English word: plurals, -ing, -ed,
// and -ly. The result is meant for matching, not for reading. Stem returns a word with
// letters other than a to z unchanged.
func Stem(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" || len(word) < minStem {
		return word
	}
	w := word
	if len(w) > minStem {
		w = singular(w)
	}
	switch {
	case cut(w, "ing") != "":
		w = undouble(cut(w, "ing"))
	case cut(w, "ed") != "":
		w = undouble(cut(w, "ed"))
	case len(w) > minStem+2 && strings.HasSuffix(w, "ly"):
		w = strings.TrimSuffix(w, "ly")
	}
	if len(w) > minStem && strings.HasSuffix(w, "e") {
		w = strings.TrimSuffix(w, "e")
	}
	if len(w) >= minStem && strings.HasSuffix(w, "y") {
		w = strings.TrimSuffix(w, "y") + "i"
	}
	return w
}

func singular(w string) string {
	switch {
	case strings.HasSuffix(w, "ies"):
		return strings.TrimSuffix(w, "ies") + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "zes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"):
		return strings.TrimSuffix(w, "es")
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	}
	return strings.TrimSuffix(w, "s")
}

// cut removes an ending from a word. It returns "" if the word does not have the ending
// or if the rest is too short to be a word.
func cut(w, ending string) string {
	stem, ok := strings.CutSuffix(w, ending)
	if !ok || len(stem) < minStem || !strings.ContainsAny(stem, "aeiouy") {
		return ""
	}
	return stem
}

// undouble turns "runn" into "run"; "fall", "miss", and "buzz" are unchanged.
func undouble(w string) string {
	if n := len(w); w[n-1] == w[n-2] && !strings.ContainsRune("lsz", rune(w[n-1])) {
		return w[:n-1]
	}
	return w
}
