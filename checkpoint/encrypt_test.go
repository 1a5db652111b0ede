package checkpoint_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/checkpoint/checkpointtest"
)

func encryptionKey(id byte) checkpoint.EncryptionKey {
	return checkpoint.EncryptionKey{ID: id, Secret: bytes.Repeat([]byte{id}, 32)}
}

func encrypt(t *testing.T, s checkpoint.Saver, keys ...checkpoint.EncryptionKey) checkpoint.Saver {
	t.Helper()
	e, err := checkpoint.Encrypted(s, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEncryptedSaverIsASaver(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Saver {
		return encrypt(t, checkpoint.NewMemory(), encryptionKey(1))
	})
}

// Whatever is done, what was sealed is what was given.
func TestEncryptedSaverBehavesLikeMemory(t *testing.T) {
	checkpointtest.Differential(t, func(t *testing.T) func(testing.TB, int) checkpoint.Saver {
		t.Parallel()
		plain := checkpoint.NewMemory()
		return func(testing.TB, int) checkpoint.Saver { return encrypt(t, plain, encryptionKey(1)) }
	}, nil)
}

// secretPut is a checkpoint that has a secret in every place that holds data.
func secretPut() *checkpoint.Put {
	return &checkpoint.Put{
		Key:     checkpoint.Key{Thread: "t", ID: checkpoint.NewID(-1, checkpoint.ID{})},
		Control: []byte(`{"start":"secret"}`),
		Changes: []checkpoint.Change{
			{Channel: "value", Version: 1, Data: []byte(`"secret"`)},
			{Channel: "list", Version: 1, List: true, Items: [][]byte{[]byte(`"secret"`)}},
		},
		Pending: []checkpoint.Write{{Task: "a", Kind: checkpoint.Paused, Data: []byte(`"secret"`)}},
	}
}

func TestEncryptedSaverStoresNothingInTheClear(t *testing.T) {
	plain := checkpoint.NewMemory()
	sealed := encrypt(t, plain, encryptionKey(1))
	put := secretPut()
	if err := sealed.Put(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	done := []checkpoint.Write{{Task: "b", Kind: checkpoint.Done, Data: []byte(`"secret"`)}}
	if err := sealed.PutWrites(t.Context(), put.Key, 0, done); err != nil {
		t.Fatal(err)
	}
	stored, err := plain.Get(t.Context(), put.Key)
	if err != nil {
		t.Fatal(err)
	}
	all := [][]byte{stored.Control, stored.Values["value"].Data, stored.Values["list"].Items[0], stored.Pending[0].Data, stored.Pending[1].Data}
	for i, data := range all {
		if len(data) == 0 || bytes.Contains(data, []byte("secret")) {
			t.Errorf("place %d holds %q", i, data)
		}
	}
	opened, err := sealed.Get(t.Context(), put.Key)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(opened.Values["value"].Data) + string(opened.Values["list"].Items[0]) + string(opened.Control); got != `"secret""secret"{"start":"secret"}` {
		t.Errorf("opened: %s", got)
	}
}

func TestEncryptionKeysRotate(t *testing.T) {
	plain := checkpoint.NewMemory()
	put := secretPut()
	if err := encrypt(t, plain, encryptionKey(1)).Put(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	rotated := encrypt(t, plain, encryptionKey(2), encryptionKey(1))
	if _, err := rotated.Get(t.Context(), put.Key); err != nil {
		t.Errorf("the old key no longer opens: %v", err)
	}
	next := secretPut()
	next.Parent, next.Head = put.ID, put.ID
	next.ID = checkpoint.NewID(0, put.ID)
	if err := rotated.Put(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	_, err := encrypt(t, plain, encryptionKey(1)).Get(t.Context(), next.Key)
	if err == nil || !strings.Contains(err.Error(), "sealed with key 2, which was not given") {
		t.Errorf("a reader without the new key: %v", err)
	}
}

func TestEncryptedSaverRefusesWhatWasChanged(t *testing.T) {
	plain := checkpoint.NewMemory()
	sealed := encrypt(t, plain, encryptionKey(1))
	put := secretPut()
	if err := sealed.Put(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	stored, err := plain.Get(t.Context(), put.Key)
	if err != nil {
		t.Fatal(err)
	}
	// A sealed value moved to another channel does not open there.
	moved := &checkpoint.Put{Key: checkpoint.Key{Thread: "t", ID: checkpoint.NewID(0, put.ID)}, Parent: put.ID, Head: put.ID,
		Control: stored.Control, Changes: []checkpoint.Change{{Channel: "other", Version: 2, Data: stored.Values["value"].Data}}}
	if err := plain.Put(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	if _, err := sealed.Get(t.Context(), moved.Key); err == nil || !strings.Contains(err.Error(), "other: cannot be opened with key 1") {
		t.Errorf("a moved value: %v", err)
	}
}

func TestAnEncryptedSaverNeedsASaver(t *testing.T) {
	if _, err := checkpoint.Encrypted(nil, encryptionKey(1)); err == nil || !strings.Contains(err.Error(), "needs a saver") {
		t.Errorf("the error is %v", err)
	}
}

func TestEncryptionKeysAreChecked(t *testing.T) {
	for name, keys := range map[string][]checkpoint.EncryptionKey{
		"needs a key":                  nil,
		"two encryption keys have":     {encryptionKey(1), encryptionKey(1)},
		"encryption key 7: crypto/aes": {{ID: 7, Secret: []byte("short")}},
	} {
		if _, err := checkpoint.Encrypted(checkpoint.NewMemory(), keys...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error with %q, got %v", name, err)
		}
	}
}
