package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle/store"
)

// Migrate returns the kind with a function that converts stored documents from an earlier
// shape of the type to the current one. The function is called whenever a document of the
// kind is read, so it must return documents of the current shape unchanged. The stored
// document keeps its old shape until it is next written. Its history is not changed.
//
// was lists earlier names of the type: documents of these kinds are read as documents of
// this kind. If migrate returns an error, the read fails with it.
func (k Kind) Migrate(migrate func(content json.RawMessage) (json.RawMessage, error), was ...string) Kind {
	if migrate == nil && k.err == nil {
		k.err = fmt.Errorf("memory: kind %s: nil migration function", k.name)
	}
	k.migrate, k.was = migrate, was
	return k
}

// migrated returns the kind and content of a document in the current shape of its kind.
func migrated(kinds []Kind, id, kind string, content json.RawMessage) (string, json.RawMessage, error) {
	i := slices.IndexFunc(kinds, func(k Kind) bool {
		return k.migrate != nil && kind != "" && (k.name == kind || slices.Contains(k.was, kind))
	})
	if i < 0 {
		return kind, content, nil
	}
	k := kinds[i]
	now, err := k.migrate(bytes.Clone(content))
	if v, decodeErr := decodeAny(now); err == nil && decodeErr != nil {
		err = decodeErr
	} else if _, ok := v.(map[string]any); err == nil && !ok {
		err = errors.New("migrated document is not a JSON object")
	}
	if err != nil {
		return kind, content, fmt.Errorf("memory: migrate document %q of kind %s: %w", id, kind, err)
	}
	return k.name, now, nil
}

// migrateItems converts items to the current shapes of their kinds. Items without a kind
// are treated as kind unnamed, if it is not empty.
func migrateItems(kinds []Kind, unnamed string, items ...*store.Item) error {
	if !slices.ContainsFunc(kinds, func(k Kind) bool { return k.migrate != nil }) {
		return nil
	}
	for _, item := range items {
		if item == nil {
			continue
		}
		d, wrap := readItem(item)
		was := d.Kind
		if was == "" {
			was = unnamed
		}
		kind, content, err := migrated(kinds, item.Key, was, d.Content)
		if err != nil {
			return err
		}
		if kind == was && sameJSON(content, d.Content) {
			continue
		}
		value := wrap(content)
		if kind != was {
			value = valueWith(item, &kind, content)
		}
		if item.Value, err = encodeAny(value); err != nil {
			return err
		}
	}
	return nil
}

// migrateDocuments returns the documents in the current shapes of their kinds.
func migrateDocuments(kinds []Kind, documents []Document) ([]Document, error) {
	out := slices.Clone(documents)
	for i := range out {
		var err error
		if out[i].Kind, out[i].Content, err = migrated(kinds, out[i].ID, out[i].Kind, out[i].Content); err != nil {
			return nil, err
		}
	}
	return out, nil
}
