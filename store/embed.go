package store

import (
	"container/list"
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/treadle-go/treadle/internal/observe"
)

// stampOf returns the stamp of a store with these options; see Indexed.Stamp.
func stampOf(opts *Options) string {
	rules := analysis
	if opts.English {
		rules += " english"
	}
	parts := append([]string{rules}, opts.Fields...)
	if opts.Embedder != nil {
		parts = append(parts, "", opts.Embedder.Model(), strconv.Itoa(opts.Embedder.Dimension()))
	}
	return fmt.Sprintf("%q", parts)
}

// modelOf returns the model and the dimension in a stamp, for people to read. It returns
// "" for a stamp without vectors, or if the model has no name.
func modelOf(stamp string) string {
	var parts []string
	rest := strings.TrimPrefix(stamp, "[")
	for {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			break // the end, or text that encryption added
		}
		part, _ := strconv.Unquote(quoted) // cannot fail for a quoted prefix
		parts = append(parts, part)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	n := len(parts)
	if n < 4 || parts[n-3] != "" || parts[n-2] == "" {
		return ""
	}
	return fmt.Sprintf("%s (%s dimensions)", parts[n-2], parts[n-1])
}

// embedding collects the texts of an operation so that one call can embed them.
type embedding struct {
	queries bool // the texts are queries of a QueryEmbedder
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
		if v := s.cache.get(cacheKey(t, e.queries)); v != nil {
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

// Embed returns the vectors that the store's Embedder computes for texts as documents,
// scaled to length 1, so that the dot product of two vectors is the similarity of their
// texts.
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
	vectors, err := s.vectors(ctx, texts, e.queries)
	if err != nil {
		return err
	}
	if len(vectors) != len(texts) {
		return fmt.Errorf("%d vectors for %d texts", len(vectors), len(texts))
	}
	for i, t := range texts {
		v, err := unit(vectors[i], s.opts.Embedder.Dimension())
		if err != nil {
			return fmt.Errorf("vector of %.60q %w", t, err)
		}
		e.vectors[t] = v
		s.cache.put(cacheKey(t, e.queries), v)
	}
	return nil
}

// vectors calls the embedder, with a span if ctx is traced.
func (s *Store) vectors(ctx context.Context, texts []string, queries bool) (vectors [][]float32, err error) {
	if t := observe.TracerOf(ctx); t != nil {
		var span observe.Span
		ctx, span = t.Start(ctx, &observe.Op{Kind: observe.Embed, Name: s.opts.Embedder.Model(), Count: len(texts), Dimension: s.opts.Embedder.Dimension()})
		defer func() { span.End(nil, err) }()
	}
	if queries {
		return s.opts.Embedder.(QueryEmbedder).EmbedQueries(ctx, texts)
	}
	return s.opts.Embedder.Embed(ctx, texts)
}

// unit scales a vector to length 1, unless it is zero.
func unit(v []float32, dimension int) ([]float32, error) {
	if len(v) != dimension {
		return nil, fmt.Errorf("has %d dimensions, want %d", len(v), dimension)
	}
	var sum float64
	for i, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("contains %v at index %d", x, i)
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

// vectorCache keeps the vectors of the most recently used texts.
type vectorCache struct {
	mu     sync.Mutex
	byText map[vectorKey]*list.Element
	recent *list.List // of cachedVector, most recently used first
}

// vectorKey identifies a text by its hash, because texts may be large.
type vectorKey struct {
	hash  [sha256.Size]byte
	query bool
}

func cacheKey(text string, query bool) vectorKey {
	return vectorKey{sha256.Sum256([]byte(text)), query}
}

type cachedVector struct {
	key    vectorKey
	vector []float32
}

func newVectorCache() *vectorCache {
	return &vectorCache{byText: map[vectorKey]*list.Element{}, recent: list.New()}
}

func (c *vectorCache) get(key vectorKey) []float32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byText[key]
	if !ok {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(cachedVector).vector
}

func (c *vectorCache) put(key vectorKey, vector []float32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byText[key]; ok {
		return
	}
	c.byText[key] = c.recent.PushFront(cachedVector{key, vector})
	if c.recent.Len() > cachedVectors {
		oldest := c.recent.Remove(c.recent.Back()).(cachedVector)
		delete(c.byText, oldest.key)
	}
}
