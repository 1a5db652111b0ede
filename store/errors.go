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

// EmbedError is returned if the embedder failed or returned invalid vectors.
// Nothing is written.
type EmbedError struct {
	Model string
	Err   error
}

func (e *EmbedError) Error() string { return fmt.Sprintf("store: embed by %s: %v", e.Model, e.Err) }

func (e *EmbedError) Unwrap() error { return e.Err }
