package store

import (
	"errors"
	"fmt"
)

// Errors of every store.
var (
	// ErrNotFound: there is no such item, or it has expired.
	ErrNotFound = errors.New("store: not found")
	// ErrNoStore is what a nil *Store answers: a node has asked for the store of a
	// graph that has none. Set Options.Store of the graph.
	ErrNoStore = errors.New("store: there is no store: set Options.Store of the graph")
	// ErrCompacted: the changes after the one asked for are not all there any
	// more; watch from the beginning instead. See [Store.Watch].
	ErrCompacted = errors.New("store: changes have been swept away")
)

// An InvalidError refuses an operation before anything is read or written.
type InvalidError struct {
	What   string // the part of the input, with its name
	Reason string // what is wrong with it
}

func (e *InvalidError) Error() string { return "store: " + e.What + " " + e.Reason }

// A ConflictError refuses a batch because an item is not at the version that a
// write of it was to replace. Nothing is written.
type ConflictError struct {
	Namespace Namespace
	Key       string
	Want      int64 // the version that the write named; 0: no item
	Have      int64 // the version there is; 0: no item
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("store: key %q in namespace %v is at version %d, the write was to replace version %d: get it again and retry",
		e.Key, e.Namespace, e.Have, e.Want)
}

// An EmbedError says that texts could not be embedded, or that what the embedder
// answered cannot be used. Nothing is written.
type EmbedError struct {
	Model string
	Err   error
}

func (e *EmbedError) Error() string { return fmt.Sprintf("store: embed by %s: %v", e.Model, e.Err) }

func (e *EmbedError) Unwrap() error { return e.Err }
