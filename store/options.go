package store

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
)

// Options configures a store. A nil *Options means the defaults, as does the zero
// value.
type Options struct {
	// Embedder enables semantic search; nil disables it.
	Embedder Embedder
	// Fields lists the paths of the texts to index for queries, unless an item sets
	// [PutOptions].Index; nil means {"$"}, the whole value. PutOptions explains the
	// path syntax.
	Fields []string
	// English treats all texts and queries as English. By default, the language of each is
	// detected. Keyword search matches other forms of a word ("walks" matches "walking")
	// if the text and the query are in the same language: English, Dutch, French, German,
	// Italian, Korean, Portuguese, Russian, Spanish, or Swedish. Changing English
	// reindexes the items.
	English bool
	// Ranking is the default ranking of searches with a query.
	Ranking Ranking
	// TTL is the default time to live of items; 0 means forever.
	TTL time.Duration
	// NoRefresh prevents reads from resetting an item's TTL. By default, getting or
	// finding an item resets its TTL.
	NoRefresh bool
	// History is the maximum number of versions kept per item, including the current
	// one; 0 means 100, and 1 keeps only the current one.
	History int
	// HistoryAge is the time for which [Store.Sweep] keeps replaced versions and records of
	// deletions; 0 means forever.
	HistoryAge time.Duration
	// Branches makes the store follow the threads of graphs: a run from an older
	// checkpoint of a thread reads the items as of that checkpoint, and its writes stay
	// in a branch; see [Store.Branch]. Each checkpoint then records the store's
	// version, which costs one additional read. History must not be 1. Branches can
	// also be used without this option.
	Branches bool
	// Keys, if not empty, encrypts items with AES-GCM. Values and meta are bound to their
	// namespace and key, and the index stores words as keyed digests. The first key encrypts;
	// all keys decrypt. To rotate keys, put the new key first and keep the old ones for as long
	// as items and their history are kept; the next search with a query rebuilds the index.
	// Items put without keys cannot be read with keys, and vice versa.
	//
	// Filters are applied to decrypted items, so a filter takes as long as reading all items
	// under the prefix.
	//
	// An attacker who can read the database still sees namespaces, keys, times, sizes, versions,
	// which items share words and how often, the paths and the model of the index, and, with an
	// Embedder, the vectors, which reveal much of a text; omit the Embedder if that is
	// unacceptable. An attacker who can write to the database can remove items and replace an
	// item with an older version of it.
	Keys []checkpoint.EncryptionKey
	// Logger receives a warning, once per store, if items were embedded with another
	// model; nil means [slog.Default].
	Logger *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Ranking selects how a search with a query ranks items.
type Ranking int

// The rankings.
const (
	// Auto means Semantic in a store with an Embedder, and Keyword otherwise.
	Auto Ranking = iota
	// Semantic ranks by semantic similarity: the score is the cosine similarity between the query
	// and the item's most similar text, from -1 to 1.
	Semantic
	// Keyword ranks by the words that an item shares with the query. Rare words count
	// more. In an English query, function words such as "what" and "the" do not count
	// if there are other words. The score is BM25 computed over the items found, so
	// that items in other namespaces do not influence it.
	Keyword
	// Hybrid ranks by both: the score is the cosine plus 0.8 times the share, from 0 to
	// 1, of the query's words that the item contains, with rare words weighted more. If
	// the item contains only one of several words, the match counts half if the word is
	// a name in the query (capitalized mid-sentence, quoted, a handle, or a number),
	// and otherwise not at all. Meaning thus decides where no item contains much of the
	// query, and an item that is by far the nearest comes first, regardless of frequent
	// words in other items.
	Hybrid
)

// Forever is the PutOptions.TTL of an item that never expires.
const Forever time.Duration = -1

// PutOptions configures a put. A nil *PutOptions means the defaults.
type PutOptions struct {
	// Meta becomes the item's Meta. It must marshal to a JSON object, or be nil.
	Meta any
	// Index overrides the store's Fields for this item. A path is "$" for the whole
	// value, or keys joined with dots. "list[0]", "list[-1]", and "list[*]" select
	// elements of an array, "*" selects each value of an object or array, and "{a,b.c}"
	// combines several paths. Strings, numbers, and booleans are indexed as text,
	// arrays and objects as JSON; missing and null values are skipped.
	Index []string
	// NoIndex hides the item from queries. It can still be read by key and found by
	// searches without a query.
	NoIndex bool
	// TTL is the item's time to live; 0 means the store's TTL, and [Forever] means no
	// expiry.
	TTL time.Duration
	// IfVersion, if not 0, is the version that the put must replace. IfAbsent requires
	// that no item exists. If the condition does not hold, the put fails with a
	// [*ConflictError].
	IfVersion int64
	IfAbsent  bool
}

// GetOptions configures a get. A nil *GetOptions means the defaults.
type GetOptions struct {
	NoRefresh bool // see Options.NoRefresh
}

// DeleteOptions configures a delete. A nil *DeleteOptions means the defaults.
type DeleteOptions struct {
	// IfVersion, if not 0, is the required version of the item. If the item has another
	// version, the delete fails with a [*ConflictError].
	IfVersion int64
}

// SearchOptions configures a search. A nil *SearchOptions means the defaults.
type SearchOptions struct {
	// Query is the text to search for. Without a query, the search returns the newest
	// items. In a store with an Embedder, a query returns the nearest items even if they
	// are unrelated to it: to find items to delete, set Ranking to Keyword, and check the
	// items before deleting them. Long queries are shortened to bound the search time. If a query has more
	// than 128 distinct words, the search uses 64 words from its start and end, where
	// the question usually is, and the 64 rarest of the others. If it exceeds 8 KiB,
	// the Embedder receives its start and end.
	Query string
	// Document means that Query is the text of an item rather than a question, so that
	// the score of an item is the similarity of two documents. It makes a difference
	// only if the Embedder is a [QueryEmbedder].
	Document bool
	// Filter selects items; the zero Filter selects all.
	Filter Filter
	// Limit is the maximum number of items returned; 0 means 10. Offset is the number
	// of best, or newest, items to skip.
	Limit, Offset int
	// Ranking selects how a query ranks items; Auto means the store's Options.Ranking.
	Ranking Ranking
	// Explain sets the Explanation of each item.
	Explain bool
	// NoRefresh is like Options.NoRefresh, but for this search only.
	NoRefresh bool
}

// NamespacesOptions configures a listing of namespaces. A nil *NamespacesOptions means
// the defaults.
type NamespacesOptions struct {
	// Prefix and Suffix are the segments that a namespace must start and end with. "*"
	// matches any one segment.
	Prefix, Suffix Namespace
	// MaxDepth, if not 0, truncates namespaces to this number of segments.
	MaxDepth int
	// Limit is the maximum number of namespaces returned; 0 means 100. Offset is the
	// number of namespaces to skip.
	Limit, Offset int
}

const (
	defaultLimit      = 10
	defaultNamespaces = 100
	defaultHistory    = 100
)

// check returns an error if the options are invalid.
func (o *Options) check() error {
	for _, path := range o.Fields {
		if _, err := parsePath(path); err != nil {
			return &InvalidError{What: fmt.Sprintf("field %.80q", path), Reason: err.Error()}
		}
	}
	switch {
	case o.Embedder != nil && o.Embedder.Dimension() <= 0:
		return &InvalidError{What: "embedder " + o.Embedder.Model(), Reason: fmt.Sprintf("has invalid dimension %d", o.Embedder.Dimension())}
	case o.TTL < 0 || o.TTL > 0 && o.TTL < time.Microsecond:
		return &InvalidError{What: "options", Reason: fmt.Sprintf("have an invalid TTL %v: want 1µs or more, or 0 for none", o.TTL)}
	case o.History < 0:
		return &InvalidError{What: "options", Reason: fmt.Sprintf("have an invalid History %d: want 1 or more, or 0 for %d", o.History, defaultHistory)}
	case o.Branches && o.History == 1:
		return &InvalidError{What: "options", Reason: "have Branches and a History of 1: branches read older versions, so raise History"}
	case o.HistoryAge < 0:
		return &InvalidError{What: "options", Reason: fmt.Sprintf("have an invalid HistoryAge %v: want more than 0, or 0 for forever", o.HistoryAge)}
	}
	return checkRanking(o.Ranking, o.Embedder)
}

func checkRanking(r Ranking, e Embedder) error {
	switch {
	case r < Auto || r > Hybrid:
		return &InvalidError{What: "ranking", Reason: fmt.Sprintf("%d is unknown: use Auto, Semantic, Keyword, or Hybrid", r)}
	case e == nil && (r == Semantic || r == Hybrid):
		return &InvalidError{What: "ranking", Reason: "requires an embedder: set Options.Embedder"}
	}
	return nil
}
