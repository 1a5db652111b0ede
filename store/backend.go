package store

import (
	"context"
	"encoding/json"
	"time"
)

// A Backend keeps the versions of items for a [Store], which does everything
// that can be done above it. Applications do not call it.
//
// A backend keeps [Record] values, each numbered with a Seq. The one with the
// greatest Seq of a namespace and key is the current one; the ones before it
// are the item's history. An item is live now if its current record is of kind
// Put and has not expired: its Expires is zero or after now. It was live at a
// time t if the same holds at t for the newest (by Seq) of its records with
// Updated ≤ t. What a backend returns is never of another namespace than asked
// for: prefixes are compared segment by segment, which [Namespace.Encode] makes
// a comparison of bytes.
//
// Seqs start above 0 and grow; there may be gaps. Once a Seq has been returned
// by anything, no smaller one may appear later: a reader of Changes must miss
// nothing. All methods may be called concurrently, by several processes if the
// backend is a database. Names, values, times (UTC, whole microseconds) and
// limits in what a backend is given are valid; it checks nothing again.
//
// A backend may keep the memory that it is given, and the store does not change
// what the backend returns, so records can be shared.
type Backend interface {
	// Do is one transaction: all reads of the batch see one state, the one
	// before its writes; all writes happen or none. The results are in the
	// order of the batch's parts.
	Do(ctx context.Context, b *Batch) (*Results, error)

	// History returns the records of a key, newest first, whether or not it is
	// live.
	History(ctx context.Context, n Namespace, key string) ([]*Record, error)

	// Changes returns the records under a prefix with a Seq greater than after,
	// oldest first, at most limit. A record Forgotten without a Key concerns all
	// namespaces under its own, so it is returned where either prefix is under
	// the other. The answer is complete up to seq: no further record with a
	// smaller or equal Seq will ever appear. Where it was cut off by limit, seq
	// is that of the last one returned. A limit of 0 returns just the present
	// seq. It fails with ErrCompacted if after is not 0 and a sweep has dropped
	// a current record (by the last rule of [Sweep]) with a Seq greater than
	// after: the reader would never learn of that item's end.
	Changes(ctx context.Context, prefix Namespace, after int64, limit int) (records []*Record, seq int64, err error)

	// Wait returns once there may be records with a Seq greater than seq, or
	// with the context's error. It may return too early, so a database without
	// notifications may wait for a moment.
	Wait(ctx context.Context, seq int64) error

	// Sweep removes what is over; see [Sweep]. It returns how many items have
	// expired and how many records were dropped.
	Sweep(ctx context.Context, s Sweep) (expired, dropped int, err error)

	// Stale returns records of kind Put with a Seq greater than after whose
	// Indexed.Stamp is neither empty nor the given one, in order of Seq, at
	// most limit.
	Stale(ctx context.Context, stamp string, after int64, limit int) ([]*Record, error)

	// Reindex replaces what the records with the given Seqs can be found by.
	// Seqs that are not there any more are passed over. It makes no versions.
	Reindex(ctx context.Context, by map[int64]Indexed) error
}

// A Sweep tells a backend what to remove. First every item whose time is up at
// Now gets a record of kind Expired: same namespace and key, Updated Now; of its
// records the newest Keep stay, that one included. Then, if Before is not
// zero, history that ended before it is dropped: each record that is not the
// current one of its key and whose successor has Updated < Before, and each
// current record that is not of kind Put and has Updated < Before (one without
// a Key is always current).
type Sweep struct {
	Now    time.Time
	Before time.Time
	Keep   int
}

// A Batch is what [Backend.Do] does at once.
type Batch struct {
	// Now is the time of the batch: what has expired by then is not there, what
	// is written is written then.
	Now time.Time
	// AsOf, if not zero, is the time that the reads look at instead of Now:
	// they see what was live then. Such a batch has no writes and refreshes
	// nothing.
	AsOf time.Time

	Gets       []Lookup
	Searches   []*Query
	Namespaces []Namespace // prefixes
	Writes     []Write     // each key at most once
}

// A Lookup is a read of one key. If Refresh is set and the item has a TTL, it
// expires TTL after the batch's Now instead of when it would have; this makes no
// version. The record returned has the new time.
type Lookup struct {
	Namespace Namespace
	Key       string
	Refresh   bool
}

// Results are what a [Batch] gave.
type Results struct {
	// Gets has the live record for each Lookup, or nil.
	Gets []*Record
	// Searches has what each Query found; see there.
	Searches [][]Found
	// Namespaces has, for each prefix, the namespaces under it that hold a live
	// item, each once, in any order.
	Namespaces [][]Namespace
	// Writes has the record that each Write made. It is nil for a delete of
	// what is not there.
	Writes []*Record
}

// A Write changes one key, or with a kind of Forgotten and no Key all keys of
// all namespaces under Namespace.
//
// A Put keeps Created of the live item that it replaces, else Created is now. It
// expires TTL after now.
// Deleted is of no effect where there is no live item. Forgotten removes all
// records of the key and leaves one of its own, always, so that watchers get to
// know; without a Key that is one record for all, with an empty Key.
type Write struct {
	Namespace Namespace
	Key       string
	Kind      Kind // Put, Deleted or Forgotten
	Value     json.RawMessage
	Meta      json.RawMessage // nil if none
	TTL       time.Duration   // 0: for ever
	Indexed   Indexed
	// If, if not nil, is the Seq that the live record must have, or 0 if there
	// must be no live item. Otherwise Do fails with a *ConflictError.
	If *int64
	// Keep is how many records of the key stay, the new one included: at least
	// one. Older ones go.
	Keep int
}

// Indexed is what a record can be found by, besides its key.
type Indexed struct {
	// Paths is the store's own note of what to index; backends keep it.
	Paths string
	// Stamp says how Terms and Vectors were made: the model, its dimension, the
	// store's fields. It is empty for an item that queries never find.
	Stamp string
	// Terms are the item's words with how often they occur, sorted.
	Terms []Term
	// Vectors have length 1 (or 0) and all the same dimension.
	Vectors []Vector
}

// A Term is a word of an item: letters and digits only, see [Query.Terms].
type Term struct {
	Text  string
	Count int
}

// A Vector is the embedding of one text of an item.
type Vector struct {
	Field string // the path of the text, such as "notes.2"
	Data  []float32
}

// A Record is a version of an item, or the end of one.
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
	// Paths is that of Indexed. Only Stale has to fill it in.
	Paths string
}

// Live reports whether a record that is current at a time is that of a live item.
func (r *Record) Live(at time.Time) bool {
	return r.Kind == Put && (r.Expires.IsZero() || r.Expires.After(at))
}
