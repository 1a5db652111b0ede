package store

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/treadle-go/treadle/internal/words"
)

// analysis is the version of the rules in package words and in textsOf. It is part of
// the stamp, so that a store reindexes its items when the rules change.
const analysis = "1"

// stem returns the indexed form of a word.
func (o *Options) stem(word string) string {
	if o.English {
		return words.Stem(word)
	}
	return word
}

// termsOf returns the words of texts with their counts, sorted.
func (o *Options) termsOf(texts []text) []Term {
	counts := map[string]int{}
	for _, t := range texts {
		words.Each(t.text, func(w string) { counts[o.stem(w)]++ })
	}
	terms := make([]Term, 0, len(counts))
	for w, n := range counts {
		terms = append(terms, Term{w, n})
	}
	slices.SortFunc(terms, func(a, b Term) int { return cmp.Compare(a.Text, b.Text) })
	return terms
}

// The limits of a query. A message may contain a whole log file, and the search time
// grows with the number of words.
const (
	maxQueryTerms    = 128
	maxQueryText     = 64 << 10 // bytes searched for words
	maxEmbeddedQuery = 8 << 10  // bytes embedded
)

// queryTerms returns the distinct words of a query, sorted, without function words. If
// there are too many, it takes half of them from the start and the end, and half from
// the rarest in the query, longer ones first. The frequency among the items would be a
// better criterion, but looking up every word in the index is the work that this
// avoids.
func (o *Options) queryTerms(query string) []string {
	var said []string
	words.Each(ends(query, maxQueryText), func(w string) { said = append(said, w) })
	function := words.Function(said)
	said = slices.DeleteFunc(said, func(w string) bool { return function[w] })
	for i, w := range said {
		said[i] = o.stem(w)
	}
	counts := map[string]int{}
	for _, w := range said {
		counts[w]++
	}
	different := slices.Sorted(maps.Keys(counts))
	if len(different) <= maxQueryTerms {
		return different
	}
	taken := map[string]bool{}
	for i := 0; len(taken) < maxQueryTerms/2; i++ {
		taken[said[i]] = true
		taken[said[len(said)-1-i]] = true
	}
	slices.SortStableFunc(different, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[a], counts[b]), cmp.Compare(len(b), len(a)))
	})
	for _, w := range different {
		if len(taken) >= maxQueryTerms {
			break
		}
		taken[w] = true
	}
	return slices.Sorted(maps.Keys(taken))
}

// names reports which of a query's terms are names in it.
func (o *Options) names(query string, terms []string) []bool {
	named := map[string]bool{}
	for w := range words.Names(ends(query, maxQueryText)) {
		named[o.stem(w)] = true
	}
	out := make([]bool, len(terms))
	for i, t := range terms {
		out[i] = named[t]
	}
	return out
}

// ends returns text, reduced to its start and end if it is longer than size. It cuts
// between words if possible.
func ends(text string, size int) string {
	if len(text) <= size {
		return text
	}
	head, tail := text[:size/2], text[len(text)-size/2:]
	if i := strings.LastIndexFunc(head, unicode.IsSpace); i > 0 {
		head = head[:i]
	}
	if i := strings.IndexFunc(tail, unicode.IsSpace); i >= 0 {
		tail = tail[i:]
	}
	return strings.ToValidUTF8(head, "") + "\n" + strings.ToValidUTF8(strings.TrimSpace(tail), "")
}
