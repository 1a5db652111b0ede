package checkpoint

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
)

// EncryptionKey is a key of an encrypted saver. ID is stored beside what the key
// sealed, so that it can be found again; Secret is 16, 24 or 32 bytes.
type EncryptionKey struct {
	ID     byte
	Secret []byte
}

// Encrypted wraps a saver so that it stores sealed values only: every value,
// list element, pending write and the control data are encrypted with AES-GCM,
// each by itself, and bound to the name of their channel. Ids, steps, metadata,
// names of channels, threads and namespaces stay readable, so that listing and
// filtering work below.
//
// The first key seals; all of them open. To rotate, put the new key first and
// keep the old ones for as long as old checkpoints are kept.
func Encrypted(s Saver, keys ...EncryptionKey) (Saver, error) {
	switch {
	case s == nil:
		return nil, errors.New("checkpoint: an encrypted saver needs a saver to store in")
	case len(keys) == 0:
		return nil, errors.New("checkpoint: an encrypted saver needs a key")
	}
	e := &encrypted{inner: s, seal: keys[0].ID, aead: map[byte]cipher.AEAD{}}
	for _, k := range keys {
		if e.aead[k.ID] != nil {
			return nil, fmt.Errorf("checkpoint: two encryption keys have the id %d", k.ID)
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

// encrypted is the saver that Encrypted returns.
type encrypted struct {
	inner Saver
	seal  byte // the id of the key that seals
	aead  map[byte]cipher.AEAD
}

// close seals data: the key's id, a nonce, the sealed bytes. The label binds it
// to its place.
func (e *encrypted) close(label string, data []byte) []byte {
	if data == nil {
		return nil
	}
	aead := e.aead[e.seal]
	out := make([]byte, 1+aead.NonceSize(), 1+aead.NonceSize()+len(data)+aead.Overhead())
	out[0] = e.seal
	_, _ = rand.Read(out[1:]) // never fails
	return aead.Seal(out, out[1:], data, []byte(label))
}

func (e *encrypted) open(label string, sealed []byte) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	if len(sealed) == 0 {
		return nil, fmt.Errorf("checkpoint: %s: stored in the clear, not by an encrypted saver", label)
	}
	aead := e.aead[sealed[0]]
	if aead == nil {
		return nil, fmt.Errorf("checkpoint: %s: sealed with key %d, which was not given", label, sealed[0])
	}
	if len(sealed) < 1+aead.NonceSize() {
		return nil, fmt.Errorf("checkpoint: %s: too short to be sealed", label)
	}
	nonce, body := sealed[1:1+aead.NonceSize()], sealed[1+aead.NonceSize():]
	data, err := aead.Open([]byte{}, nonce, body, []byte(label))
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %s: cannot be opened with key %d: %w", label, sealed[0], err)
	}
	return data, nil
}

// The labels of what is not a channel.
const (
	labelControl = "\x00control"
	labelWrite   = "\x00write "
)

func (e *encrypted) closeWrites(ws []Write) []Write {
	out := make([]Write, len(ws))
	for i, w := range ws {
		out[i] = w
		out[i].Data = e.close(labelWrite+string(w.Kind), w.Data)
	}
	return out
}

// Put implements [Saver].
func (e *encrypted) Put(ctx context.Context, p *Put) error {
	sealed := *p
	sealed.Control = e.close(labelControl, p.Control)
	sealed.Pending = e.closeWrites(p.Pending)
	sealed.Changes = make([]Change, len(p.Changes))
	for i, c := range p.Changes {
		c.Data = e.close(c.Channel, c.Data)
		items := make([][]byte, len(c.Items))
		for j, item := range c.Items {
			if item == nil {
				item = []byte{} // an element without bytes is there all the same, and savers give it back as empty
			}
			items[j] = e.close(c.Channel, item)
		}
		c.Items = items
		sealed.Changes[i] = c
	}
	return e.inner.Put(ctx, &sealed)
}

// PutWrites implements [Saver].
func (e *encrypted) PutWrites(ctx context.Context, at Key, fence uint64, ws []Write) error {
	return e.inner.PutWrites(ctx, at, fence, e.closeWrites(ws))
}

// Get implements [Saver].
func (e *encrypted) Get(ctx context.Context, key Key) (*Checkpoint, error) {
	c, err := e.inner.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return c, e.openAll(c)
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
	if c.Control, err = e.open(labelControl, c.Control); err != nil {
		return where(err)
	}
	for i := range c.Pending {
		w := &c.Pending[i]
		if w.Data, err = e.open(labelWrite+string(w.Kind), w.Data); err != nil {
			return where(err)
		}
	}
	for name, v := range c.Values {
		if v.Data, err = e.open(name, v.Data); err != nil {
			return where(err)
		}
		for i := range v.Items {
			if v.Items[i], err = e.open(name, v.Items[i]); err != nil {
				return where(err)
			}
		}
		c.Values[name] = v
	}
	return nil
}

// DeleteThread implements [Saver].
func (e *encrypted) DeleteThread(ctx context.Context, thread string) error {
	return e.inner.DeleteThread(ctx, thread)
}

// cannot says that the saver below lacks an ability.
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
	return 0, e.cannot("tell sizes")
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
