package store

import (
	"container/list"
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/treadle-go/treadle/internal/observe"
)

// stampOf returns the stamp of a store with these options; see Indexed.Stamp.
func stampOf(o *Options) string {
	rules := analysis
	if o.English {
		rules += " english"
	}
	parts := append([]string{rules}, o.Fields...)
	if o.Embedder != nil {
		parts = append(parts, "", o.Embedder.Model(), strconv.Itoa(o.Embedder.Dimension()))
	}
	return fmt.Sprintf("%q", parts)
}

// embedding collects the texts of an operation so that one call can embed them.
type embedding struct {
	texts   []string
	vectors map[string][]float32
}

func (e *embedding) add(text string) {
	if e.vectors == nil {
		e.vectors = map[string][]float32{}
	}
	if _, ok := e.vectors[text]; !ok {
		e.vectors[text] = nil
		e.texts = append(e.texts, text)
	}
}

// embed fills e.vectors.
func (s *Store) embed(ctx context.Context, e *embedding) error {
	var missing []string
	for _, t := range e.texts {
		if v := s.cache.get(t); v != nil {
			e.vectors[t] = v
		} else {
			missing = append(missing, t)
		}
	}
	for texts := range slices.Chunk(missing, maxEmbedded) {
		if err := s.embedAll(ctx, e, texts); err != nil {
			return &EmbedError{s.opts.Embedder.Model(), err}
		}
	}
	return nil
}

// Embed returns the vectors that the store's Embedder computes for texts, scaled to
// length 1, so that the dot product of two vectors is the similarity of their texts.
func (s *Store) Embed(ctx context.Context, texts ...string) ([][]float32, error) {
	if s == nil {
		return nil, ErrNoStore
	}
	if err := checkRanking(Semantic, s.opts.Embedder); err != nil {
		return nil, err
	}
	var e embedding
	for _, t := range texts {
		e.add(t)
	}
	if err := s.embed(ctx, &e); err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(texts))
	for i, t := range texts {
		vectors[i] = slices.Clone(e.vectors[t]) // the store's cache shares the vector
	}
	return vectors, nil
}

// maxEmbedded is the maximum number of texts per call, because providers limit it.
const maxEmbedded = 256

func (s *Store) embedAll(ctx context.Context, e *embedding, texts []string) error {
	vectors, err := s.vectors(ctx, texts)
	if err != nil {
		return err
	}
	if len(vectors) != len(texts) {
		return fmt.Errorf("%d vectors for %d texts", len(vectors), len(texts))
	}
	for i, t := range texts {
		v, err := unit(vectors[i], s.opts.Embedder.Dimension())
		if err != nil {
			return fmt.Errorf("the vector of %.60q %w", t, err)
		}
		e.vectors[t] = v
		s.cache.put(t, v)
	}
	return nil
}

// vectors calls the embedder, with a span if ctx is traced.
func (s *Store) vectors(ctx context.Context, texts []string) (vectors [][]float32, err error) {
	if t := observe.TracerOf(ctx); t != nil {
		var span observe.Span
		ctx, span = t.Start(ctx, &observe.Op{Kind: observe.Embed, Name: s.opts.Embedder.Model(), Count: len(texts), Dimension: s.opts.Embedder.Dimension()})
		defer func() { span.End(nil, err) }()
	}
	return s.opts.Embedder.Embed(ctx, texts)
}

// unit scales a vector to length 1, unless it is zero.
func unit(v []float32, dimension int) ([]float32, error) {
	if len(v) != dimension {
		return nil, fmt.Errorf("has %d dimensions instead of %d", len(v), dimension)
	}
	var sum float64
	for i, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("has %v at %d", x, i)
		}
		sum += float64(x) * float64(x)
	}
	scaled := make([]float32, len(v))
	if sum == 0 {
		return scaled, nil
	}
	length := math.Sqrt(sum)
	for i, x := range v {
		scaled[i] = float32(float64(x) / length)
	}
	return scaled, nil
}

// cachedVectors is the maximum size of a vectorCache.
const cachedVectors = 4096

// vectorCache keeps the vectors of the most recently used texts. It is keyed by hash,
// because texts may be large.
type vectorCache struct {
	mu     sync.Mutex
	byText map[[sha256.Size]byte]*list.Element
	recent *list.List // of cachedVector, most recently used first
}

type cachedVector struct {
	hash   [sha256.Size]byte
	vector []float32
}

func newVectorCache() *vectorCache {
	return &vectorCache{byText: map[[sha256.Size]byte]*list.Element{}, recent: list.New()}
}

func (c *vectorCache) get(text string) []float32 {
	hash := sha256.Sum256([]byte(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byText[hash]
	if !ok {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(cachedVector).vector
}

func (c *vectorCache) put(text string, vector []float32) {
	hash := sha256.Sum256([]byte(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byText[hash]; ok {
		return
	}
	c.byText[hash] = c.recent.PushFront(cachedVector{hash, vector})
	if c.recent.Len() > cachedVectors {
		oldest := c.recent.Remove(c.recent.Back()).(cachedVector)
		delete(c.byText, oldest.hash)
	}
}
