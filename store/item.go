package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// Item is a value under a key. Callers may change an item that a store has
// returned.
type Item struct {
	Namespace Namespace
	Key       string
	// Value is a JSON object without white space. Numbers keep all their digits.
	Value json.RawMessage
	// Meta is a JSON object with data about the value, such as its source, or nil. It is
	// not indexed, so queries do not find it; filters reach it through [Meta].
	Meta json.RawMessage
	// Created is the time of the first put since the key had no item. Updated is the time
	// of the put of this version. Times are in UTC, to the microsecond.
	Created, Updated time.Time
	// Expires is the time at which the item becomes invisible; zero means never. TTL is
	// how long it lives after it was put or read; 0 means forever.
	Expires time.Time
	TTL     time.Duration
	// Version is the number of the change that made this version. Numbers grow with each
	// change of the store and are not reused.
	Version int64
	// Score is how well the item fits a query; higher is better. It is 0 without a query.
	// See [Ranking].
	Score float64
	// Explanation explains Score, if SearchOptions.Explain is set.
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

// Kind is the kind of a change.
type Kind string

// The kinds of changes.
const (
	Put       Kind = "put"
	Deleted   Kind = "deleted"
	Expired   Kind = "expired"   // a sweep has removed an expired item
	Forgotten Kind = "forgotten" // removed together with its history
)

// Change is a change of an item.
type Change struct {
	// Version is the number of the change; see Item.Version.
	Version int64
	Kind    Kind
	At      time.Time
	// Namespace and Key are those of the item. If all items under a prefix were forgotten
	// at once, Namespace is the prefix and Key is empty.
	Namespace Namespace
	Key       string
	// Item is the item that was put; nil for the other kinds.
	Item *Item
}
