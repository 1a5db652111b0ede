package memory_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// rerankFunc is a reranker made of a function.
type rerankFunc func(query string, texts []string) ([]float64, error)

func (f rerankFunc) Rerank(_ context.Context, query string, texts []string) ([]float64, error) {
	return f(query, texts)
}

func TestRerankerDecidesRelevance(t *testing.T) {
	s := newShelf(t, store.Options{})
	s.note("a", "Ada keeps bees in the garden", nil)
	s.note("b", "Ada sold her bees last year", nil)
	s.note("c", "Ada reads about bees", nil)
	var asked string
	r := rerankFunc(func(query string, texts []string) ([]float64, error) {
		asked = query
		scores := make([]float64, len(texts))
		for i, text := range texts {
			scores[i] = map[bool]float64{true: -2, false: -9}[strings.Contains(text, "sold")]
		}
		return scores, nil
	})
	got := s.recall(memory.RecallerOptions{Reranker: r}, "Hello!", "Does Ada have bees?")
	if asked != "Does Ada have bees?" {
		t.Errorf("the reranker scored %q", asked)
	}
	if keys := recalledKeys(got); len(keys) != 3 || keys[0] != "b" || got.Memories[0].Why.Relevance != 1 || got.Memories[1].Why.Relevance != 0 {
		t.Errorf("recalled %q: %+v", keys, got.Memories)
	}
}

func TestEqualRerankerScoresKeepOrder(t *testing.T) {
	s := newShelf(t, store.Options{})
	s.note("a", "Ada keeps bees", nil)
	s.note("b", "The weather is fine, and Ada and Tom met Eve near the bees", nil)
	plain := recalledKeys(s.recall(memory.RecallerOptions{}, "Ada keeps bees?"))
	same := rerankFunc(func(_ string, texts []string) ([]float64, error) { return make([]float64, len(texts)), nil })
	if keys := recalledKeys(s.recall(memory.RecallerOptions{Reranker: same}, "Ada keeps bees?")); !slices.Equal(keys, plain) {
		t.Errorf("recalled %q, want %q", keys, plain)
	}
}

func TestRerankerErrorsFailRecall(t *testing.T) {
	s := newShelf(t, store.Options{})
	s.note("a", "Ada keeps bees", nil)
	s.note("b", "Ada sold bees", nil)
	down := errors.New("server down")
	for want, f := range map[string]rerankFunc{
		"server down":     func(string, []string) ([]float64, error) { return nil, down },
		"1 scores for 2":  func(string, []string) ([]float64, error) { return []float64{1}, nil },
		"a finite number": func(string, []string) ([]float64, error) { return []float64{1, math.NaN()}, nil },
	} {
		_, err := s.recaller(memory.RecallerOptions{Reranker: f}).Recall(t.Context(), said("Ada's bees?")...)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "memory: rerank: ") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
