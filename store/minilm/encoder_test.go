package minilm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/internal/matmul"
)

var _ store.Embedder = (*Encoder)(nil)

// texts returns texts of different lengths.
func texts(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strings.Repeat("Ada lives in Bonn. ", i%7) + fmt.Sprint(i)
	}
	return out
}

func TestVectorDependsOnlyOnItsText(t *testing.T) {
	e := openModel(t)
	all := texts(40)
	together, err := e.Embed(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range all {
		alone, err := e.Embed(t.Context(), []string{text})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(alone[0], together[i]) {
			t.Errorf("%q has two vectors", text)
		}
	}
}

func TestConcurrentEmbed(t *testing.T) {
	e := openModel(t)
	want, err := e.Embed(t.Context(), texts(20))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			got, err := e.Embed(t.Context(), texts(20))
			if err != nil || !slices.EqualFunc(got, want, slices.Equal[[]float32]) {
				t.Errorf("got other vectors, or %v", err)
			}
		})
	}
	all.Wait()
}

func TestEmbedWithoutTexts(t *testing.T) {
	if got, err := openModel(t).Embed(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("got %v and %v", got, err)
	}
}

func TestEmbedStopsWhenContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := openModel(t).Embed(ctx, texts(3)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of the context", err)
	}
}

func TestStoreUsesEncoder(t *testing.T) {
	s, err := store.NewMemory(&store.Options{Embedder: openModel(t)})
	if err != nil {
		t.Fatal(err)
	}
	space := store.Namespace{"a"}
	for _, text := range []string{"cat", "Ada lives in Bonn"} {
		if err := s.Put(t.Context(), space, text, map[string]string{"text": text}, nil); err != nil {
			t.Fatal(err)
		}
	}
	items, err := s.Search(t.Context(), space, &store.SearchOptions{Query: "cat", Ranking: store.Semantic})
	if err != nil || len(items) != 2 || items[0].Key != "cat" {
		t.Errorf("got %v and %v", items, err)
	}
}

func FuzzTokens(f *testing.F) {
	for _, text := range []string{"Ada's café", "\xff\xfe", "日本 \u0301", "a\u0300\u0301"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e := openModel(t)
		ids := e.vocab.tokens(text, 16)
		if len(ids) < 2 || len(ids) > 16 || ids[0] != e.vocab.first || ids[len(ids)-1] != e.vocab.final {
			t.Fatalf("%q: got tokens %v", text, ids)
		}
		each(text, func(word string) bool {
			if word == "" || !utf8.ValidString(word) {
				t.Fatalf("%q: got word %q", text, word)
			}
			return true
		})
	})
}

func BenchmarkEmbed(b *testing.B) {
	e := openModel(b)
	short := make([]string, 64)
	for i := range short {
		short[i] = "Ada lives in Bonn cat cat cat tab line" // eleven tokens with the marks
	}
	for name, mul := range matmul.Kernels(processor) {
		e := &Encoder{vocab: e.vocab, network: e.network, kernel: mul}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if _, err := e.Embed(b.Context(), short); err != nil {
					b.Fatal(err)
				}
				n += len(short)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "texts/s")
		})
	}
}
