package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// holidayEmbedder has one topic: holidays.
type holidayEmbedder struct{}

func (holidayEmbedder) Model() string  { return "holidays" }
func (holidayEmbedder) Dimension() int { return 3 }
func (holidayEmbedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, t := range texts {
		switch {
		case strings.Contains(t, "holiday"):
			out[i] = []float32{1, 0, 0}
		case strings.Contains(t, "Anglesey"):
			out[i] = []float32{1, 0.2, 0}
		default:
			out[i] = []float32{0.2, 0, 1}
		}
	}
	return out, nil
}

func TestNearestBeatsFrequentWords(t *testing.T) {
	s := newShelf(t, store.Options{Embedder: holidayEmbedder{}})
	s.note("answer", "A week in Anglesey: saw puffins", nil)
	for i := range 150 {
		s.note(fmt.Sprint(i), fmt.Sprintf("Ben put box %d on the shelf", i), map[string]any{"importance": 1})
	}
	got := s.recall(memory.RecallerOptions{Limit: 1}, "Where did we go on the holiday?")
	wantRecalled(t, got, "answer")
}

func TestBestKeywordMatchIsRecalled(t *testing.T) {
	s := newShelf(t, store.Options{Embedder: holidayEmbedder{}})
	s.note("answer", "Zoë keeps a ferret", nil)
	for i := range 150 {
		s.note(fmt.Sprint(i), fmt.Sprintf("%d days in Anglesey", i), map[string]any{"importance": 1})
	}
	got := s.recall(memory.RecallerOptions{}, "What of Zoe and the holiday?")
	if keys := recalledKeys(got); !slices.Contains(keys, "answer") {
		t.Errorf("recalled is %q", keys)
	}
}

// TestRepeatsDoNotFillPool notes a fact many times, as programs without a check for duplicates
// do, and expects the other facts next to it.
func TestRepeatsDoNotFillPool(t *testing.T) {
	for _, copies := range []int{40, 450} {
		t.Run(fmt.Sprint(copies), func(t *testing.T) {
			s := newShelf(t, store.Options{})
			for i := range 5 {
				s.note(fmt.Sprint("other", i), fmt.Sprintf("Ann went to the tea house number %d", i), nil)
			}
			for i := range copies {
				s.note(fmt.Sprint(i), []string{"Ann drinks green tea", "Ann drinks green tea!"}[i%2], nil)
			}
			got := s.recall(memory.RecallerOptions{}, "Which green tea does Ann drink?")
			if keys := recalledKeys(got); len(keys) != 6 || !slices.Contains(keys, "other0") {
				t.Errorf("recalled is %q", keys)
			}
		})
	}
}

func TestKeywordsDoNotBypassThreshold(t *testing.T) {
	s := newShelf(t, store.Options{Embedder: holidayEmbedder{}})
	s.note("box", "Ben put a box on the shelf", nil)
	s.note("trip", "A week in Anglesey", nil)
	got := s.recall(memory.RecallerOptions{MinSimilarity: 0.9}, "What is the holiday on the shelf?")
	wantRecalled(t, got, "trip")
	if got.Hidden != 1 {
		t.Errorf("%d are hidden, want the dissimilar one", got.Hidden)
	}
	// The similarity of items outside the nearest is unknown, so it does not suffice.
	for i := range 120 {
		s.note(fmt.Sprint(i), fmt.Sprintf("%d days in Anglesey", i), nil)
	}
	for _, m := range s.recall(memory.RecallerOptions{MinSimilarity: 0.9, Limit: 50}, "Ben put a box on the shelf, a holiday").Memories {
		if m.Why.Search.Similarity < 0.9 {
			t.Errorf("%q is recalled, by %v", m.Item.Key, m.Why)
		}
	}
	// Where nothing is known of meaning there is nothing to compare with.
	words := newShelf(t, store.Options{})
	words.note("tea", "likes tea", nil)
	wantRecalled(t, words.recall(memory.RecallerOptions{MinSimilarity: 0.9}, "tea"), "tea")
}

// nearEmbedder treats all texts as equally similar, except those marked as near; memories
// are the least similar.
type nearEmbedder struct{}

func (nearEmbedder) Model() string  { return "near" }
func (nearEmbedder) Dimension() int { return 2 }
func (nearEmbedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, t := range texts {
		switch {
		case strings.Contains(t, "near"):
			out[i] = []float32{1, 0.4}
		case strings.Contains(t, "memory of"):
			out[i] = []float32{1, 0.9}
		default:
			out[i] = []float32{1, 0}
		}
	}
	return out, nil
}

// What a word is, the store says; it folds accents, and in some scripts each
// character is one.
func TestNamesInAllScriptsWeighEqually(t *testing.T) {
	relevance := func(name string) float64 {
		s := newShelf(t, store.Options{Embedder: nearEmbedder{}})
		s.note("near", "something near", nil)
		s.note("named", "memory of "+name, nil)
		for _, m := range s.recall(memory.RecallerOptions{Weights: &memory.Weights{}}, name).Memories {
			if m.Item.Key == "near" {
				return m.Why.Relevance
			}
		}
		t.Fatalf("%s: the near memory is not recalled", name)
		return 0
	}
	plain := relevance("zoe")
	if plain >= 1 {
		t.Fatalf("the memory with the name is not first: the other's relevance is %v", plain)
	}
	for _, name := range []string{"zoë", "ZOË", "佐藤花子", "Łukasz Żółć"} {
		if got := relevance(name); got > 1.05*plain {
			t.Errorf("%s: what does not have the name weighs %.2f, for zoe it is %.2f", name, got, plain)
		}
	}
}

func TestEndedMemoriesDoNotHideValidOnes(t *testing.T) {
	zone := time.FixedZone("far west", -11*60*60)
	for name, over := range map[string]func(now time.Time, i int) time.Time{
		"long ago": func(now time.Time, i int) time.Time { return now.AddDate(0, 0, -2-i) },
		"today":    func(now time.Time, i int) time.Time { return now.Add(-time.Duration(i) * time.Second) },
		"elsewhere": func(now time.Time, i int) time.Time {
			return now.Add(-time.Duration(i) * time.Minute).In(zone)
		},
	} {
		for _, o := range []store.Options{{}, {Embedder: store.NewHashEmbedder(32)}} {
			t.Run(fmt.Sprint(name, " by meaning ", o.Embedder != nil), func(t *testing.T) {
				s := newShelf(t, o)
				until := func(at time.Time) any { return map[string]any{"validity": memory.Validity{Until: at}} }
				start := s.now
				s.note("now", "The standup is at ten, in the small room upstairs beside the kitchen, since the move", until(start.AddDate(1, 0, 0)))
				s.note("soon", "It will be over in an hour: the standup in the small room upstairs beside the kitchen", until(start.Add(time.Hour).In(zone)))
				for i := range 150 {
					s.note(fmt.Sprint(i), fmt.Sprintf("The standup of the day %d is at nine", i), until(over(start, i)))
				}
				s.now = start.Add(30 * time.Minute)
				got := s.recall(memory.RecallerOptions{Weights: &memory.Weights{}}, "when is the standup of the day")
				if len(got.Memories) != 2 || got.Hidden < 100 {
					t.Errorf("recalled is %q, and %d are hidden", recalledKeys(got), got.Hidden)
				}
			})
		}
	}
}

func TestSearchToolReturnsValidity(t *testing.T) {
	s := newShelf(t, store.Options{})
	day := func(d int) time.Time { return time.Date(2025, 3, d, 0, 0, 0, 0, time.UTC) }
	s.note("bonn", "Ann lives in Bonn", map[string]any{"validity": memory.Validity{From: day(1), Until: day(9)}})
	s.note("rome", "Ann lives in Rome", nil)
	tool, err := memory.SearchTool(&memory.ToolOptions{Store: s.Store, Namespace: memories})
	if err != nil {
		t.Fatal(err)
	}
	out, err := call(t, tool, `{"query":"where Ann lives"}`)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	if !strings.Contains(text, `"valid_from":"2025-03-01","valid_until":"2025-03-09"`) || strings.Count(text, "valid_until") != 1 {
		t.Errorf("the model receives %s", text)
	}
}

func TestRecallLimitsQueryWords(t *testing.T) {
	s := newShelf(t, store.Options{})
	var log strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&log, "w%d ", i)
	}
	s.note("log", log.String(), nil)
	s.note("zoe", "Zoë's printer is on the second floor", nil)
	got := s.recall(memory.RecallerOptions{MaxTokens: 1 << 20}, log.String()+"\nWhere is Zoë's printer?")
	if len(got.Memories) != 2 {
		t.Fatalf("recalled is %q", recalledKeys(got))
	}
	for _, m := range got.Memories {
		if n := len(m.Why.Search.Terms); n > 128 {
			t.Errorf("%q is found by %d words", m.Item.Key, n)
		}
	}
}
