package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// An Item is what is kept under a key. What a store returns is the caller's own.
type Item struct {
	Namespace Namespace
	Key       string
	// Value is a JSON object, compact, otherwise as it was put: numbers keep
	// all their digits.
	Value json.RawMessage
	// Meta is a JSON object beside the value, or nil: where it came from, how
	// sure one is. It is never indexed, so it influences no search by query; a
	// filter sees it through [Meta].
	Meta json.RawMessage
	// Created is when the key was first put, or first put again after it was
	// deleted or had expired; Updated is when this version was put. Times are
	// UTC, to the microsecond.
	Created, Updated time.Time
	// Expires is when the item becomes invisible; zero if never. TTL is how long it
	// lives from when it is put or read; 0 if for ever.
	Expires time.Time
	TTL     time.Duration
	// Version is the number of the change that made this version. Numbers grow
	// with each change of the store and are never used again.
	Version int64
	// Score says how well the item answers a query: more is better. It is 0
	// without a query. See [Ranking].
	Score float64
	// Explanation tells where Score comes from, if it was asked for.
	Explanation *Explanation
}

// Decode reads the value into v, as encoding/json does.
func (i *Item) Decode(v any) error { return i.decode("value", i.Value, v) }

// DecodeMeta reads Meta into v. Without Meta it leaves v as it is.
func (i *Item) DecodeMeta(v any) error {
	if i.Meta == nil {
		return nil
	}
	return i.decode("meta", i.Meta, v)
}

func (i *Item) decode(what string, raw json.RawMessage, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("store: %s of key %q in namespace %v: %w", what, i.Key, i.Namespace, err)
	}
	return nil
}

// A Kind says what a change did.
type Kind string

// The kinds of changes.
const (
	Put       Kind = "put"
	Deleted   Kind = "deleted"
	Expired   Kind = "expired"   // its time was up and a sweep has removed it
	Forgotten Kind = "forgotten" // removed with its history
)

// A Change is one event in the life of a store.
type Change struct {
	// Version numbers the change; see Item.Version.
	Version int64
	Kind    Kind
	At      time.Time
	// Namespace and Key say what was changed. When all items under a prefix
	// were forgotten at once, Namespace is the prefix and Key is empty.
	Namespace Namespace
	Key       string
	// Item is what was put; nil for the other kinds.
	Item *Item
}
