package store

import (
	"encoding/json"
)

// MaxMatches is the maximum number of items with words of a query that are ranked.
const MaxMatches = 1000

// Query is a search for a [Backend]. It is about live items whose namespace is under
// Prefix and for which Match is true.
//
// If Vector and Terms are nil (see ByNewest), the result is the records with the
// greatest Seqs, newest first: the first Offset are skipped, and at most Limit returned.
//
// Otherwise the backend collects candidates and calls Rank, which returns the result.
// If there is a Vector, the candidates are at least the Depth items with the most
// similar vectors, by dot product, among those with the query's Stamp; of equal ones,
// the greater Seq comes first. An approximate index may miss some, and a few more
// candidates make up for its precision. If there are Terms, the candidates are also the
// items with at least one of them; of more than [MaxMatches], those with the most
// different terms, then the greater Seq.
//
// If Refresh is set, the records returned are refreshed; see [Lookup].
type Query struct {
	Prefix  Namespace
	Limit   int
	Offset  int
	Refresh bool

	Vector []float32 // of length 1 (or 0)
	Stamp  string
	Depth  int
	Terms  []string // different words, sorted

	names       []bool      // which of the Terms are names
	lexical     bool        // the vectors say nothing of meaning
	hide        bool        // leave out the items of branches
	collect     *candidates // gets the candidates; they are ranked later
	filter      *matcher
	explain     bool
	sealedQuery *sealedQuery // of a query on sealed items
}

// ByNewest reports whether the search has no query.
func (q *Query) ByNewest() bool { return q.Vector == nil && q.Terms == nil }

// Filter returns the search's filter, with which a backend can skip items. Items
// must still pass Match.
func (q *Query) Filter() Filter {
	if q.sealedQuery != nil && q.filter != nil || q.hide && q.filter == nil {
		return And() // there is a filter, but the backend cannot use it
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

// Candidate is an item that a search may return.
type Candidate struct {
	Seq int64
	// Vectors are those of the item, or only the one most similar to the query's.
	Vectors []Vector
	// Counts has the number of occurrences of each of the query's Terms; nil for a
	// candidate that was found by its vector. Length is the number of words of the item.
	Counts []int
	Length int
}

// Rank returns the result of a search, best first, given the candidates nearest to
// the query's vector and those with its terms. A candidate may be in both lists.
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
	Explanation *Explanation // nil if not asked for
}

// Found is a record that a search returns. Ranked is zero for a search without a
// query.
type Found struct {
	Record *Record
	Ranked Ranked
}

// Explanation explains an item's score.
type Explanation struct {
	// Similarity is the cosine between the query and the item's most similar text, which
	// is at Field. SimilarityRank is the item's rank by similarity, from 1; it is 0 if the
	// search was not by meaning or the item was not among the nearest.
	Similarity     float64
	Field          string
	SimilarityRank int
	// Keyword is the score by words, and Terms are the words of the query that the item
	// has. KeywordRank is the item's rank by that score, from 1; it is 0 if the search was
	// not by words or the item has none of them.
	Keyword     float64
	Terms       []string
	KeywordRank int
}
