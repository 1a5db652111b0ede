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
	ErrNoStore = errors.New("store: there is no store: set Options.Store of the graph")
	// ErrCompacted is returned by [Store.Watch] when a sweep has removed changes after
	// the given version. Watch from version 0 instead.
	ErrCompacted = errors.New("store: a sweep has removed changes after this version: watch from version 0")
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
	return fmt.Sprintf("store: key %q in namespace %v is at version %d, the write was to replace version %d: get it again and retry",
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
// Limits.Before, or the key has at least Limits.Keep records.
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
	return fmt.Sprintf("store: the history of %s does not reach back to version %d any more: raise Options.History or HistoryAge, or discard the branch", of, e.Version)
}

// EmbedError reports that the embedder failed or returned invalid vectors. Nothing is
// written.
type EmbedError struct {
	Model string
	Err   error
}

func (e *EmbedError) Error() string { return fmt.Sprintf("store: embed by %s: %v", e.Model, e.Err) }

func (e *EmbedError) Unwrap() error { return e.Err }
