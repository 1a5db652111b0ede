package checkpoint

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"
)

// EncryptionKey is a key of an encrypted saver. ID is stored with the data that the key
// encrypts. Secret must be 16, 24, or 32 bytes long.
type EncryptionKey struct {
	ID     byte
	Secret []byte
}

// Encrypted wraps a saver so that it stores only encrypted values. Every value, list element,
// and pending write, and the control data, is encrypted with AES-GCM. IDs, steps, metadata,
// sizes, and the names of channels, tasks, threads, and namespaces are not encrypted, so that
// the saver can list and filter.
//
// An attacker who can write to the database but lacks the key can neither forge data nor
// move it to another place; reading such data returns an error. Data is bound to its place as
// follows. A lineage consists of a first checkpoint, which has no parent, and all its
// descendants, including forks and copies of the thread.
//
//   - a value: to its lineage, namespace, channel, and version
//   - a list element: to its lineage, namespace, and channel
//   - a pending write: to its checkpoint, task, kind, and run
//   - the control data: to its checkpoint
//
// An attacker can still remove checkpoints and pending writes, make an older checkpoint the
// head, remove or reorder elements of one list, and replace a thread with a copy of another.
//
// The first key encrypts; all keys decrypt. To rotate keys, put the new key first and keep
// the old ones for as long as old checkpoints are kept.
func Encrypted(s Saver, keys ...EncryptionKey) (Saver, error) {
	switch {
	case s == nil:
		return nil, errors.New("checkpoint: Encrypted requires a saver")
	case len(keys) == 0:
		return nil, errors.New("checkpoint: Encrypted requires a key")
	}
	e := &encrypted{inner: s, seal: keys[0].ID, aead: map[byte]cipher.AEAD{}, lines: map[Key]lineage{}}
	for _, k := range keys {
		if e.aead[k.ID] != nil {
			return nil, fmt.Errorf("checkpoint: duplicate encryption key ID %d", k.ID)
		}
		block, err := aes.NewCipher(k.Secret)
		if err != nil {
			return nil, fmt.Errorf("checkpoint: encryption key %d: %w", k.ID, err)
		}
		if e.aead[k.ID], err = cipher.NewGCM(block); err != nil {
			return nil, fmt.Errorf("checkpoint: encryption key %d: %w", k.ID, err)
		}
	}
	return e, nil
}

// Encrypter is a Saver that may encrypt what it saves, such as the one that [Encrypted] returns. A
// server does not copy texts of encrypted threads to its own tables.
type Encrypter interface {
	Saver
	// Encrypts reports whether the values of checkpoints are encrypted.
	Encrypts() bool
}

// Encrypts implements [Encrypter].
func (e *encrypted) Encrypts() bool { return true }

// encrypted is the saver that Encrypted returns.
type encrypted struct {
	inner Saver
	seal  byte // ID of the encrypting key
	aead  map[byte]cipher.AEAD

	mu    sync.Mutex
	lines map[Key]lineage // lineages of recently saved or read checkpoints
}

// A lineage identifies a first checkpoint and its descendants. It is random, created
// with the first checkpoint, and stored in the control data of each.
type lineage [16]byte

// maxLines is the maximum number of cached lineages.
const maxLines = 4096

func (e *encrypted) remember(k Key, l lineage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.lines) >= maxLines {
		clear(e.lines) // they can be read again
	}
	e.lines[k] = l
}

// sealedMark precedes sealed data; see close. It contains the number of the format.
const sealedMark = "\xffTE1"

// A place identifies the location that sealed data is bound to.
type place []byte

// placeOf encodes the parts of a place so that different parts never encode alike.
func placeOf(parts ...string) place {
	b := []byte("treadle/1")
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}

func (l lineage) value(k Key, channel string, version uint64) place {
	return placeOf("value", string(l[:]), k.Namespace, channel, strconv.FormatUint(version, 10))
}

func (l lineage) item(k Key, channel string) place {
	return placeOf("item", string(l[:]), k.Namespace, channel)
}

func placeOfControl(k Key) place { return placeOf("control", k.Namespace, string(k.ID[:])) }

func placeOfWrite(k Key, w *Write) place {
	return placeOf("write", k.Namespace, string(k.ID[:]), w.Task, string(w.Kind), w.RunID)
}

// close seals data. The result is the mark, the key ID, a nonce, and the sealed bytes.
func (e *encrypted) close(at place, data []byte) []byte {
	if data == nil {
		return nil
	}
	aead := e.aead[e.seal]
	head := len(sealedMark) + 1
	out := make([]byte, head+aead.NonceSize(), head+aead.NonceSize()+len(data)+aead.Overhead())
	copy(out, sealedMark)
	out[head-1] = e.seal
	_, _ = rand.Read(out[head:]) // never fails
	return aead.Seal(out, out[head:], data, at)
}

// open returns the data sealed at a place. name identifies the place in errors.
func (e *encrypted) open(at place, name string, sealed []byte) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	rest, ok := bytes.CutPrefix(sealed, []byte(sealedMark))
	if !ok || len(rest) == 0 {
		return nil, notEncrypted(name)
	}
	id, rest := rest[0], rest[1:]
	aead := e.aead[id]
	if aead == nil {
		return nil, fmt.Errorf("checkpoint: %s: encrypted with missing key %d: add it to the keys", name, id)
	}
	if len(rest) < aead.NonceSize() {
		return nil, fmt.Errorf("checkpoint: %s: encrypted data truncated", name)
	}
	data, err := aead.Open([]byte{}, rest[:aead.NonceSize()], rest[aead.NonceSize():], at)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %s: cannot be decrypted with key %d: modified or moved: %w", name, id, err)
	}
	return data, nil
}

func notEncrypted(name string) error {
	return fmt.Errorf("checkpoint: %s: not encrypted: saved without encryption", name)
}

func (e *encrypted) closeWrites(at Key, ws []Write) []Write {
	out := make([]Write, len(ws))
	for i, w := range ws {
		out[i] = w
		out[i].Data = e.close(placeOfWrite(at, &w), w.Data)
	}
	return out
}

// closeControl seals the control data together with the lineage. It preserves nil
// control data.
func (e *encrypted) closeControl(at Key, l lineage, control []byte) []byte {
	data := append(make([]byte, 0, len(l)+1+len(control)), l[:]...)
	if control != nil {
		data = append(append(data, 1), control...)
	}
	return e.close(placeOfControl(at), data)
}

func (e *encrypted) openControl(at Key, sealed []byte) (l lineage, control []byte, err error) {
	if sealed == nil {
		return l, nil, notEncrypted("control")
	}
	data, err := e.open(placeOfControl(at), "control", sealed)
	if err != nil {
		return l, nil, err
	}
	if len(data) < len(l) {
		return l, nil, errors.New("checkpoint: control: encrypted data truncated")
	}
	copy(l[:], data)
	data = data[len(l):]
	if len(data) > 0 {
		control = data[1:]
	}
	return l, control, nil
}

// lineageOf returns the lineage of p's parent, or a new lineage if there is none.
func (e *encrypted) lineageOf(ctx context.Context, p *Put) (l lineage, err error) {
	if p.Parent.IsZero() {
		_, _ = rand.Read(l[:]) // never fails
		return l, nil
	}
	parent := Key{Thread: p.Thread, Namespace: p.Namespace, ID: p.Parent}
	e.mu.Lock()
	l, ok := e.lines[parent]
	e.mu.Unlock()
	if ok {
		return l, nil
	}
	cp, err := e.inner.Get(ctx, parent)
	if errors.Is(err, ErrNotFound) {
		return l, nil // Put will report it
	}
	if err == nil {
		l, _, err = e.openControl(parent, cp.Control)
	}
	if err != nil {
		return l, fmt.Errorf("thread %q, %s: %w", p.Thread, p.Parent, err)
	}
	return l, nil
}

// Put implements [Saver].
func (e *encrypted) Put(ctx context.Context, p *Put) error {
	l, err := e.lineageOf(ctx, p)
	if err != nil {
		return err
	}
	sealed := *p
	sealed.Control = e.closeControl(p.Key, l, p.Control)
	sealed.Pending = e.closeWrites(p.Key, p.Pending)
	sealed.Changes = make([]Change, len(p.Changes))
	for i, c := range p.Changes {
		if c.Data != nil {
			c.Data = e.close(l.value(p.Key, c.Channel, c.Version), c.Data)
		}
		items := make([][]byte, len(c.Items))
		for j, item := range c.Items {
			if item == nil {
				item = []byte{} // an empty element is still an element, and savers return it as empty
			}
			items[j] = e.close(l.item(p.Key, c.Channel), item)
		}
		c.Items = items
		sealed.Changes[i] = c
	}
	if err := e.inner.Put(ctx, &sealed); err != nil {
		return err
	}
	e.remember(p.Key, l)
	return nil
}

// PutWrites implements [Saver].
func (e *encrypted) PutWrites(ctx context.Context, at Key, fence uint64, ws []Write) error {
	if at.ID.IsZero() { // bind the writes to the current head
		head, err := e.inner.Get(ctx, at)
		if err != nil {
			return err
		}
		at.ID = head.ID
	}
	return e.inner.PutWrites(ctx, at, fence, e.closeWrites(at, ws))
}

// Get implements [Saver].
func (e *encrypted) Get(ctx context.Context, key Key) (*Checkpoint, error) {
	c, err := e.inner.Get(ctx, key)
	if err == nil {
		err = e.openAll(c)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// List implements [Saver].
func (e *encrypted) List(ctx context.Context, q Query) iter.Seq2[*Checkpoint, error] {
	return func(yield func(*Checkpoint, error) bool) {
		for c, err := range e.inner.List(ctx, q) {
			if err == nil {
				err = e.openAll(c)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

func (e *encrypted) openAll(c *Checkpoint) (err error) {
	where := func(err error) error { return fmt.Errorf("thread %q, %s: %w", c.Thread, c.ID, err) }
	l, control, err := e.openControl(c.Key, c.Control)
	if err != nil {
		return where(err)
	}
	c.Control = control
	for i := range c.Pending {
		w := &c.Pending[i]
		if w.Data, err = e.open(placeOfWrite(c.Key, w), fmt.Sprintf("%s of task %q", w.Kind, w.Task), w.Data); err != nil {
			return where(err)
		}
	}
	for name, v := range c.Values {
		if v.Data != nil {
			if v.Data, err = e.open(l.value(c.Key, name, v.Version), name, v.Data); err != nil {
				return where(err)
			}
		}
		at := l.item(c.Key, name)
		for i := range v.Items {
			if v.Items[i], err = e.open(at, name, v.Items[i]); err != nil {
				return where(err)
			}
		}
		c.Values[name] = v
	}
	e.remember(c.Key, l)
	return nil
}

// DeleteThread implements [Saver].
func (e *encrypted) DeleteThread(ctx context.Context, thread string) error {
	return e.inner.DeleteThread(ctx, thread)
}

// cannot returns an error for an ability that the wrapped saver lacks.
func (e *encrypted) cannot(what string) error {
	return fmt.Errorf("checkpoint: %T cannot %s", e.inner, what)
}

// Prune implements [Pruner].
func (e *encrypted) Prune(ctx context.Context, thread string, keep Retention) (int, error) {
	if s, ok := e.inner.(Pruner); ok {
		return s.Prune(ctx, thread, keep)
	}
	return 0, e.cannot("prune")
}

// CopyThread implements [Copier].
func (e *encrypted) CopyThread(ctx context.Context, from, to string) error {
	if s, ok := e.inner.(Copier); ok {
		return s.CopyThread(ctx, from, to)
	}
	return e.cannot("copy threads")
}

// DeleteRuns implements [RunDeleter].
func (e *encrypted) DeleteRuns(ctx context.Context, thread string, runs []string) (int, error) {
	if s, ok := e.inner.(RunDeleter); ok {
		return s.DeleteRuns(ctx, thread, runs)
	}
	return 0, e.cannot("delete runs")
}

// Size implements [Sizer].
func (e *encrypted) Size(ctx context.Context, thread string) (int64, error) {
	if s, ok := e.inner.(Sizer); ok {
		return s.Size(ctx, thread)
	}
	return 0, e.cannot("report sizes")
}

// Threads implements [ThreadLister].
func (e *encrypted) Threads(ctx context.Context) iter.Seq2[Thread, error] {
	if s, ok := e.inner.(ThreadLister); ok {
		return s.Threads(ctx)
	}
	return func(yield func(Thread, error) bool) { yield(Thread{}, e.cannot("list threads")) }
}

// Fence implements [Fencer].
func (e *encrypted) Fence(ctx context.Context, thread string, epoch uint64) error {
	if s, ok := e.inner.(Fencer); ok {
		return s.Fence(ctx, thread, epoch)
	}
	return e.cannot("fence")
}

// Scrub implements [Scrubber].
func (e *encrypted) Scrub(ctx context.Context) error {
	if s, ok := e.inner.(Scrubber); ok {
		return s.Scrub(ctx)
	}
	return e.cannot("scrub")
}
