package store

import (
	"context"
	"encoding/json"
	"time"
)

// Backend keeps the versions of items for a [Store]. Applications do not call it.
//
// A backend keeps [Record] values, each numbered with a Seq. The one with the
// greatest Seq of a namespace and key is the current one; those before it are the
// item's history. An item is live now if its current record is of kind Put and has not
// expired: its Expires is zero or after now. It was live at a time t if the same was
// true at t of the newest (by Seq) of its records with Updated ≤ t. A backend never
// returns items of other namespaces: prefixes are compared segment by segment, which
// [Namespace.Encode] turns into a comparison of bytes.
//
// Seqs start above 0 and grow; there may be gaps. After any method has returned a Seq,
// no smaller one may appear, so that a reader of Changes misses nothing. All methods
// may be called concurrently, and by several processes if the backend is a database.
// The names, values, times (UTC, whole microseconds) and limits that a backend is given
// are valid; it need not check them.
//
// A backend may keep the slices that it is given, and the store does not change the
// records that it returns, so records can be shared.
type Backend interface {
	// Do carries out a batch in one transaction: all its reads see the state before
	// its writes, and either all writes happen or none. The results are in the order of
	// the batch's parts.
	Do(ctx context.Context, b *Batch) (*Results, error)

	// History returns the records of a key, newest first, whether or not it is
	// live.
	History(ctx context.Context, n Namespace, key string) ([]*Record, error)

	// Changes returns the records under a prefix with a Seq greater than after, oldest
	// first, at most limit. A Forgotten record without a Key is about all namespaces
	// under its own, so it is returned if one of the two prefixes is under the other.
	// The result is complete up to seq: no other record with a smaller or equal Seq will
	// appear. If limit cut it off, seq is that of the last record returned. A limit of 0
	// returns only the present seq. It fails with ErrCompacted if after is not 0 and a
	// sweep has dropped a current record (by the last rule of [Sweep]) with a Seq greater
	// than after, because the reader would never learn that the item is gone.
	Changes(ctx context.Context, prefix Namespace, after int64, limit int) (records []*Record, seq int64, err error)

	// Wait returns when there may be records with a Seq greater than seq, or with the
	// context's error. It may return early: a database without notifications can wait
	// for a moment.
	Wait(ctx context.Context, seq int64) error

	// Sweep removes expired items and old history; see [Sweep]. It returns how many
	// items have expired and how many records were dropped.
	Sweep(ctx context.Context, s Sweep) (expired, dropped int, err error)

	// Stale returns records of kind Put with a Seq greater than after whose
	// Indexed.Stamp is neither empty nor the given one, in order of Seq, at
	// most limit.
	Stale(ctx context.Context, stamp string, after int64, limit int) ([]*Record, error)

	// Reindex replaces the index entries of the records with the given Seqs. Seqs that do
	// not exist any more are ignored. It makes no versions.
	Reindex(ctx context.Context, by map[int64]Indexed) error
}

// Sweep tells a backend what to remove. First, each item that has expired at Now gets
// a record of kind Expired with the same namespace and key and Updated Now; its newest
// Keep records stay, that one included. Then, if Before is not zero, history that ended
// before it is dropped: each record that is not the current one of its key and whose
// successor has Updated < Before, and each current record that is not of kind Put and
// has Updated < Before. A record without a Key is always current.
type Sweep struct {
	Now    time.Time
	Before time.Time
	Keep   int
}

// Batch is the input of [Backend.Do].
type Batch struct {
	// Now is the time of the batch. Items that have expired at Now are not live, and
	// writes have this time.
	Now time.Time
	// AsOf, if not zero, is the time of the reads instead of Now: they see the items that
	// were live then. Such a batch has no writes and refreshes nothing.
	AsOf time.Time
	// Until, if not 0, limits the reads to records with a smaller Seq: they see the items
	// as they were before that change, without those that have expired since. Such a batch
	// has no writes and refreshes nothing. Limits has the limits of the history: if records
	// that the reads need may have been removed, Do fails with a [*GoneError]; see there.
	Until  int64
	Limits Sweep

	Gets       []Lookup
	Searches   []*Query
	Namespaces []Namespace // prefixes
	Writes     []Write     // each key at most once
}

// Past reports whether the reads of the batch look at the past.
func (b *Batch) Past() bool { return b.Until != 0 || !b.AsOf.IsZero() }

// Lookup is a read of one key. If Refresh is set and the item has a TTL, its Expires
// becomes the batch's Now plus TTL; this makes no version. The record returned has the
// new time.
type Lookup struct {
	Namespace Namespace
	Key       string
	Refresh   bool
}

// Results are the output of [Backend.Do].
type Results struct {
	// Gets has the live record for each Lookup, or nil.
	Gets []*Record
	// Searches has the records that each Query found.
	Searches [][]Found
	// Namespaces has, for each prefix, the namespaces under it that hold a live
	// item, each once, in any order.
	Namespaces [][]Namespace
	// Writes has the record that each Write made; nil for a delete of a key without a
	// live item.
	Writes []*Record
}

// Write changes one key or, with kind Forgotten and no Key, all keys of all namespaces
// under Namespace.
//
// A Put keeps Created of the live item that it replaces; otherwise Created is now. It
// expires TTL after now. Deleted has no effect if there is no live item. Forgotten
// removes all records of the key and always leaves one of kind Forgotten, so that
// watchers learn of it; without a Key it leaves one record with an empty Key for all.
type Write struct {
	Namespace Namespace
	Key       string
	Kind      Kind // Put, Deleted or Forgotten; see also Times
	Value     json.RawMessage
	Meta      json.RawMessage // nil if none
	TTL       time.Duration   // 0 means forever
	Indexed   Indexed
	// If, if not nil, is the Seq that the live record must have; 0 means that there must
	// be no live item. If that is not so, Do fails with a *ConflictError.
	If *int64
	// Keep is how many records of the key stay, the new one included; at least 1. Older
	// ones are removed.
	Keep int
	// Times, if not nil, are the times of the record, in place of those that follow from
	// the batch's Now and the live item. Such a write adds a version of an import. Its
	// Kind is Put, Deleted or Expired, and it is added even if there is no live item.
	Times *Times
}

// Times are the times of a [Record].
type Times struct {
	Created time.Time // zero if the kind is not Put
	Updated time.Time
	Expires time.Time // zero if the TTL is 0
}

// Indexed is the index entry of a record.
type Indexed struct {
	// Paths says which fields are indexed. Only the store reads it; backends keep it.
	Paths string
	// Stamp identifies how Terms and Vectors were made: the model, its dimension, the
	// store's fields. It is empty for an item that is not indexed.
	Stamp string
	// Terms are the item's words with their counts, sorted.
	Terms []Term
	// Vectors have length 1 (or 0) and all the same dimension.
	Vectors []Vector
}

// Term is a word of an item, of letters and digits only; see [Query].
type Term struct {
	Text  string
	Count int
}

// Vector is the embedding of one text of an item.
type Vector struct {
	Field string // the path of the text, such as "notes.2"
	Data  []float32
}

// Record is a version of an item, or the mark of its end.
type Record struct {
	Seq       int64
	Kind      Kind
	Namespace Namespace
	Key       string
	Created   time.Time // zero if Kind is not Put
	Updated   time.Time // when it was written
	Expires   time.Time // zero if never
	TTL       time.Duration
	Value     json.RawMessage
	Meta      json.RawMessage
	// Paths is Indexed.Paths.
	Paths string
}

// Live reports whether the item of a current record is live at a time.
func (r *Record) Live(at time.Time) bool {
	return r.Kind == Put && (r.Expires.IsZero() || r.Expires.After(at))
}
