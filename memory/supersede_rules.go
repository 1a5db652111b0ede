package memory

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/treadle-go/treadle/internal/words"
)

// A relation has one value at a time, so that a new value ends the old one. Many things
// that people say of each other have several values: two dogs, three jobs in a life, four
// favorite books. Texts of such frames are not linked.
type relation struct {
	name  string
	value *regexp.Regexp // its first group is the value
}

var relations = []relation{
	{"home", regexp.MustCompile(`(?i)\b(?:lives|live|resides|is living|is based|moved|has moved|relocated|has relocated) (?:now )?(?:in|at|to)(?: the)? (.+)`)},
	{"work", regexp.MustCompile(`(?i)\b(?:works|work|is working|is employed|has joined|joined|started working|started a new job|took a job) ?(?:at|for|in|by)? (.+)`)},
	{"marriage", regexp.MustCompile(`(?i)\b(?:is|am|got) (married|single|divorced|engaged|widowed|separated)\b`)},
	{"diet", regexp.MustCompile(`(?i)\b(?:is|am|became|turned) (?:an? |now )*(vegan|vegetarian|pescatarian|omnivore|meat eater)\b`)},
	{"car", regexp.MustCompile(`(?i)\b(?:drives|drive) (?:now )?an? (.+)`)},
	{"name", regexp.MustCompile(`(?i)\b(?:wants|prefers) to be called (.+)`)},
	{"bank", regexp.MustCompile(`(?i)\b(?:banks|bank) with (.+)`)},
}

var (
	// property is a named property with one value, such as "Ada's phone number is 123" or
	// "Ada's favorite tea is oolong".
	property = regexp.MustCompile(`(?i)^(.+?'s? (?:[\p{L}]+ ){0,2}(?:number|address|email|age|birthday|job|title|employer|boss|manager|landlord|doctor|dentist|` +
		`deadline|password|username|time zone|timezone|bank|size|weight|height|salary|phone|budget|plan|status|goal|(?:favorite|favourite) \p{L}+)) (?:is|are|is now) (.+)$`)
	// isOver matches a text that says that something is over.
	isOver   = regexp.MustCompile(`(?i)\b(no longer|not .* (?:any more|anymore)|anymore|any more|stopped|quit|gave up)\b`)
	yearOnly = regexp.MustCompile(`^(?:19|20)\d\d$`)
)

// supersedesText reports whether a new statement makes an old one outdated, with confidence:
// both are about the same subject, and the new one gives another value for something that
// has one value, or turns the old one around.
func supersedesText(old, fresh string) bool {
	if !sameSubject(old, fresh) || sameText(old, fresh) {
		return false
	}
	if over := isOver.MatchString(fresh); over != isOver.MatchString(old) {
		return over && mostly(old, fresh)
	}
	if a, b := negated(old), negated(fresh); a != b {
		return onlyNegation(old, fresh)
	}
	if numbersDiffer(old, fresh) {
		return true
	}
	for _, r := range relations {
		a, b := r.value.FindStringSubmatchIndex(old), r.value.FindStringSubmatchIndex(fresh)
		if a != nil && b != nil {
			who, whose := wordSet(old[:a[0]]), wordSet(fresh[:b[0]]) // not "Ada" and "Ada's sister"
			return sameSet(who, whose) && apart(old[a[2]:a[3]], fresh[b[2]:b[3]])
		}
	}
	a, b := property.FindStringSubmatch(old), property.FindStringSubmatch(fresh)
	return a != nil && b != nil && sameSet(wordSet(a[1]), wordSet(b[1])) && apart(a[2], b[2])
}

// sameSubject reports whether two statements begin with the same word, which names whom they
// are about.
func sameSubject(a, b string) bool {
	first := func(text string) string {
		for _, w := range statement(text) {
			if w = strings.ToLower(w); w != "a" && w != "an" {
				return strings.TrimSuffix(w, "'s")
			}
		}
		return ""
	}
	x := first(a)
	return x != "" && x == first(b)
}

// negated reports whether a statement has a negation.
func negated(text string) (found bool) {
	words.Each(text, func(w string) { found = found || negations[w] })
	return found
}

// onlyNegation reports whether two statements differ in negations and auxiliary verbs only.
func onlyNegation(a, b string) bool {
	rest := func(text string) map[string]bool {
		set := wordSet(text)
		for w := range set {
			if negations[w] || auxiliaries[w] {
				delete(set, w)
			}
		}
		return set
	}
	x, y := rest(a), rest(b)
	return len(x) >= minFrame && sameSet(x, y)
}

// auxiliaries are the stems of words that a negation adds.
var auxiliaries = map[string]bool{"do": true, "doe": true, "does": true, "don": true, "doesn": true, "did": true, "didn": true, "isn": true,
	"can": true, "cannot": true, "won": true, "will": true, "any": true, "more": true, "at": true, "all": true}

// numbersDiffer reports whether two statements differ in numbers only, such as a dose or a
// time. Years and days make statements about other events.
func numbersDiffer(a, b string) bool {
	x, y := statement(a), statement(b)
	if len(x) != len(y) {
		return false
	}
	differ := false
	for i := range x {
		if x[i] == y[i] {
			continue
		}
		if !measure(x[i]) || !measure(y[i]) || i > 0 && isMonth(x[i-1]) || i+1 < len(x) && isMonth(x[i+1]) {
			return false
		}
		differ = true
	}
	return differ
}

// measure reports whether a word is a number other than a year.
func measure(w string) bool {
	return strings.ContainsFunc(w, unicode.IsDigit) && !yearOnly.MatchString(w) && !strings.ContainsFunc(strings.TrimRight(w, "%apmkgcl"), unicode.IsLetter)
}

func isMonth(w string) bool {
	w = strings.ToLower(strings.Trim(w, ".,"))
	if _, err := strconv.Atoi(w); err == nil {
		return false
	}
	return slices.Contains(months, w) || shortMonths[w] > 0
}

// mostly reports whether fresh contains most words of old.
func mostly(old, fresh string) bool {
	x, y := wordSet(old), wordSet(fresh)
	shared := 0
	for w := range x {
		if y[w] {
			shared++
		}
	}
	return shared >= minFrame && float64(shared) >= sameFrame*float64(len(x))
}

// apart reports whether two values share no content word: "Bonn" and "Bonn since spring"
// do not contradict each other.
func apart(a, b string) bool {
	x, y := wordSet(a), wordSet(b)
	for w := range x {
		if y[w] && !small[w] {
			return false
		}
	}
	return len(x) > 0 && len(y) > 0
}

// small are words that values of different meaning share.
var small = map[string]bool{"a": true, "an": true, "the": true, "in": true, "at": true, "for": true, "of": true, "and": true, "as": true, "to": true,
	"now": true, "on": true, "with": true, "by": true, "near": true, "her": true, "his": true, "new": true}

func sameSet(a, b map[string]bool) bool {
	if len(a) != len(b) {
		return false
	}
	for w := range a {
		if !b[w] {
			return false
		}
	}
	return true
}
