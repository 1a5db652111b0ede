package store

import (
	"errors"
	"fmt"
)

// Errors of every store.
var (
	// ErrNotFound is returned if there is no such item, or it has expired.
	ErrNotFound = errors.New("store: not found")
	// ErrNoStore is returned by all methods of a nil *Store, which nodes of a graph
	// without a store get. Set Options.Store of the graph.
	ErrNoStore = errors.New("store: there is no store: set Options.Store of the graph")
	// ErrCompacted is returned by [Store.Watch] if changes after the given version have
	// been removed by a sweep. Watch from version 0 instead.
	ErrCompacted = errors.New("store: a sweep has removed changes after this version: watch from version 0")
)

// InvalidError is returned for an invalid operation, before anything is read or
// written.
type InvalidError struct {
	What   string // the part of the input, with its name
	Reason string // what is wrong with it
}

func (e *InvalidError) Error() string { return "store: " + e.What + " " + e.Reason }

// ConflictError is returned for a batch with a write that was to replace another
// version of an item than the current one. Nothing is written.
type ConflictError struct {
	Namespace Namespace
	Key       string
	Want      int64 // the version that the write was to replace; 0 means no item
	Have      int64 // the current version; 0 means no item
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("store: key %q in namespace %v is at version %d, the write was to replace version %d: get it again and retry",
		e.Key, e.Namespace, e.Have, e.Want)
}

// GoneError is returned for a read of a branch, or of a version of the past, if versions
// that it needs may have been removed from the history: it would return wrong items. A
// larger Options.History or HistoryAge keeps them longer.
//
// A backend returns it for a batch with Until if a sweep has dropped the current record of
// a key (by the last rule of [Sweep]) with a Seq of at least Until, or if there is a key
// among those that are read all of whose records have a Seq of at least Until, where the
// oldest of them, which is not of kind Forgotten, follows another one for certain or
// perhaps: it is not a Put, or its Created is not its Updated, or Updated is before
// Limits.Before, or there are at least Limits.Keep records of the key.
type GoneError struct {
	Version   int64     // the last version that the read was to see
	Namespace Namespace // of the item; nil if it is not known
	Key       string
}

func (e *GoneError) Error() string {
	of := "deleted items"
	if e.Namespace != nil {
		of = fmt.Sprintf("key %q in namespace %v", e.Key, e.Namespace)
	}
	return fmt.Sprintf("store: the history of %s does not reach back to version %d any more: raise Options.History or HistoryAge, or discard the branch", of, e.Version)
}

// EmbedError is returned if the embedder failed or returned invalid vectors.
// Nothing is written.
type EmbedError struct {
	Model string
	Err   error
}

func (e *EmbedError) Error() string { return fmt.Sprintf("store: embed by %s: %v", e.Model, e.Err) }

func (e *EmbedError) Unwrap() error { return e.Err }
