package store

import (
	"encoding/json"
)

// MaxMatches bounds how many items that contain words of a query are ranked.
const MaxMatches = 1000

// A Query is a search as a [Backend] sees it. Only live items whose namespace is
// under Prefix and for which Match holds count.
//
// Without Vector and Terms (both nil, see ByNewest) it asks for the newest: the records with the greatest
// Seqs, newest first, after passing over the first Offset of them, at most
// Limit.
//
// Otherwise the backend collects candidates. If there is a Vector: at least the
// Depth items with the most similar vector among those whose Stamp is the query's,
// similarity being the dot product, equal ones by greater Seq, as far as the
// recall of its index goes; a few more make up for the precision it has. If there are Terms: the items with at least one
// of them, if there are more than [MaxMatches] those with the most different
// ones, equal ones by greater Seq. It hands them to Rank, which says what to
// return, in order.
//
// If Refresh is set the records returned are refreshed, see [Lookup].
type Query struct {
	Prefix  Namespace
	Limit   int
	Offset  int
	Refresh bool

	Vector []float32 // of length 1 (or 0)
	Stamp  string
	Depth  int
	Terms  []string // different words, sorted

	filter  *matcher
	explain bool
	veil    *veil // of a query on sealed items
}

// ByNewest reports whether the search is without a query.
func (q *Query) ByNewest() bool { return q.Vector == nil && q.Terms == nil }

// Filter is the search's filter, for narrowing it down. What it lets through must
// pass Match all the same.
func (q *Query) Filter() Filter {
	if q.veil != nil && q.filter != nil {
		return And() // there is one, and nothing to narrow by
	}
	return q.filter.source()
}

// Match reports whether an item with this value and meta passes the filter.
func (q *Query) Match(value, meta json.RawMessage) bool {
	if q.veil != nil {
		return q.veil.match(value, meta)
	}
	return q.filter.match(value, meta)
}

// A Candidate is an item that a search may return.
type Candidate struct {
	Seq int64
	// Vectors are the item's, at least the one most similar to the query's.
	Vectors []Vector
	// Counts says for each of the query's Terms how often it occurs, and Length
	// how many words the item has in all. Counts is nil for a candidate that
	// was found by its vector.
	Counts []int
	Length int
}

// Rank says which of the candidates a search returns, best first: those nearest
// to the query's vector, and those that contain its terms. An item that is
// among both is given twice.
func (q *Query) Rank(near, matching []Candidate) []Ranked {
	if q.veil != nil {
		return q.veil.rank(near, matching)
	}
	return q.rank(near, matching)
}

// Ranked is the place of a candidate in the answer.
type Ranked struct {
	Seq         int64
	Score       float64
	Explanation *Explanation // nil if not asked for
}

// Found is a record that a search returns. Ranked is zero for a search by newest.
type Found struct {
	Record *Record
	Ranked Ranked
}

// An Explanation tells where an item's score comes from.
type Explanation struct {
	// Similarity is the cosine between the query and the item's most similar
	// text, which is at Field. SimilarityRank is its place by similarity, from
	// 1; it is 0 if the search was not by meaning or the item was not among the
	// nearest.
	Similarity     float64
	Field          string
	SimilarityRank int
	// Keyword is the score by words, Terms are the words of the query that the
	// item has. KeywordRank is its place by that score, from 1; it is 0 if the
	// search was not by words or the item has none of them.
	Keyword     float64
	Terms       []string
	KeywordRank int
}
