package memory_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// diary has a walk in each month of a year, all in the same words.
func diary(t *testing.T) *shelf {
	s := newShelf(t, store.Options{})
	for m := time.January; m <= time.December; m++ {
		s.now = time.Date(2025, m, 10, 12, 0, 0, 0, time.UTC)
		s.note(m.String(), fmt.Sprintf("Ann took a walk with dog %c", 'a'+rune(m)), nil)
	}
	s.now = time.Date(2026, 1, 14, 12, 0, 0, 0, time.UTC) // a Wednesday
	return s
}

func TestMemoryOfRequestedTimeRanksFirst(t *testing.T) {
	for query, want := range map[string]string{
		"Which dog did Ann walk in March?":         "March",
		"Which dog did Ann walk in April 2025?":    "April",
		"Which dog did Ann walk on July 10, 2025?": "July",
		"Which dog did Ann walk last month?":       "December",
		"Which dog did Ann walk 3 months ago?":     "October",
		"Which dog did Ann walk before February?":  "January",
		"Which dog did Ann walk in 2025-06-10?":    "June",
		"Which dog did Ann walk?":                  "December", // the newest
	} {
		got := recalledKeys(diary(t).recall(memory.RecallerOptions{Weights: &memory.Weights{Recency: 0.2, Time: 0.5}}, query))
		if len(got) == 0 || got[0] != want {
			t.Errorf("%s: %v", query, got)
		}
	}
}

func TestMemoryTimeFromText(t *testing.T) {
	s := newShelf(t, store.Options{})
	s.note("validity", "Ann rents a boat in Kiel", map[string]any{"validity": memory.Validity{From: time.Date(2024, 7, 1, 0, 0, 0, 0, time.UTC)}})
	s.note("text", "Ann rents a boat in Rome, on 3 May 2023", nil)
	s.note("none", "Ann rents a boat in Oslo", nil)
	for query, want := range map[string]string{
		"Where did Ann rent a boat in May 2023?":     "text",
		"Where did Ann rent a boat in August 2024?":  "validity",
		"Where did Ann rent a boat this month?":      "none",
		"When did Ann rent a boat in Rome or where?": "text",
	} {
		got := s.recall(memory.RecallerOptions{Weights: &memory.Weights{Time: 0.5}}, query)
		if keys := recalledKeys(got); len(keys) != 3 || keys[0] != want && got.Memories[0].Score != got.Memories[1].Score {
			t.Errorf("%s: %v, by %v", query, keys, got.Memories[0].Why)
		}
	}
}

func TestEventTime(t *testing.T) {
	s := newShelf(t, store.Options{})
	at := func(month time.Month, key, text string) {
		s.now = time.Date(2025, month, 3, 0, 0, 0, 0, time.UTC)
		s.note(key, text, nil)
	}
	at(1, "old", "The gym is on Main Street")
	at(3, "move", "I moved to Rome")
	at(5, "new", "The gym is on Via Appia")
	weights := &memory.Weights{Time: 0.5}
	got := s.recall(memory.RecallerOptions{Weights: weights}, "Where was my gym before I moved?")
	if keys := recalledKeys(got); len(keys) != 3 || keyAt(keys, "old") > keyAt(keys, "new") {
		t.Errorf("%v: %v", keys, got.Memories)
	}
	got = s.recall(memory.RecallerOptions{Weights: weights}, "Where is the gym since I moved to Rome?")
	if keys := recalledKeys(got); len(keys) != 3 || got.Memories[keyAt(keys, "new")].Why.Time != 1 || got.Memories[keyAt(keys, "old")].Why.Time > 0.1 {
		t.Errorf("%v: %v", keys, got.Memories)
	}
}

func keyAt(keys []string, key string) int {
	for i, k := range keys {
		if k == key {
			return i
		}
	}
	return 0
}

func TestTimeIsIgnoredWithoutWeight(t *testing.T) {
	s := diary(t)
	for _, m := range s.recall(memory.RecallerOptions{Weights: &memory.Weights{Recency: 0.2}}, "Which dog did Ann walk in March?").Memories {
		if m.Why.Time != 0 {
			t.Errorf("%s: %v", m.Item.Key, m.Why)
		}
	}
	for _, weight := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := memory.NewRecaller(&memory.RecallerOptions{Weights: &memory.Weights{Time: weight}}); err == nil {
			t.Errorf("a weight of %v is accepted", weight)
		}
	}
}
