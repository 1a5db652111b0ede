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
const analysis = "2"

// language returns the language of a text, which decides on the stems of its words.
func (o *Options) language(said []string) words.Language {
	if o.English {
		return words.English
	}
	return words.LanguageOf(said)
}

// termsOf returns the words of texts and their stems with their counts, sorted. A query has
// both forms of each word too, so words match if they are equal, and forms of a word match
// if the text and the query are in the same language.
func (o *Options) termsOf(texts []text) []Term {
	counts := map[string]int{}
	for _, t := range texts {
		var said []string
		words.Each(t.text, func(w string) { said = append(said, w) })
		language := o.language(said)
		for _, w := range said {
			counts[w]++
			if stem := language.Stem(w); stem != w {
				counts[stem]++
			}
		}
	}
	terms := make([]Term, 0, len(counts))
	for w, n := range counts {
		terms = append(terms, Term{w, n})
	}
	slices.SortFunc(terms, func(a, b Term) int { return cmp.Compare(a.Text, b.Text) })
	return terms
}

// setTerms sets the terms of a query: its words and their stems, sorted.
func (o *Options) setTerms(q *Query, query string) {
	said, language := o.queryWords(query)
	named := words.Names(ends(query, maxQueryText))
	groups := map[string]string{} // the stem of each word, and of itself
	labels := map[string]string{} // a word for each stem
	names := map[string]bool{}
	for _, w := range said {
		stem := language.Stem(w)
		if have, ok := groups[w]; ok && have != stem {
			stem = have // the word is the stem of another
		}
		groups[w], groups[stem] = stem, stem
		names[stem] = names[stem] || named[w]
		if labels[stem] == "" {
			labels[stem] = w
		}
	}
	q.Terms = slices.Sorted(maps.Keys(groups))
	if q.Terms == nil {
		q.Terms = []string{} // only punctuation: matches nothing
	}
	at := map[string]int{}
	for _, t := range q.Terms {
		stem := groups[t]
		i, ok := at[stem]
		if !ok {
			i = len(q.said)
			at[stem] = i
			q.said, q.names = append(q.said, labels[stem]), append(q.names, names[stem])
		}
		q.groups = append(q.groups, i)
	}
}

// The limits of a query. A message may contain a whole log file, and the search time
// grows with the number of words.
const (
	maxQueryTerms    = 128
	maxQueryText     = 64 << 10 // bytes searched for words
	maxEmbeddedQuery = 8 << 10  // bytes embedded
)

// queryWords returns the distinct words of a query without function words, and its
// language. If there are too many, it takes half of them from the start and the end, and half from
// the rarest in the query, longer ones first. The frequency among the items would be a
// better criterion, but looking up every word in the index is the work that this
// avoids.
func (o *Options) queryWords(query string) ([]string, words.Language) {
	var said []string
	words.Each(ends(query, maxQueryText), func(w string) { said = append(said, w) })
	language := o.language(said)
	function := words.Function(said)
	said = slices.DeleteFunc(said, func(w string) bool { return function[w] })
	counts := map[string]int{}
	for _, w := range said {
		counts[w]++
	}
	different := slices.Sorted(maps.Keys(counts))
	if len(different) <= maxQueryTerms {
		return different, language
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
	return slices.Sorted(maps.Keys(taken)), language
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
