package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
)

// Encrypted wraps a backend so that it stores only encrypted items. [Options].Keys does
// the same for a store and documents the encryption.
func Encrypted(b Backend, keys ...checkpoint.EncryptionKey) (Backend, error) {
	switch {
	case b == nil:
		return nil, &InvalidError{What: "backend", Reason: "is nil: pass the backend to encrypt"}
	case len(keys) == 0:
		return nil, &InvalidError{What: "encryption", Reason: "requires a key"}
	}
	e := &encrypted{Backend: b, sealKey: keys[0].ID, aead: map[byte]cipher.AEAD{}}
	derived := hmac.New(sha256.New, keys[0].Secret)
	derived.Write([]byte("treadle store words"))
	secret := derived.Sum(nil)
	e.words = func(word []byte) []byte {
		h := hmac.New(sha256.New, secret)
		h.Write(word)
		return h.Sum(nil)[:16]
	}
	for _, k := range keys {
		if e.aead[k.ID] != nil {
			return nil, &InvalidError{What: "encryption", Reason: fmt.Sprintf("has two keys with ID %d", k.ID)}
		}
		block, err := aes.NewCipher(k.Secret)
		if err == nil {
			e.aead[k.ID], err = cipher.NewGCM(block)
		}
		if err != nil {
			return nil, &InvalidError{What: "encryption", Reason: fmt.Sprintf("has invalid key %d: %v", k.ID, err)}
		}
	}
	return e, nil
}

// encrypted is the backend that Encrypted returns.
type encrypted struct {
	Backend
	sealKey byte // ID of the encrypting key
	aead    map[byte]cipher.AEAD
	words   func(word []byte) []byte // returns the keyed digest of a word
}

// A sealed value is an object with one member: the base64 encoding of the key ID, a
// nonce, and the ciphertext. The plaintext is a digest of the item's namespace and key,
// followed by the data. The digest is part of the plaintext, not additional data,
// because a filter sees a value without its namespace and key.
const (
	sealedBegin = `{"sealed":"`
	sealedEnd   = `"}`
)

// placeOf returns a digest of an item's namespace and key and the part that data
// belongs to.
func placeOf(part string, n Namespace, key string) [sha256.Size]byte {
	return sha256.Sum256([]byte(part + "\x00" + append(slices.Clone(n), key).Encode()))
}

// The parts of an item.
const (
	partValue = "value"
	partMeta  = "meta"
	partPaths = "paths"
)

func (e *encrypted) sealPart(part string, n Namespace, key string, data []byte) []byte {
	if data == nil {
		return nil
	}
	aead, place := e.aead[e.sealKey], placeOf(part, n, key)
	out := make([]byte, 1+aead.NonceSize(), 1+aead.NonceSize()+len(place)+len(data)+aead.Overhead())
	out[0] = e.sealKey
	_, _ = rand.Read(out[1:]) // never fails
	out = aead.Seal(out, out[1:], append(place[:], data...), nil)
	text := append(make([]byte, 0, len(sealedBegin)+base64.StdEncoding.EncodedLen(len(out))+len(sealedEnd)), sealedBegin...)
	return append(base64.StdEncoding.AppendEncode(text, out), sealedEnd...)
}

// unseal returns the data and the digest of its place.
func (e *encrypted) unseal(sealed []byte) (place, data []byte, err error) {
	text, begins := bytes.CutPrefix(sealed, []byte(sealedBegin))
	text, ends := bytes.CutSuffix(text, []byte(sealedEnd))
	if !begins || !ends {
		return nil, nil, fmt.Errorf("is not encrypted: stored without keys")
	}
	raw, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil || len(raw) == 0 {
		return nil, nil, fmt.Errorf("is not encrypted data")
	}
	aead := e.aead[raw[0]]
	if aead == nil {
		return nil, nil, fmt.Errorf("is encrypted with missing key %d: add it to the keys", raw[0])
	}
	if len(raw) < 1+aead.NonceSize() {
		return nil, nil, fmt.Errorf("is truncated")
	}
	body, err := aead.Open(nil, raw[1:1+aead.NonceSize()], raw[1+aead.NonceSize():], nil)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot be decrypted with key %d: %w", raw[0], err)
	}
	if len(body) < sha256.Size {
		return nil, nil, fmt.Errorf("is truncated")
	}
	return body[:sha256.Size], body[sha256.Size:], nil
}

func (e *encrypted) openPart(part string, n Namespace, key string, sealed []byte) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	at, data, err := e.unseal(sealed)
	if want := placeOf(part, n, key); err == nil && !bytes.Equal(at, want[:]) {
		err = fmt.Errorf("was encrypted for another item")
	}
	if err != nil {
		return nil, fmt.Errorf("store: %s of key %q in namespace %v %w", part, key, n, err)
	}
	return data, nil
}

// record returns a decrypted copy of a record.
func (e *encrypted) record(r *Record) (*Record, error) {
	if r == nil || r.Kind != Put {
		return r, nil
	}
	opened := *r
	var err error
	if opened.Value, err = e.openPart(partValue, r.Namespace, r.Key, r.Value); err != nil {
		return nil, err
	}
	if opened.Meta, err = e.openPart(partMeta, r.Namespace, r.Key, r.Meta); err != nil {
		return nil, err
	}
	if strings.HasPrefix(r.Paths, sealedBegin) {
		paths, err := e.openPart(partPaths, nil, "", []byte(r.Paths))
		if err != nil {
			return nil, err
		}
		opened.Paths = string(paths)
	}
	return &opened, nil
}

func (e *encrypted) records(rs []*Record, err error) ([]*Record, error) {
	if err != nil {
		return nil, err
	}
	opened := make([]*Record, len(rs))
	for i, r := range rs {
		if opened[i], err = e.record(r); err != nil {
			return nil, err
		}
	}
	return opened, nil
}

// word returns the indexed form of a word: a keyed digest in letters and digits.
func (e *encrypted) word(w string) string { return hex.EncodeToString(e.words([]byte(w))) }

// stamp adds the key ID to a stamp, because a different key yields different word
// digests.
func (e *encrypted) stamp(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%s sealed with key %d", s, e.sealKey)
}

// indexed returns x in encrypted form. Its paths are not bound to an item, because
// Reindex replaces entries by Seq alone.
func (e *encrypted) indexed(x Indexed) Indexed {
	x.Stamp = e.stamp(x.Stamp)
	if x.Paths != "" && x.Paths != noPaths {
		x.Paths = string(e.sealPart(partPaths, nil, "", []byte(x.Paths)))
	}
	terms := make([]Term, len(x.Terms))
	for i, t := range x.Terms {
		terms[i] = Term{e.word(t.Text), t.Count}
	}
	slices.SortFunc(terms, func(a, b Term) int { return cmp.Compare(a.Text, b.Text) })
	x.Terms = terms
	return x
}

// sealedQuery contains the state needed to search encrypted items.
type sealedQuery struct {
	query  *Query // the original
	order  []int  // the index of each encrypted term in the original's terms
	unseal func([]byte) ([]byte, error)
}

// query returns q in the form to pass to the wrapped backend.
func (e *encrypted) query(q *Query) *Query {
	sealed := *q
	sealed.Stamp = e.stamp(q.Stamp)
	v := &sealedQuery{query: q, unseal: func(sealed []byte) ([]byte, error) {
		if sealed == nil {
			return nil, nil
		}
		_, data, err := e.unseal(sealed)
		return data, err
	}}
	if q.Terms != nil {
		v.order = make([]int, len(q.Terms))
		words := make([]string, len(q.Terms))
		for i, t := range q.Terms {
			v.order[i], words[i] = i, e.word(t)
		}
		slices.SortFunc(v.order, func(a, b int) int { return cmp.Compare(words[a], words[b]) })
		slices.Sort(words)
		sealed.Terms = words
	}
	sealed.sealedQuery = v
	return &sealed
}

// match applies the filter to decrypted values. An item that cannot be decrypted
// passes, so that reading it returns the error.
func (v *sealedQuery) match(value, meta json.RawMessage) bool {
	if v.query.filter == nil && !v.query.hide {
		return true
	}
	plainValue, err := v.unseal(value)
	if err != nil {
		return true
	}
	plainMeta, err := v.unseal(meta)
	return err != nil || v.query.matches(plainValue, plainMeta)
}

// rank ranks candidates by the original terms.
func (v *sealedQuery) rank(near, matching []Candidate) []Ranked {
	matching = slices.Clone(matching)
	for i := range matching {
		counts := make([]int, len(matching[i].Counts))
		for j, n := range matching[i].Counts {
			counts[v.order[j]] = n
		}
		matching[i].Counts = counts
	}
	return v.query.rank(near, matching)
}

// Do implements [Backend].
func (e *encrypted) Do(ctx context.Context, b *Batch) (*Results, error) {
	sealed := *b
	sealed.Searches = make([]*Query, len(b.Searches))
	for i, q := range b.Searches {
		sealed.Searches[i] = e.query(q)
	}
	sealed.Writes = slices.Clone(b.Writes)
	for i := range sealed.Writes {
		w := &sealed.Writes[i]
		w.Value, w.Meta = e.sealPart(partValue, w.Namespace, w.Key, w.Value), e.sealPart(partMeta, w.Namespace, w.Key, w.Meta)
		w.Indexed = e.indexed(w.Indexed)
	}
	got, err := e.Backend.Do(ctx, &sealed)
	if err != nil {
		return nil, err
	}
	out := &Results{Namespaces: got.Namespaces, Searches: make([][]Found, len(got.Searches))}
	if out.Gets, err = e.records(got.Gets, nil); err != nil {
		return nil, err
	}
	if out.Writes, err = e.records(got.Writes, nil); err != nil {
		return nil, err
	}
	for i, found := range got.Searches {
		out.Searches[i] = slices.Clone(found)
		for j := range out.Searches[i] {
			if out.Searches[i][j].Record, err = e.record(found[j].Record); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// History implements [Backend].
func (e *encrypted) History(ctx context.Context, n Namespace, key string) ([]*Record, error) {
	return e.records(e.Backend.History(ctx, n, key))
}

// Changes implements [Backend].
func (e *encrypted) Changes(ctx context.Context, prefix Namespace, after int64, limit int) ([]*Record, int64, error) {
	sealed, seq, err := e.Backend.Changes(ctx, prefix, after, limit)
	records, err := e.records(sealed, err)
	return records, seq, err
}

// Stale implements [Backend].
func (e *encrypted) Stale(ctx context.Context, stamp string, after int64, limit int) ([]*Record, error) {
	return e.records(e.Backend.Stale(ctx, e.stamp(stamp), after, limit))
}

// Reindex implements [Backend].
func (e *encrypted) Reindex(ctx context.Context, by map[int64]Indexed) error {
	sealed := make(map[int64]Indexed, len(by))
	for seq, x := range by {
		sealed[seq] = e.indexed(x)
	}
	return e.Backend.Reindex(ctx, sealed)
}
