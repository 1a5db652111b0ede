package memory

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/treadle-go/treadle/internal/words"
)

const (
	// sameMeaning is the cosine from which two memories in the same words share a place in
	// the block.
	sameMeaning = 0.92
	// nearMeaning is the cosine from which a memory takes a place only after all memories
	// that are less similar to better ones. Paraphrases and statements that differ in one
	// important word are equally similar, so such a memory is not omitted.
	nearMeaning = 0.87
)

// share joins candidates, best first, with a better candidate or a pinned memory of the same
// meaning, and moves candidates of nearly the same meaning to the end.
func share(cs, pinned []Recalled) []Recalled {
	type place struct {
		memory Recalled
		last   bool
	}
	var taken []gist
	for _, m := range pinned {
		taken = append(taken, gistOf(m, -1))
	}
	var places []place
	for _, c := range cs {
		g := gistOf(c, len(places))
		near := false
		at := slices.IndexFunc(taken, func(other gist) bool {
			same, alike := g.like(other)
			near = near || alike && (other.place < 0 || !places[other.place].last)
			return same
		})
		switch {
		case at >= 0 && taken[at].place >= 0:
			m := &places[taken[at].place].memory
			m.Alike = append(m.Alike, c.Item.Key)
		case at >= 0: // a pinned memory says it
		default:
			places, taken = append(places, place{c, near}), append(taken, g)
		}
	}
	out := make([]Recalled, 0, len(places))
	for _, last := range []bool{false, true} {
		for _, p := range places {
			if p.last == last {
				out = append(out, p.memory)
			}
		}
	}
	return out
}

// gist is what the comparison of memories needs.
type gist struct {
	place  int // index of the memory's place, or -1 if it is pinned
	vector []float32
	words  map[string]bool // without fillers, and one word for each group of synonyms
	said   map[string]bool // all words
	marks  map[string]bool // numbers and negations
	names  map[string]bool // capitalized words
	order  []string        // the names
	until  Validity
}

// fillers are words that two statements of the same fact may have or not.
var fillers = wordsOf("a an the is are am be of s to that which who where it its this very really just also currently now")

// synonyms contains the first word of each group of words that are used for the same fact.
var synonyms = func() map[string]string {
	out := map[string]string{}
	for _, group := range []string{
		"lives live living resides reside residing home based", "likes like loves love enjoys enjoy fond", "has have got owns own",
		"works work working employed job", "wants want wishes wish", "buys buy purchases purchase", "bought purchased", "starts start begins begin",
		"favorite favourite", "movie film", "movies films", "mother mom mum", "father dad", "child kid", "children kids", "big large", "small little",
	} {
		for w := range strings.FieldsSeq(group) {
			out[w] = group[:strings.IndexByte(group, ' ')]
		}
	}
	return out
}()

func wordsOf(text string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		out[w] = true
	}
	return out
}

// negations are words that turn a statement into its opposite.
var negations = map[string]bool{"not": true, "no": true, "never": true, "none": true, "nothing": true, "nobody": true, "without": true,
	"cannot": true, "t": true, "longer": true, "stopped": true, "quit": true, "neither": true, "nor": true, "hardly": true,
	"nicht": true, "kein": true, "keine": true, "pas": true, "jamais": true, "nunca": true, "non": true}

func gistOf(m Recalled, place int) gist {
	g := gist{place: place, words: map[string]bool{}, said: map[string]bool{}, marks: map[string]bool{}, names: map[string]bool{},
		until: m.Document.Validity}
	if m.Why.Search != nil {
		g.vector = m.Why.Search.Vector
	}
	text := renderDocument(m.Document)
	var all []string
	words.Each(text, func(w string) { all = append(all, w) })
	function := words.Function(append([]string{"what"}, all...))
	for _, w := range all {
		g.said[w] = true
		if !fillers[w] {
			g.words[cmp.Or(synonyms[w], w)] = true
		}
		if negations[w] || strings.ContainsFunc(w, unicode.IsNumber) || numbers[w] {
			g.marks[w] = true
		}
	}
	// A document may be JSON, in which a name follows a quote or a bracket.
	between := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) }
	for token := range strings.FieldsFuncSeq(text, between) {
		if r, _ := utf8.DecodeRuneInString(token); unicode.IsUpper(r) {
			words.Each(token, func(w string) {
				if len(w) > 1 && !function[w] {
					g.names[w], g.order = true, append(g.order, w)
				}
			})
		}
	}
	return g
}

var numbers = wordsOf("zero one two three four five six seven eight nine ten eleven twelve twenty thirty fifty hundred thousand half twice")

// like reports whether two memories say the same, or nearly. Memories that differ in a
// number, a negation, a name, or their validity do neither. Those that differ in another
// word, such as "aisle" and "window", say at most nearly the same.
func (g gist) like(other gist) (same, near bool) {
	if g.until != other.until || !g.within(other) || !other.within(g) {
		return false, false
	}
	shared := 0
	for w := range g.words {
		if other.words[w] {
			shared++
		}
	}
	same = shared > 0 && shared == len(g.words) && shared == len(other.words) && slices.Equal(g.namesIn(other), other.namesIn(g))
	if g.vector != nil && len(g.vector) == len(other.vector) {
		cosine := dot(g.vector, other.vector)
		return same && cosine >= sameMeaning, shared > 0 && cosine >= nearMeaning
	}
	return same, false
}

// namesIn returns the names of g, in order, that are names in other too: Oslo to Rome is not
// Rome to Oslo.
func (g gist) namesIn(other gist) []string {
	return slices.DeleteFunc(slices.Clone(g.order), func(w string) bool { return !other.names[w] })
}

// within reports whether other contains the numbers, negations, and names of g.
func (g gist) within(other gist) bool {
	for w := range g.marks {
		if !other.marks[w] {
			return false
		}
	}
	for w := range g.names {
		if !other.said[w] {
			return false
		}
	}
	return true
}

func dot(a, b []float32) (sum float64) {
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}
