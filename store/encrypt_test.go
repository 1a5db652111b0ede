package store_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

func storeKey(id byte) checkpoint.EncryptionKey {
	return checkpoint.EncryptionKey{ID: id, Secret: bytes.Repeat([]byte{id}, 32)}
}

func sealedBackend(t *testing.T, b store.Backend, keys ...checkpoint.EncryptionKey) store.Backend {
	t.Helper()
	e, err := store.Encrypted(b, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEncryptedStorePassesSuite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Backend { return sealedBackend(t, store.NewMemoryBackend(), storeKey(1)) })
}

// Random operations give the same results with and without encryption.
func TestEncryptedStoreMatchesMemory(t *testing.T) {
	storetest.Differential(t, func(t *testing.T) store.Backend { return sealedBackend(t, store.NewMemoryBackend(), storeKey(1)) })
}

// writes records the batches that a backend receives.
type writes struct {
	store.Backend
	all []store.Write
}

func (w *writes) Do(ctx context.Context, b *store.Batch) (*store.Results, error) {
	w.all = append(w.all, b.Writes...)
	return w.Backend.Do(ctx, b)
}

func TestEncryptedStoreWritesNoPlaintext(t *testing.T) {
	inner := &writes{Backend: store.NewMemoryBackend()}
	s, err := store.New(inner, &store.Options{Keys: []checkpoint.EncryptionKey{storeKey(1)}})
	if err != nil {
		t.Fatal(err)
	}
	n := store.Namespace{"n"}
	if err := s.Put(t.Context(), n, "k", map[string]any{"hidden": "secret words"}, &store.PutOptions{Meta: map[string]string{"m": "secret"}, Index: []string{"hidden"}}); err != nil {
		t.Fatal(err)
	}
	for _, w := range inner.all {
		kept := string(w.Value) + string(w.Meta) + w.Indexed.Paths
		for _, term := range w.Indexed.Terms {
			kept += term.Text
		}
		for _, word := range []string{"secret", "words", "hidden"} {
			if strings.Contains(kept, word) {
				t.Errorf("backend received %q in %s", word, kept)
			}
		}
	}
	found, err := s.Search(t.Context(), n, &store.SearchOptions{Query: "words", Filter: store.Eq("hidden", "secret words"), Explain: true})
	if err != nil || len(found) != 1 || len(found[0].Explanation.Terms) != 1 || found[0].Explanation.Terms[0] != "words" {
		t.Errorf("found %v, %v", found, err)
	}
}

// Items can be counted and forgotten without the key. The backend need not be a
// Counter.
func TestEncryptedStoreCountsWithoutKey(t *testing.T) {
	inner := &writes{Backend: store.NewMemoryBackend()}
	open := func(id byte) *store.Store {
		s, err := store.New(inner, &store.Options{Keys: []checkpoint.EncryptionKey{storeKey(id)}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	n := store.Namespace{"n"}
	for _, key := range []string{"a", "b", "a"} {
		if err := open(1).Put(t.Context(), n, key, map[string]string{"v": "x"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	other := open(2)
	if items, changes, err := other.Count(t.Context(), n); items != 2 || changes != 3 || err != nil {
		t.Errorf("counted %d items and %d changes, %v", items, changes, err)
	}
	if err := other.ForgetAll(t.Context(), n); err != nil {
		t.Error(err)
	}
	if items, changes, err := other.Count(t.Context(), n); items+changes != 0 || err != nil {
		t.Errorf("after forgetting: %d items and %d changes, %v", items, changes, err)
	}
}

// Encrypted data can be decrypted only under its own namespace and key.
func TestEncryptedStoreRejectsMovedData(t *testing.T) {
	inner := &writes{Backend: store.NewMemoryBackend()}
	sealed, err := store.New(inner, &store.Options{Keys: []checkpoint.EncryptionKey{storeKey(1)}})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := store.New(inner.Backend, nil)
	if err != nil {
		t.Fatal(err)
	}
	alice, mallory := store.Namespace{"alice"}, store.Namespace{"mallory"}
	meta := &store.PutOptions{Meta: map[string]string{"m": "x"}}
	if err := sealed.Put(t.Context(), mallory, "k", map[string]string{"a": "b"}, meta); err != nil {
		t.Fatal(err)
	}
	raw, err := plain.Get(t.Context(), mallory, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		n           store.Namespace
		key         string
		value, meta any
		want        string
	}{
		"another namespace": {alice, "k", raw.Value, nil, `value of key "k" in namespace ["alice"] was encrypted for another item`},
		"another key":       {mallory, "l", raw.Value, nil, `value of key "l" in namespace ["mallory"] was encrypted for another item`},
		"meta as a value":   {mallory, "k", raw.Meta, nil, "was encrypted for another item"},
		"a value as meta":   {mallory, "k", raw.Value, raw.Value, `meta of key "k"`},
		"in the clear":      {alice, "c", map[string]string{"a": "b"}, nil, "is not encrypted: stored without keys"},
		"changed":           {alice, "d", map[string]string{"sealed": "AAAA"}, nil, "is encrypted with missing key 0"},
	} {
		var o store.PutOptions
		if c.meta != nil {
			o.Meta = c.meta
		}
		if err := plain.Put(t.Context(), c.n, c.key, c.value, &o); err != nil {
			t.Fatal(err)
		}
		_, err := sealed.Get(t.Context(), c.n, c.key, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", name, err, c.want)
		}
		if _, err := sealed.Search(t.Context(), c.n, &store.SearchOptions{Filter: store.Ne("a", "zzz")}); err == nil {
			t.Errorf("%s: search skipped the item", name)
		}
	}
}

func TestStoreKeysRotate(t *testing.T) {
	backend := store.NewMemoryBackend()
	open := func(keys ...checkpoint.EncryptionKey) *store.Store {
		t.Helper()
		s, err := store.New(backend, &store.Options{Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	n := store.Namespace{"n"}
	if err := open(storeKey(1)).Put(t.Context(), n, "old", map[string]string{"t": "an owl"}, &store.PutOptions{Index: []string{"t"}}); err != nil {
		t.Fatal(err)
	}
	rotated := open(storeKey(2), storeKey(1))
	if err := rotated.Put(t.Context(), n, "new", map[string]string{"t": "another owl"}, nil); err != nil {
		t.Fatal(err)
	}
	found, err := rotated.Search(t.Context(), n, &store.SearchOptions{Query: "owl"})
	if err != nil || len(found) != 2 {
		t.Errorf("found %d items, %v; want the items of both keys", len(found), err)
	}
	if _, err := open(storeKey(2)).Get(t.Context(), n, "old", nil); err == nil || !strings.Contains(err.Error(), "is encrypted with missing key 1") {
		t.Errorf("without the old key: %v", err)
	}
}

func TestStoreKeysAreChecked(t *testing.T) {
	for want, keys := range map[string][]checkpoint.EncryptionKey{
		"has two keys with ID 1": {storeKey(1), storeKey(1)},
		"has invalid key 7:":     {{ID: 7, Secret: []byte("short")}},
	} {
		var invalid *store.InvalidError
		if _, err := store.NewMemory(&store.Options{Keys: keys}); !errors.As(err, &invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	if _, err := store.Encrypted(store.NewMemoryBackend()); err == nil || !strings.Contains(err.Error(), "requires a key") {
		t.Errorf("without keys: %v", err)
	}
	if _, err := store.Encrypted(nil, storeKey(1)); err == nil || !strings.Contains(err.Error(), "backend is nil") {
		t.Errorf("without a backend: %v", err)
	}
}
