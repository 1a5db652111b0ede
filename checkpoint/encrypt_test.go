package checkpoint_test

import (
	"bytes"
	"context"
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

func TestEncryptedSaverPassesSuite(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Saver {
		return encrypt(t, checkpoint.NewMemory(), encryptionKey(1))
	})
}

// Random operations give the same results with and without encryption.
func TestEncryptedSaverMatchesMemory(t *testing.T) {
	checkpointtest.Differential(t, func(t *testing.T) func(testing.TB, int) checkpoint.Saver {
		t.Parallel()
		plain := checkpoint.NewMemory()
		return func(testing.TB, int) checkpoint.Saver { return encrypt(t, plain, encryptionKey(1)) }
	}, nil)
}

// secretPut returns a checkpoint with a secret in every place that contains
// data.
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

func TestEncryptedSaverWritesNoPlaintext(t *testing.T) {
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
			t.Errorf("place %d contains %q", i, data)
		}
	}
	opened, err := sealed.Get(t.Context(), put.Key)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(opened.Values["value"].Data) + string(opened.Values["list"].Items[0]) + string(opened.Control); got != `"secret""secret"{"start":"secret"}` {
		t.Errorf("decrypted: %s", got)
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
		t.Errorf("reading with the old key: %v", err)
	}
	next := secretPut()
	next.Parent, next.Head = put.ID, put.ID
	next.ID = checkpoint.NewID(0, put.ID)
	if err := rotated.Put(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	_, err := encrypt(t, plain, encryptionKey(1)).Get(t.Context(), next.Key)
	if err == nil || !strings.Contains(err.Error(), "encrypted with missing key 2") {
		t.Errorf("reading without the new key: %v", err)
	}
}

// Encrypted data can be decrypted only in its own place.
func TestEncryptedSaverRejectsMovedData(t *testing.T) {
	ctx := t.Context()
	plain := checkpoint.NewMemory()
	sealed := encrypt(t, plain, encryptionKey(1))
	put := func(thread, namespace, value string) *checkpoint.Checkpoint {
		t.Helper()
		p := secretPut()
		p.Thread, p.Namespace = thread, namespace
		p.Changes[0].Data = []byte(value)
		p.Pending = append(p.Pending, checkpoint.Write{Task: "a", Kind: checkpoint.Answers, Data: []byte(value)})
		if err := sealed.Put(ctx, p); err != nil {
			t.Fatal(err)
		}
		next := &checkpoint.Put{Key: checkpoint.Key{Thread: thread, Namespace: namespace, ID: checkpoint.NewID(0, p.ID)}, Parent: p.ID, Head: p.ID, Control: []byte("{}"),
			Changes: []checkpoint.Change{{Channel: "value", Version: 2, Data: []byte("newer")}}}
		if err := sealed.Put(ctx, next); err != nil {
			t.Fatal(err)
		}
		stored, err := plain.Get(ctx, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		return stored
	}
	mallory, nested := put("mallory", "", "mallory's"), put("alice", "ns", "nested")
	alice := put("alice", "", "alice's")
	value := func(channel string, version uint64, data []byte) func(*checkpoint.Checkpoint) {
		return func(c *checkpoint.Checkpoint) {
			c.Values = map[string]checkpoint.Value{channel: {Version: version, Data: data}}
		}
	}
	item := func(data []byte) func(*checkpoint.Checkpoint) {
		return func(c *checkpoint.Checkpoint) {
			c.Values = map[string]checkpoint.Value{"list": {Version: 1, List: true, Items: [][]byte{data}}}
		}
	}
	write := func(w checkpoint.Write, edit func(*checkpoint.Write)) func(*checkpoint.Checkpoint) {
		edit(&w)
		return func(c *checkpoint.Checkpoint) { c.Pending = []checkpoint.Write{w} }
	}
	same := func(*checkpoint.Write) {}
	for _, test := range []struct {
		name  string
		edit  func(*checkpoint.Checkpoint)
		fails string
	}{
		{"no change", func(*checkpoint.Checkpoint) {}, ""},
		{"value of another thread", value("value", 1, mallory.Values["value"].Data), "value: cannot be decrypted"},
		{"value of another namespace", value("value", 1, nested.Values["value"].Data), "value: cannot be decrypted"},
		{"value of another channel", value("other", 1, alice.Values["value"].Data), "other: cannot be decrypted"},
		{"older value as a newer one", value("value", 2, alice.Values["value"].Data), "value: cannot be decrypted"},
		{"element as a value", value("list", 1, alice.Values["list"].Items[0]), "list: cannot be decrypted"},
		{"element of another thread", item(mallory.Values["list"].Items[0]), "list: cannot be decrypted"},
		{"element of another namespace", item(nested.Values["list"].Items[0]), "list: cannot be decrypted"},
		{"answer of another thread", write(mallory.Pending[1], same), `resume of task "a": cannot be decrypted`},
		{"answer of another task", write(alice.Pending[1], func(w *checkpoint.Write) { w.Task = "b" }), `resume of task "b": cannot be decrypted`},
		{"answer as a result", write(alice.Pending[1], func(w *checkpoint.Write) { w.Kind = checkpoint.Done }), `done of task "a": cannot be decrypted`},
		{"answer of another run", write(alice.Pending[1], func(w *checkpoint.Write) { w.RunID = "run" }), `resume of task "a": cannot be decrypted`},
		{"control of another thread", func(c *checkpoint.Checkpoint) { c.Control = mallory.Control }, "control: cannot be decrypted"},
		{"no control", func(c *checkpoint.Checkpoint) { c.Control = nil }, "control: not encrypted"},
		{"empty value", value("value", 1, []byte{}), "value: not encrypted"},
		{"plaintext value", value("value", 1, []byte(`"alice's"`)), "value: not encrypted"},
		{"changed value", value("value", 1, append(bytes.Clone(alice.Values["value"].Data[:40]), 0)), "value: cannot be decrypted"},
	} {
		_, err := encrypt(t, edited{plain, alice.ID, test.edit}, encryptionKey(1)).Get(ctx, alice.Key)
		switch {
		case test.fails == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)):
			t.Errorf("%s: got error %v, want %q", test.name, err, test.fails)
		}
	}
}

// edited is a saver whose database an attacker has changed.
type edited struct {
	checkpoint.Saver
	id   checkpoint.ID
	edit func(*checkpoint.Checkpoint)
}

// Get returns the changed checkpoint.
func (e edited) Get(ctx context.Context, key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	c, err := e.Saver.Get(ctx, key)
	if err == nil && c.ID == e.id {
		e.edit(c)
	}
	return c, err
}

func TestEncryptedRequiresSaver(t *testing.T) {
	if _, err := checkpoint.Encrypted(nil, encryptionKey(1)); err == nil || !strings.Contains(err.Error(), "requires a saver") {
		t.Errorf("got error %v", err)
	}
}

func TestEncryptionKeysAreChecked(t *testing.T) {
	for name, keys := range map[string][]checkpoint.EncryptionKey{
		"requires a key":               nil,
		"duplicate encryption key":     {encryptionKey(1), encryptionKey(1)},
		"encryption key 7: crypto/aes": {{ID: 7, Secret: []byte("short")}},
	} {
		if _, err := checkpoint.Encrypted(checkpoint.NewMemory(), keys...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got error %v, want %q", err, name)
		}
	}
}
