package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/store"
)

// Benchmark measures a backend: put, get, and searches among many items, including the
// recall of semantic searches. open returns an empty backend and cleans up with
// b.Cleanup.
func Benchmark(b *testing.B, open func(b *testing.B) store.Backend) {
	b.Run("put", func(b *testing.B) {
		s, texts := benchStore(b, open(b)), newSentences()
		for i := 0; b.Loop(); i++ {
			benchPut(b, s, i, texts.next())
		}
	})
	for _, size := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint("of ", size), func(b *testing.B) { benchSearches(b, open(b), size) })
	}
}

func benchSearches(b *testing.B, backend store.Backend, size int) {
	s, texts := benchStore(b, backend), newSentences()
	vectors := make([][]float32, 0, size)
	const page = 500
	for i := 0; i < size; i += page {
		ops := make([]store.Op, page)
		for j := range ops {
			text := texts.next()
			vectors = append(vectors, benchEmbed(b, text))
			ops[j] = benchOp(i+j, text)
		}
		if _, err := s.Batch(b.Context(), ops...); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("get", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := s.Get(b.Context(), benchNamespace(i%size), fmt.Sprint(i%size), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	search := func(name string, o func(text string) *store.SearchOptions) {
		b.Run(name, func(b *testing.B) {
			recall, n := 0.0, 0.0
			for b.Loop() {
				text := texts.next()
				items, err := s.Search(b.Context(), store.Namespace{"users"}, o(text))
				if err != nil {
					b.Fatal(err)
				}
				if name == "semantic" && n < 20 {
					b.StopTimer()
					recall += recallOf(items, vectors, benchEmbed(b, text))
					n++
					b.StartTimer()
				}
			}
			if n > 0 {
				b.ReportMetric(recall/n, "recall@10")
			}
		})
	}
	search("semantic", func(text string) *store.SearchOptions { return &store.SearchOptions{Query: text} })
	search("keyword", func(text string) *store.SearchOptions {
		return &store.SearchOptions{Query: text, Ranking: store.Keyword}
	})
	search("hybrid", func(text string) *store.SearchOptions {
		return &store.SearchOptions{Query: text, Ranking: store.Hybrid}
	})
	search("filter", func(string) *store.SearchOptions { return &store.SearchOptions{Filter: store.Eq("n", 7)} })
	search("newest", func(string) *store.SearchOptions { return nil })
}

const benchDimension = 384

func benchStore(b *testing.B, backend store.Backend) *store.Store {
	s, err := store.New(backend, &store.Options{Embedder: store.NewHashEmbedder(benchDimension), Fields: []string{"text"}})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func benchNamespace(i int) store.Namespace { return store.Namespace{"users", fmt.Sprint(i % 100)} }

func benchOp(i int, text string) store.Op {
	return store.PutOp{Namespace: benchNamespace(i), Key: fmt.Sprint(i), Value: object{"text": text, "n": i % 1000, "kind": "note"}}
}

func benchPut(b *testing.B, s *store.Store, i int, text string) {
	if _, err := s.Batch(b.Context(), benchOp(i, text)); err != nil {
		b.Fatal(err)
	}
}

func benchEmbed(b *testing.B, text string) []float32 {
	vectors, err := store.NewHashEmbedder(benchDimension).Embed(context.WithoutCancel(b.Context()), []string{text})
	if err != nil {
		b.Fatal(err)
	}
	return vectors[0]
}

// recallOf returns the fraction of the items found that are among the ten nearest,
// which it determines by exhaustive comparison.
func recallOf(items []*store.Item, vectors [][]float32, query []float32) float64 {
	similar := func(v []float32) float64 {
		var dot, length float64
		for i, x := range v {
			dot += float64(x) * float64(query[i])
			length += float64(x) * float64(x)
		}
		return dot * dot / length * max(-1, min(1, dot*1e30)) // preserves the sign without a square root
	}
	nearer := func(than float64) (n int) {
		for _, v := range vectors {
			if similar(v) > than*(1+1e-6) {
				n++
			}
		}
		return n
	}
	found := 0
	for _, item := range items {
		var i int
		if _, err := fmt.Sscan(item.Key, &i); err == nil && nearer(similar(vectors[i])) < 10 {
			found++
		}
	}
	return float64(found) / 10
}

// sentences generates sentences whose word frequencies are as uneven as those of a
// natural language. Each sentence has a topic with its own words, and some words that
// all sentences share.
type sentences struct {
	rnd   *rand.Rand
	words []string
}

func newSentences() *sentences {
	s := &sentences{rnd: rand.New(rand.NewPCG(42, 42))}
	syllables := []string{"ba", "ke", "lo", "mi", "nu", "ra", "se", "ti", "vo", "wa", "za", "pre", "sto", "ing", "er", "an"}
	for range 6000 {
		var word strings.Builder
		for range 2 + s.rnd.IntN(3) {
			word.WriteString(syllables[s.rnd.IntN(len(syllables))])
		}
		s.words = append(s.words, word.String())
	}
	return s
}

func (s *sentences) next() string {
	common, own := s.words[:200], s.words[200:]
	topic := s.rnd.IntN(len(own) / 40)
	text := make([]string, 6+s.rnd.IntN(10))
	for i := range text {
		// Words at the start of a list are the frequent ones.
		skew := s.rnd.Float64() * s.rnd.Float64()
		if s.rnd.IntN(2) == 0 {
			text[i] = common[int(skew*float64(len(common)))]
		} else {
			text[i] = own[topic*40+int(skew*40)]
		}
	}
	return strings.Join(text, " ")
}
