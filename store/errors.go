package store

import (
	"errors"
	"fmt"
)

// Errors returned by every store.
var (
	// ErrNotFound is returned when the item does not exist or has expired.
	ErrNotFound = errors.New("store: not found")
	// ErrNoStore is returned by all methods of a nil *Store, which is the store of a
	// graph compiled without Options.Store.
	ErrNoStore = errors.New("store: graph has no store: set its Options.Store")
	// ErrCompacted is returned by [Store.Watch] when a sweep has removed changes after
	// the given version. Watch from version 0 instead.
	ErrCompacted = errors.New("store: changes after this version removed by a sweep: watch from version 0")
)

// InvalidError reports an invalid operation. It is returned before anything is read or
// written.
type InvalidError struct {
	What   string // the invalid part of the input, with its name
	Reason string // why it is invalid
}

func (e *InvalidError) Error() string { return "store: " + e.What + " " + e.Reason }

// ConflictError reports that an item does not have the version that a write of the
// batch requires. Nothing is written.
type ConflictError struct {
	Namespace Namespace
	Key       string
	Want      int64 // the required version; 0 means no item
	Have      int64 // the current version; 0 means no item
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("store: key %q in namespace %v is at version %d, not %d: read it again and retry",
		e.Key, e.Namespace, e.Have, e.Want)
}

// GoneError reports that a read of a branch, or of a past version, may need versions that
// have been removed from the history, so that it would return wrong items. A larger
// Options.History or HistoryAge keeps versions longer.
//
// A backend returns it for a batch with Until in two cases. The first is that a sweep has
// dropped the current record of a key (by the last rule of [Sweep]) with a Seq of at least
// Until. The second is that all records of a key to be read have a Seq of at least Until,
// and the oldest of them, which is not of kind Forgotten, follows or may follow another
// record: it is not a Put, or its Created differs from its Updated, or its Updated is before
// Limits.Before, or the key has at least Limits.Keep records. In the second case, a read
// with an empty prefix ignores the keys under [BranchRoot].
type GoneError struct {
	Version   int64     // the last version visible to the read
	Namespace Namespace // of the item; nil if unknown
	Key       string
}

func (e *GoneError) Error() string {
	of := "deleted items"
	if e.Namespace != nil {
		of = fmt.Sprintf("key %q in namespace %v", e.Key, e.Namespace)
	}
	return fmt.Sprintf("store: history of %s no longer reaches back to version %d: raise Options.History or HistoryAge, or discard the branch", of, e.Version)
}

// EmbedError reports that the embedder failed or returned invalid vectors. Nothing is
// written.
type EmbedError struct {
	Model string
	Err   error
}

func (e *EmbedError) Error() string { return fmt.Sprintf("store: embed with %s: %v", e.Model, e.Err) }

func (e *EmbedError) Unwrap() error { return e.Err }
