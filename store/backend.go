package store

import (
	"context"
	"encoding/json"
	"time"
)

// A Backend keeps the versions of items for a [Store]. Applications do not call it.
//
// A backend keeps [Record] values, each numbered with a Seq. The record of a namespace and
// key with the greatest Seq is current; the records before it are the item's history. An item
// is live now if its current record is of kind Put and has not expired, that is, its Expires
// is zero or after now. An item was live at a time t if this held at t for its newest record
// (by Seq) with Updated ≤ t. A backend never returns items of other namespaces: prefixes are
// compared segment by segment, which [Namespace.Encode] turns into a byte comparison.
//
// Seqs start above 0 and increase, possibly with gaps. After any method has returned a Seq,
// no smaller Seq may appear, so that a reader of Changes misses nothing. All methods may be
// called concurrently, and by several processes if the backend is a database. The names,
// values, times (UTC, whole microseconds), and limits passed to a backend are valid; it need
// not check them.
//
// A backend may retain the slices that it receives, and the store does not modify the records
// that a backend returns, so records can be shared.
type Backend interface {
	// Do executes a batch in one transaction: all its reads see the state before its
	// writes, and either all writes take effect or none does. The results are in the
	// order of the batch's parts.
	Do(ctx context.Context, b *Batch) (*Results, error)

	// History returns the records of a key, newest first, whether or not the item is
	// live.
	History(ctx context.Context, n Namespace, key string) ([]*Record, error)

	// Changes returns at most limit records under a prefix with a Seq greater than
	// after, oldest first. A Forgotten record without a Key covers all namespaces under
	// its own, so it is returned if one of the two prefixes is under the other. The
	// result is complete up to seq: no other record with a smaller or equal Seq will
	// appear. If limit truncates the result, seq is the Seq of the last record
	// returned. A limit of 0 returns only the current seq. Changes returns ErrCompacted
	// if after is not 0 and a sweep has dropped a current record (by the last rule of
	// [Sweep]) with a Seq greater than after, because the reader would never see that
	// the item is gone.
	Changes(ctx context.Context, prefix Namespace, after int64, limit int) (records []*Record, seq int64, err error)

	// Wait returns when records with a Seq greater than seq may exist, or when ctx is
	// done, with its error. It may return early: a database without notifications can
	// simply wait briefly.
	Wait(ctx context.Context, seq int64) error

	// Sweep removes expired items and old history; see [Sweep]. It returns the number
	// of expired items and of dropped records.
	Sweep(ctx context.Context, s Sweep) (expired, dropped int, err error)

	// Stale returns at most limit records of kind Put with a Seq greater than after
	// whose Indexed.Stamp is neither empty nor stamp, in order of Seq.
	Stale(ctx context.Context, stamp string, after int64, limit int) ([]*Record, error)

	// Stamps returns the Indexed.Stamp of all records, without duplicates and without
	// the empty stamp, in any order.
	Stamps(ctx context.Context) ([]string, error)

	// Reindex replaces the index entries of the records with the given Seqs. It ignores
	// Seqs that no longer exist and creates no versions.
	Reindex(ctx context.Context, by map[int64]Indexed) error
}

// A Sweep describes the records that a backend removes. First, each item that has
// expired at Now gets a record of kind Expired with the same namespace and key and with
// Updated set to Now; the newest Keep records of the item, including this one, are
// kept. Then, if Before is not zero, history that ended before it is dropped: each
// non-current record whose successor has Updated < Before, and each current record that
// is not of kind Put and has Updated < Before. A record without a Key is always
// current.
type Sweep struct {
	Now    time.Time
	Before time.Time
	Keep   int
}

// Batch is the input of [Backend.Do].
type Batch struct {
	// Now is the time of the batch. Items that have expired at Now are not live, and
	// writes use this time.
	Now time.Time
	// AsOf, if not zero, is the time of the reads instead of Now: they see the items
	// that were live at that time. Such a batch contains no writes and refreshes
	// nothing.
	AsOf time.Time
	// Until, if not 0, limits the reads to records with a smaller Seq: they see the
	// items as of before that change, without items that have since expired. Such a
	// batch contains no writes and refreshes nothing. Limits contains the history
	// limits: if records that the reads need may have been removed, Do returns a
	// [*GoneError], which documents the conditions.
	Until  int64
	Limits Sweep

	Gets       []Lookup
	Searches   []*Query
	Namespaces []Namespace // prefixes
	Writes     []Write     // each key at most once
}

// Past reports whether the batch reads the past.
func (b *Batch) Past() bool { return b.Until != 0 || !b.AsOf.IsZero() }

// Lookup is a read of one key. If Refresh is set and the item has a TTL, its Expires
// becomes the batch's Now plus TTL, without creating a version. The returned record
// contains the new time.
type Lookup struct {
	Namespace Namespace
	Key       string
	Refresh   bool
}

// Results are the output of [Backend.Do].
type Results struct {
	// Gets contains the live record for each Lookup, or nil.
	Gets []*Record
	// Searches contains the records found by each Query.
	Searches [][]Found
	// Namespaces contains, for each prefix, the namespaces under it with a live item,
	// without duplicates, in any order.
	Namespaces [][]Namespace
	// Writes contains the record created by each Write; nil for a delete of a key
	// without a live item.
	Writes []*Record
}

// Write changes one key or, with kind Forgotten and no Key, all keys of all namespaces
// under Namespace.
//
// A Put keeps the Created time of the live item that it replaces; otherwise, Created is
// the current time. The item expires after TTL. A Deleted write has no effect without a
// live item. A Forgotten write removes all records of the key and always leaves one
// record of kind Forgotten, so that watchers are notified; without a Key, it leaves a
// single record with an empty Key.
type Write struct {
	Namespace Namespace
	Key       string
	Kind      Kind // Put, Deleted, or Forgotten; see also Times
	Value     json.RawMessage
	Meta      json.RawMessage // nil if none
	TTL       time.Duration   // 0 means forever
	Indexed   Indexed
	// If, if not nil, is the required Seq of the live record; 0 means that no live item
	// may exist. If the condition does not hold, Do returns a *ConflictError.
	If *int64
	// Keep is the number of records of the key to keep, including the new one; at least
	// 1. Older records are removed.
	Keep int
	// Times, if not nil, overrides the times derived from the batch's Now and the live
	// item. Such a write adds an imported version. Its Kind is Put, Deleted, or
	// Expired, and it is added even without a live item.
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
	// Paths encodes the indexed fields. Only the store reads it; backends store it.
	Paths string
	// Stamp identifies how Terms and Vectors were computed: the model, its dimension,
	// and the store's fields. It is empty for an item that is not indexed.
	Stamp string
	// Terms contains the item's words with their counts, sorted.
	Terms []Term
	// Vectors have length 1 (or 0) and the same dimension.
	Vectors []Vector
}

// A Term is a word of an item and consists of letters and digits only; see [Query].
type Term struct {
	Text  string
	Count int
}

// A Vector is the embedding of one text of an item.
type Vector struct {
	Field string // the path of the text, such as "notes.2"
	Data  []float32
}

// A Record is a version of an item, or records its end.
type Record struct {
	Seq       int64
	Kind      Kind
	Namespace Namespace
	Key       string
	Created   time.Time // zero if Kind is not Put
	Updated   time.Time // time of the write
	Expires   time.Time // zero means never
	TTL       time.Duration
	Value     json.RawMessage
	Meta      json.RawMessage
	// Paths is Indexed.Paths.
	Paths string
}

// Live reports whether the item of a current record is live at the given time.
func (r *Record) Live(at time.Time) bool {
	return r.Kind == Put && (r.Expires.IsZero() || r.Expires.After(at))
}
