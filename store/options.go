package store

import (
	"fmt"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
)

// Options are the options of a store. The zero value and nil are the defaults.
type Options struct {
	// Embedder enables searches by meaning; nil means that there are none.
	Embedder Embedder
	// Fields are the paths of the texts that are indexed for queries, unless
	// [PutOptions].Index is set for an item; nil means {"$"}, the whole value. PutOptions
	// explains the paths.
	Fields []string
	// English makes searches by words find other forms of an English word too: "walks"
	// finds "walking". Words with letters other than a to z stay as they are. Leave it
	// false for items in other languages. Items are indexed again after a change of it.
	English bool
	// Ranking is the default ranking of searches with a query.
	Ranking Ranking
	// TTL is the default time to live of items; 0 means forever.
	TTL time.Duration
	// NoRefresh stops reads from extending the life of items. By default, getting or
	// finding an item with a TTL restarts its time to live.
	NoRefresh bool
	// History is how many versions of an item are kept, the current one included; 0 means
	// 100, and 1 keeps only the current one.
	History int
	// HistoryAge is how long [Store.Sweep] keeps a version after it was replaced, and the
	// record of a deletion; 0 means forever.
	HistoryAge time.Duration
	// Branches lets the store follow the threads of graphs: a run from an older checkpoint
	// of a thread reads the items as they were there, and its writes stay in a branch: see
	// [Store.Branch]. Each checkpoint then has the version of the store, which is one more
	// read. History must not be 1. Other ways to use a branch do not need it.
	Branches bool
	// Keys, if not empty, encrypt items with AES-GCM. Values and meta are bound to their
	// namespace and key, and the words of the index are keyed digests. The first key
	// encrypts; all of them decrypt. To rotate, put the new key first and keep the old
	// ones as long as items and their history are kept; the next search with a query
	// rebuilds the index. Items that were put without keys cannot be read with keys, nor
	// the other way round.
	//
	// Filters are applied to decrypted items, so a filter takes as long as reading all
	// items under the prefix.
	//
	// Who can read the database still sees namespaces, keys, times, sizes, versions, which
	// items share words and how often, the paths and the model of the index and, with an
	// Embedder, the vectors, which reveal much of a text; leave out the Embedder if that is
	// too much. Who can write to it can remove items, and replace an item by an older
	// version of it.
	Keys []checkpoint.EncryptionKey
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Ranking is how a search with a query ranks items.
type Ranking int

// The rankings.
const (
	// Auto is Semantic in a store with an Embedder, else Keyword.
	Auto Ranking = iota
	// Semantic ranks by meaning: the score is the cosine between the query and the item's
	// most similar text, from -1 to 1.
	Semantic
	// Keyword ranks by the words that an item shares with the query; rare words count
	// more, and function words, such as "what" and "the", count for nothing in an English
	// query that has other words. The score is BM25 among the items found, so
	// that items of other namespaces do not influence it.
	Keyword
	// Hybrid ranks by both: the score is the cosine plus 0.8 times the share, from 0 to 1,
	// of the query's words that the item has, in which rare words count more. If it has
	// only one of several words, that counts half if the word is a name in the query (with
	// a capital inside a sentence, in quotation marks, a handle or a number), and else for
	// nothing. So meaning decides where no item has much of the query, and an item that is by far the nearest comes first
	// whatever frequent words others have.
	Hybrid
)

// Forever is the PutOptions.TTL of an item that never expires.
const Forever time.Duration = -1

// PutOptions are the options of a put. Nil is the zero value.
type PutOptions struct {
	// Meta becomes the item's Meta. It must marshal to a JSON object, or be nil.
	Meta any
	// Index replaces the store's Fields for this item. A path is "$" for the whole value,
	// or keys joined with dots. "list[0]", "list[-1]" and "list[*]" are elements of an
	// array, "*" is each value of an object or array, and "{a,b.c}" are several paths.
	// Texts, numbers and booleans are indexed as text, arrays and objects as JSON; missing
	// and null values are skipped.
	Index []string
	// NoIndex hides the item from queries. It can still be found by key, and by searches
	// without a query.
	NoIndex bool
	// TTL is how long the item lives; 0 means the store's TTL, and [Forever] no limit.
	TTL time.Duration
	// IfVersion, if not 0, is the version that the put must replace. IfAbsent requires
	// that there is no item yet. Otherwise the put fails with a [*ConflictError].
	IfVersion int64
	IfAbsent  bool
}

// GetOptions are the options of a get. Nil is the zero value.
type GetOptions struct {
	NoRefresh bool // see Options.NoRefresh
}

// DeleteOptions are the options of a delete. Nil is the zero value.
type DeleteOptions struct {
	// IfVersion, if not 0, is the version that the item must have. Otherwise the delete
	// fails with a [*ConflictError].
	IfVersion int64
}

// SearchOptions are the options of a search. Nil is the zero value.
type SearchOptions struct {
	// Query is the text to search for. Without one, the search returns the newest items.
	// Long queries are shortened, so that no search takes long. Of more than 128 different
	// words, 64 from the beginning and the end are used, where a question usually is, and
	// the 64 rarest of the others. Of more than 8 KiB, the Embedder gets the beginning and
	// the end.
	Query string
	// Filter selects items; the zero Filter selects all.
	Filter Filter
	// Limit is the maximum number of items returned; 0 means 10. Offset is how many of the
	// best, or of the newest, are skipped.
	Limit, Offset int
	// Ranking is how a query ranks items; Auto means the store's Options.Ranking.
	Ranking Ranking
	// Explain sets the Explanation of each item.
	Explain bool
	// NoRefresh is Options.NoRefresh for this search.
	NoRefresh bool
}

// NamespacesOptions are the options of a listing of namespaces. Nil is the zero
// value.
type NamespacesOptions struct {
	// Prefix and Suffix are the segments that a namespace must start and end with. "*"
	// stands for any one segment.
	Prefix, Suffix Namespace
	// MaxDepth, if not 0, is the number of segments to which namespaces are shortened.
	MaxDepth int
	// Limit is the maximum number of namespaces returned; 0 means 100. Offset is how many
	// are skipped.
	Limit, Offset int
}

const (
	defaultLimit      = 10
	defaultNamespaces = 100
	defaultHistory    = 100
)

// check returns an error for invalid options.
func (o *Options) check() error {
	for _, path := range o.Fields {
		if _, err := parsePath(path); err != nil {
			return &InvalidError{What: fmt.Sprintf("field %.80q", path), Reason: err.Error()}
		}
	}
	switch {
	case o.Embedder != nil && o.Embedder.Dimension() <= 0:
		return &InvalidError{What: "embedder " + o.Embedder.Model(), Reason: fmt.Sprintf("has dimension %d", o.Embedder.Dimension())}
	case o.TTL < 0 || o.TTL > 0 && o.TTL < time.Microsecond:
		return &InvalidError{What: "options", Reason: fmt.Sprintf("have a TTL of %v", o.TTL)}
	case o.History < 0:
		return &InvalidError{What: "options", Reason: fmt.Sprintf("have a History of %d: 1 is the least", o.History)}
	case o.Branches && o.History == 1:
		return &InvalidError{What: "options", Reason: "have Branches and a History of 1: a branch reads older versions, so keep some"}
	case o.HistoryAge < 0:
		return &InvalidError{What: "options", Reason: fmt.Sprintf("have a HistoryAge of %v", o.HistoryAge)}
	}
	return checkRanking(o.Ranking, o.Embedder)
}

func checkRanking(r Ranking, e Embedder) error {
	switch {
	case r < Auto || r > Hybrid:
		return &InvalidError{What: "ranking", Reason: fmt.Sprintf("%d does not exist: use Auto, Semantic, Keyword or Hybrid", r)}
	case e == nil && (r == Semantic || r == Hybrid):
		return &InvalidError{What: "ranking", Reason: "by meaning needs an embedder: set Options.Embedder"}
	}
	return nil
}
