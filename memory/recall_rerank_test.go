package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestContextFollowsReranker notes the same question next to two different answers.
func TestContextFollowsReranker(t *testing.T) {
	s := newShelf(t, store.Options{})
	for _, n := range [][2]string{{"first", "Where are the bees?"}, {"garden", "Ada keeps bees and more bees in the garden"}, {"second", "What about those bees now?"}, {"roof", "On the roof, the bees"}} {
		s.note(n[0], n[1], nil)
		s.now = s.now.Add(time.Minute)
		if n[0] == "garden" {
			s.now = s.now.Add(24 * time.Hour)
		}
	}
	r := rerankFunc(func(_ string, texts []string) ([]float64, error) {
		scores := make([]float64, len(texts))
		for i, text := range texts {
			if strings.Contains(text, "roof") {
				scores[i] = 1
			}
		}
		return scores, nil
	})
	got := s.recall(memory.RecallerOptions{Reranker: r}, "bees")
	contexts := map[string]float64{}
	for _, m := range got.Memories {
		contexts[m.Item.Key] = m.Why.Context
	}
	if contexts["second"] < 0.5 || contexts["first"] > 0.01 || contexts["garden"] > 0.01 || contexts["roof"] > 0.01 {
		t.Errorf("the contexts are %v", contexts)
	}
}

// TestRerankerScoresFiftyMemories checks that a reranker can find what the search ranks low.
func TestRerankerScoresFiftyMemories(t *testing.T) {
	s := newShelf(t, store.Options{})
	for i := range 120 {
		s.note(fmt.Sprint(i), fmt.Sprintf("hive %d of the bees", i), nil)
	}
	var scored int
	r := rerankFunc(func(_ string, texts []string) ([]float64, error) {
		scored = len(texts)
		return make([]float64, len(texts)), nil
	})
	if s.recall(memory.RecallerOptions{Reranker: r}, "bees"); scored < 50 || scored > 60 {
		t.Errorf("the reranker scored %d memories", scored)
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
