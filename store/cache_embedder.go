package store

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// CacheOptions configures [CacheEmbedder]. A nil *CacheOptions means the defaults.
type CacheOptions struct {
	// Namespace contains the vectors; nil means {"vectors"}. The last segments are the
	// model and its dimension.
	Namespace Namespace
	// TTL is the time that a vector is kept after it was computed; 0 means 30 days, and
	// [Forever] that it is never removed.
	TTL time.Duration
}

const defaultCacheTTL = 30 * 24 * time.Hour

// CacheEmbedder returns an embedder that keeps the vectors of documents in a store, by the
// hash of their text, so that a text is embedded once even if it moves to another item or the
// process restarts. The store needs no embedder; it may be in the same database as the items.
// Queries are not kept. An embedder that needs no model, such as [NewHashEmbedder], is returned
// unchanged.
//
// A vector reveals much of its text, and erasing an item does not erase the vector: it remains
// for the TTL.
func CacheEmbedder(e Embedder, s *Store, opts *CacheOptions) (Embedder, error) {
	if e == nil {
		return nil, &InvalidError{What: "embedder", Reason: "is nil: pass the embedder whose vectors to keep"}
	}
	if s == nil {
		return nil, ErrNoStore
	}
	if _, ok := e.(lexical); ok {
		return e, nil
	}
	o := deref(opts)
	if o.TTL == 0 {
		o.TTL = defaultCacheTTL
	}
	root := o.Namespace
	if root == nil {
		root = Namespace{"vectors"}
	}
	c := &cachingEmbedder{e, s, append(slices.Clone(root), e.Model(), strconv.Itoa(e.Dimension())), o.TTL}
	if err := c.namespace.check(false); err != nil {
		return nil, err
	}
	return c, nil
}

// cachingEmbedder is a [QueryEmbedder].
type cachingEmbedder struct {
	Embedder
	store     *Store
	namespace Namespace
	ttl       time.Duration
}

// EmbedQueries embeds queries, whose vectors are not kept. It exists even if the embedder treats
// queries like documents, so that a search writes nothing and questions leave no trace.
func (c *cachingEmbedder) EmbedQueries(ctx context.Context, texts []string) ([][]float32, error) {
	if q, ok := c.Embedder.(QueryEmbedder); ok {
		return q.EmbedQueries(ctx, texts)
	}
	return c.Embedder.Embed(ctx, texts)
}

// cached is the value of an item in the cache.
type cached struct {
	Vector string `json:"vector"` // little-endian float32 in base64
}

// Embed returns the vectors in the cache, and computes and keeps the others.
func (c *cachingEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	keys := make([]string, len(texts))
	gets := make([]Op, len(texts))
	for i, t := range texts {
		sum := sha256.Sum256([]byte(t))
		keys[i] = hex.EncodeToString(sum[:])
		gets[i] = GetOp{c.namespace, keys[i], GetOptions{NoRefresh: true}}
	}
	found, err := c.store.Batch(ctx, gets...)
	if err != nil {
		return nil, fmt.Errorf("read cached vectors: %w", err)
	}
	vectors := make([][]float32, len(texts))
	var missing []int
	var toEmbed []string
	for i, r := range found {
		if vectors[i] = c.decode(r.Item); vectors[i] == nil {
			missing = append(missing, i)
			toEmbed = append(toEmbed, texts[i])
		}
	}
	if len(missing) == 0 {
		return vectors, nil
	}
	computed, err := c.Embedder.Embed(ctx, toEmbed)
	if err != nil {
		return nil, err
	}
	if len(computed) != len(toEmbed) {
		return nil, fmt.Errorf("%d vectors for %d texts", len(computed), len(toEmbed))
	}
	puts := make([]Op, len(missing))
	for n, i := range missing {
		vectors[i] = computed[n]
		puts[n] = PutOp{c.namespace, keys[i], cached{encodeVector(computed[n])}, PutOptions{NoIndex: true, TTL: c.ttl}}
	}
	if _, err := c.store.Batch(ctx, puts...); err != nil {
		return nil, fmt.Errorf("write cached vectors: %w", err)
	}
	return vectors, nil
}

// decode returns the vector of an item, or nil if it has no usable one.
func (c *cachingEmbedder) decode(item *Item) []float32 {
	var v cached
	if item == nil || item.Decode(&v) != nil {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(v.Vector)
	if err != nil || len(raw) != 4*c.Dimension() {
		return nil
	}
	vector := make([]float32, c.Dimension())
	for i := range vector {
		vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return vector
}

func encodeVector(v []float32) string {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
