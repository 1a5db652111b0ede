package store

import (
	"encoding/json"
)

// MaxMatches is the maximum number of keyword matches that a search ranks.
const MaxMatches = 1000

// A Query is a search for a [Backend]. It considers the live items whose namespace is under
// Prefix and for which Match returns true.
//
// If Vector and Terms are nil (see ByNewest), the result consists of the records with the
// greatest Seqs, newest first, without the first Offset records and limited to Limit.
//
// Otherwise, the backend collects candidates and calls Rank, which returns the result. If
// Vector is set, the candidates include at least the Depth items with the most similar
// vectors, by dot product, among the items with the query's Stamp; among equals, the greater
// Seq comes first. An approximate index may miss some of these, and a few additional
// candidates compensate for limited precision. If Terms is set, the candidates also include
// the items that contain at least one of the terms. If there are more than [MaxMatches] such
// items, those with the most distinct terms are used, then those with the greater Seq.
//
// If Refresh is set, the returned records are refreshed; see [Lookup].
type Query struct {
	Prefix  Namespace
	Limit   int
	Offset  int
	Refresh bool

	Vector []float32 // of length 1 (or 0)
	Stamp  string
	Depth  int
	Terms  []string // distinct words, sorted

	groups      []int       // the word that each of Terms is a form of, as an index of said
	said        []string    // the words
	names       []bool      // which words are names
	lexical     bool        // the vectors do not represent meaning
	hide        bool        // omit items of branches
	collect     *candidates // receives the candidates, which are ranked later
	filter      *matcher
	explain     bool
	sealedQuery *sealedQuery // set for a query on encrypted items
}

// ByNewest reports whether the search has no query.
func (q *Query) ByNewest() bool { return q.Vector == nil && q.Terms == nil }

// Filter returns the search's filter, which a backend can use to skip items. Items must
// still pass Match.
func (q *Query) Filter() Filter {
	if q.sealedQuery != nil && q.filter != nil || q.hide && q.filter == nil {
		return And() // a filter is set, but the backend cannot use it
	}
	return q.filter.source()
}

// Match reports whether an item with this value and meta passes the filter.
func (q *Query) Match(value, meta json.RawMessage) bool {
	if q.sealedQuery != nil {
		return q.sealedQuery.match(value, meta)
	}
	return q.matches(value, meta)
}

func (q *Query) matches(value, meta json.RawMessage) bool {
	return (!q.hide || !tagged(meta)) && q.filter.match(value, meta)
}

// A Candidate is an item that a search may return.
type Candidate struct {
	Seq int64
	// Vectors are the item's vectors, or only the vector most similar to the query's.
	Vectors []Vector
	// Counts is the number of occurrences of each of the query's Terms; nil for a
	// candidate found by its vector. Length is the number of words in the item.
	Counts []int
	Length int
}

// Rank returns the result of a search, best first, given the candidates nearest to the
// query's vector and the candidates that contain its terms. A candidate may be in both
// lists.
func (q *Query) Rank(near, matching []Candidate) []Ranked {
	if q.sealedQuery != nil {
		return q.sealedQuery.rank(near, matching)
	}
	return q.rank(near, matching)
}

// Ranked is a ranked candidate.
type Ranked struct {
	Seq         int64
	Score       float64
	Explanation *Explanation // nil if not requested
}

// Found is a record returned by a search. Ranked is zero for a search without a query.
type Found struct {
	Record *Record
	Ranked Ranked
}

// An Explanation explains an item's score.
type Explanation struct {
	// Similarity is the cosine similarity between the query and the item's most similar
	// text, which is at path Field. SimilarityRank is the item's rank by similarity,
	// starting at 1; it is 0 if the search was not semantic or the item was not among
	// the nearest.
	Similarity     float64
	Field          string
	SimilarityRank int
	// Keyword is the keyword score, and Terms lists the query words that the item
	// contains. KeywordRank is the item's rank by that score, starting at 1; it is 0 if
	// the search did not use keywords or the item contains none of them.
	Keyword     float64
	Terms       []string
	KeywordRank int
	// Vector is the mean of the vectors of the item's texts, scaled to length 1; nil if
	// SimilarityRank is 0. It must not be modified.
	Vector []float32 `json:"-"`
}
