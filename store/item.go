package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// An Item is a value under a key. Callers may modify items that a store returns.
type Item struct {
	Namespace Namespace
	Key       string
	// Value is a JSON object without white space. Numbers retain all their digits.
	Value json.RawMessage
	// Meta is a JSON object with data about the value, such as its source, or nil. It
	// is not indexed, so queries do not search it; filters access it with [Meta].
	Meta json.RawMessage
	// Created is the time of the put that created the item. Updated is the time of the
	// put that created this version. Times are in UTC with microsecond precision.
	Created, Updated time.Time
	// Expires is the time when the item becomes invisible; zero means never. TTL is the
	// item's lifetime after it is put or read; 0 means forever.
	Expires time.Time
	TTL     time.Duration
	// Version is the number of the change that created this version. Numbers increase
	// with each change to the store and are never reused.
	Version int64
	// Score is the item's relevance to the query; higher is better. It is 0 without a
	// query. See [Ranking].
	Score float64
	// Explanation explains Score, if SearchOptions.Explain is set.
	Explanation *Explanation
}

// Decode unmarshals the value into v, like [json.Unmarshal].
func (i *Item) Decode(v any) error { return i.decode("value", i.Value, v) }

// DecodeMeta unmarshals Meta into v. If Meta is nil, it leaves v unchanged.
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

// Kind is the kind of a change.
type Kind string

// The kinds of changes.
const (
	Put       Kind = "put"
	Deleted   Kind = "deleted"
	Expired   Kind = "expired"   // a sweep removed an expired item
	Forgotten Kind = "forgotten" // removed together with its history
)

// A Change is a change to an item.
type Change struct {
	// Version is the number of the change; see Item.Version.
	Version int64
	Kind    Kind
	At      time.Time
	// Namespace and Key identify the item. If all items under a prefix were forgotten
	// together, Namespace is the prefix and Key is empty.
	Namespace Namespace
	Key       string
	// Item is the item that was put; nil for the other kinds.
	Item *Item
}
