package memoryimport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/treadle-go/treadle/store"
)

// An Item is an item from another system, without its history.
type Item struct {
	Namespace        store.Namespace
	Key              string
	Value            json.RawMessage
	Meta             any       // optional
	Created, Updated time.Time // if one is zero, the other is used
	Expires          time.Time // zero means never
	TTL              time.Duration
}

// A Result is the outcome of adding an item.
type Result int

// Possible results.
const (
	Added    Result = iota
	Same            // the store contained the item already
	Conflict        // the item was changed or deleted in the store and is left unchanged
)

// Add adds an item with its timestamps. If the item has none, it gets the current time,
// unless the store already contains the same value. Add returns a *store.ImportError if
// the item is invalid.
func (it *Item) Add(ctx context.Context, s *store.Store) (Result, error) {
	if it.Created.IsZero() && it.Updated.IsZero() {
		old, err := s.Get(ctx, it.Namespace, it.Key, &store.GetOptions{NoRefresh: true})
		if err == nil && sameJSON(old.Value, it.Value) {
			return Same, nil
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return Added, err
		}
		it.Updated = time.Now()
	}
	file, err := it.export()
	if err != nil {
		return Added, err
	}
	r, err := s.Import(ctx, file)
	switch {
	case err != nil:
		return Added, err
	case len(r.Conflicts) > 0:
		return Conflict, nil
	case r.Versions > 0:
		return Added, nil
	}
	now, err := s.Get(ctx, it.Namespace, it.Key, &store.GetOptions{NoRefresh: true})
	switch {
	case errors.Is(err, store.ErrNotFound): // deleted since
		return Conflict, nil
	case err != nil:
		return Same, err
	case !sameJSON(now.Value, it.Value):
		return Conflict, nil
	}
	return Same, nil
}

// export returns a store export that contains only this item.
func (it *Item) export() (*bytes.Buffer, error) {
	created, updated := it.Created, it.Updated
	if updated.IsZero() {
		updated = created
	}
	if created.IsZero() || created.After(updated) { // an import must not invent an order of versions
		created = updated
	}
	line := map[string]any{
		"namespace": it.Namespace,
		"key":       it.Key,
		"kind":      store.Put,
		"created":   created,
		"updated":   updated,
		"value":     it.Value,
	}
	if it.Meta != nil {
		line["meta"] = it.Meta
	}
	if it.TTL > 0 {
		expires := it.Expires
		if expires.IsZero() {
			expires = updated.Add(it.TTL)
		}
		line["ttl_micros"], line["expires"] = it.TTL.Microseconds(), expires
	}
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	for _, v := range []any{map[string]any{"format": "treadle store", "version": 1}, line, map[string]int{"end": 1}} {
		if err := lines.Encode(v); err != nil {
			return nil, err
		}
	}
	return &b, nil
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
