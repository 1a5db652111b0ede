package store

import (
	"fmt"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
)

// Options configure a store. The zero value, and a nil *Options, are the
// defaults.
type Options struct {
	// Embedder makes searches by meaning possible.
	Embedder Embedder
	// Fields are the paths of the texts that a query looks at, in items that
	// were put without an Index of their own; nil means {"$"}, the whole
	// value. See [PutOptions].
	Fields []string
	// Ranking is how searches with a query rank, unless they say otherwise.
	Ranking Ranking
	// TTL is how long items live that were put without a TTL of their own; 0
	// means for ever.
	TTL time.Duration
	// NoRefresh makes reads leave the time at which an item expires as it is.
	// Otherwise getting or finding an item that has a TTL lets it live for that
	// long again.
	NoRefresh bool
	// History is how many versions of an item are kept, the current one
	// included; 0 means 100, and 1 keeps no past.
	History int
	// HistoryAge is how long a version is kept after it was replaced, and the
	// trace of an item after it was deleted, before [Store.Sweep] drops them; 0
	// means for ever.
	HistoryAge time.Duration
	// Keys, if there are any, encrypt items with AES-GCM: values and meta are
	// sealed and bound to their namespace and key, and the words of the index are
	// keyed digests. The first key seals; all of them open. To rotate, put the new
	// key first and keep the old ones for as long as items and their history are
	// kept; the next search with a query indexes anew. A store whose items were put
	// without keys is not opened with them, or the other way round.
	//
	// Filters are evaluated when an item has been opened, so they take as long as
	// reading all items under the prefix does.
	//
	// Whoever can read the database still sees namespaces, keys, times, sizes,
	// versions, which items share words and how often, the paths and the model of
	// the index, and with an Embedder the vectors, from which much of a text can be
	// told; leave the Embedder out where that is too much. Whoever can write to it
	// can remove items, and put an older version of an item in the place of a newer.
	Keys []checkpoint.EncryptionKey
	// Now is the clock; nil means time.Now. Tests set it.
	Now func() time.Time
}

// A Ranking says how a search with a query ranks.
type Ranking int

// The rankings.
const (
	// Auto is Semantic in a store with an Embedder, else Keyword.
	Auto Ranking = iota
	// Semantic ranks by meaning: the score is the cosine between the query and
	// the item's most similar text, from -1 to 1.
	Semantic
	// Keyword ranks by the words that an item has in common with the query,
	// rare ones counting more (BM25 among the items found, so that what others
	// have stored never influences a score).
	Keyword
	// Hybrid ranks by both: the score is the cosine, plus how much of the query
	// the item's words are, from 0 to 1, rare ones counting more. What is
	// nearest by far comes first, whatever else has the query's frequent words.
	Hybrid
)

// Forever is the PutOptions.TTL of an item that never expires.
const Forever time.Duration = -1

// PutOptions configure a put. A nil *PutOptions is the zero value.
type PutOptions struct {
	// Meta becomes the item's Meta: what marshals to a JSON object, or nil.
	Meta any
	// Index replaces the store's Fields for this item. A path is "$" for the
	// whole value, or keys joined with dots; in arrays "list[0]", "list[-1]"
	// and "list[*]" for each element; "*" for each value of an object or
	// array; "{a,b.c}" for several. Texts, numbers and booleans are taken as
	// text, arrays and objects as JSON; what is missing or null is passed over.
	Index []string
	// NoIndex hides the item from queries. It is still found by key, by filter
	// and by listing.
	NoIndex bool
	// TTL is how long the item lives; 0 means the store's TTL. See [Forever].
	TTL time.Duration
	// IfVersion, if not 0, is the version that the put must replace, and
	// IfAbsent says that there must be no item yet: else the put fails with a
	// [*ConflictError].
	IfVersion int64
	IfAbsent  bool
}

// GetOptions configure a get. A nil *GetOptions is the zero value.
type GetOptions struct {
	NoRefresh bool // see Options.NoRefresh
}

// DeleteOptions configure a delete. A nil *DeleteOptions is the zero value.
type DeleteOptions struct {
	// IfVersion, if not 0, is the version that must be there, else the delete
	// fails with a [*ConflictError].
	IfVersion int64
}

// SearchOptions configure a search. A nil *SearchOptions is the zero value.
type SearchOptions struct {
	// Query is what to look for. Without one the search is by newest. What is
	// long is not looked for as a whole, so that no search takes long: of more
	// than 128 different words the 64 nearest to the beginning and the end
	// count, where a question stands, and the 64 rarest in between; and of more
	// than 8 KiB the Embedder is given the beginning and the end.
	Query string
	// Filter says what items must be like.
	Filter Filter
	// Limit bounds the answer; 0 means 10. Offset passes over so many of the
	// best, or of the newest.
	Limit, Offset int
	// Ranking is how to rank; Auto means as the store's Options say.
	Ranking Ranking
	// Explain asks for an Explanation of each item's score.
	Explain bool
	// NoRefresh; see Options.NoRefresh.
	NoRefresh bool
}

// NamespacesOptions configure a listing of namespaces. A nil *NamespacesOptions
// is the zero value.
type NamespacesOptions struct {
	// Prefix and Suffix are what a namespace must begin and end with, segment by
	// segment; the segment "*" stands for any one.
	Prefix, Suffix Namespace
	// MaxDepth, if not 0, cuts namespaces to so many segments.
	MaxDepth int
	// Limit bounds the answer; 0 means 100. Offset passes over the first.
	Limit, Offset int
}

const (
	defaultLimit      = 10
	defaultNamespaces = 100
	defaultHistory    = 100
)

// check says what is wrong with the options.
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
	case o.HistoryAge < 0:
		return &InvalidError{What: "options", Reason: fmt.Sprintf("have a HistoryAge of %v", o.HistoryAge)}
	}
	return checkRanking(o.Ranking, o.Embedder)
}

func checkRanking(r Ranking, e Embedder) error {
	switch {
	case r < Auto || r > Hybrid:
		return &InvalidError{What: "ranking", Reason: fmt.Sprintf("%d is not one of those there are", r)}
	case e == nil && (r == Semantic || r == Hybrid):
		return &InvalidError{What: "ranking", Reason: "by meaning needs an embedder: set Options.Embedder"}
	}
	return nil
}
