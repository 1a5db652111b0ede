// Package storetest defines the behavior of [store.Backend] as tests: a backend that
// passes [Run] and [Differential] works with [store.Store].
package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/treadle-go/treadle/store"
)

// Run tests a Backend. open returns an empty backend and cleans up with t.Cleanup; it
// is called once per test. without names tests that do not apply to the backend.
func Run(t *testing.T, open func(t *testing.T) store.Backend, without ...string) {
	t.Helper()
	for _, group := range [][]test{items, batches, lifetimes, listings, queries, namespaces, past, travel, watching, reindexing, tenants, races} {
		for _, test := range group {
			if slices.Contains(without, test.name) {
				continue
			}
			t.Run(test.name, func(t *testing.T) { test.run(newFixture(t, open(t))) })
		}
	}
}

type test struct {
	name string
	run  func(*fixture)
}

// fixture is a backend under test, with a store and a clock.
type fixture struct {
	*testing.T
	backend store.Backend
	clock   *clock
	*store.Store
}

func newFixture(t *testing.T, b store.Backend) *fixture {
	w := &fixture{T: t, backend: b, clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}}
	w.Store = w.with(store.Options{})
	return w
}

// with returns another store on the same backend.
func (w *fixture) with(o store.Options) *store.Store {
	w.Helper()
	o.Now = w.clock.Now
	s, err := store.New(w.backend, &o)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// clock is a clock that stands still until pass is called.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now returns the current time of the clock.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// pass advances the clock and returns the new time.
func (c *clock) pass(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

// ns returns the namespace for a path with slashes.
func ns(path string) store.Namespace {
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

type object map[string]any

func (w *fixture) put(at, key string, value any, opts ...store.PutOptions) {
	w.Helper()
	var o *store.PutOptions
	if len(opts) > 0 {
		o = &opts[0]
	}
	w.ok(w.Put(w.Context(), ns(at), key, value, o))
}

func (w *fixture) delete(at, key string) {
	w.Helper()
	w.ok(w.Delete(w.Context(), ns(at), key, nil))
}

func (w *fixture) get(at, key string) *store.Item {
	w.Helper()
	item, err := w.Get(w.Context(), ns(at), key, nil)
	if err != nil {
		w.Fatal(err)
	}
	return item
}

func (w *fixture) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// must returns a function that fails the test on an error and returns the value.
func must[T any](v T, err error) func(*fixture) T {
	return func(w *fixture) T {
		w.Helper()
		w.ok(err)
		return v
	}
}

// want fails the test if the values differ.
func want(w *fixture, what string, got, want any) {
	w.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// names returns the items as namespace/key strings.
func names(items []*store.Item) []string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = strings.Join(append(append([]string{}, item.Namespace...), item.Key), "/")
	}
	return out
}

func keys(items []*store.Item) string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = item.Key
	}
	return strings.Join(out, " ")
}

// finds searches and compares the keys of the results.
func (w *fixture) finds(s searcher, at string, opts *store.SearchOptions, wanted string) []*store.Item {
	w.Helper()
	items, err := s.Search(w.Context(), ns(at), opts)
	w.ok(err)
	if got := keys(items); got != wanted {
		w.Errorf("search %q %+v finds %q, want %q", at, opts, got, wanted)
	}
	return items
}

type searcher interface {
	Search(context.Context, store.Namespace, *store.SearchOptions) ([]*store.Item, error)
}

// topics is an embedder that recognizes the topics of some words. Its vectors have one
// dimension per topic, and one for unknown words.
type topics struct {
	model string
	calls *[]string // the texts it received
}

var topicOf = map[string]int{
	"pizza": 0, "pasta": 0, "eat": 0, "hungry": 0, "food": 0,
	"plumber": 1, "job": 1, "work": 1, "office": 1,
	"tennis": 2, "swim": 2, "sport": 2,
}

// Model returns a name that includes the version set by the test.
func (e topics) Model() string { return "topics" + e.model }

// Dimension returns the number of topics plus one.
func (e topics) Dimension() int { return 4 }

// Embed counts the words of each topic.
func (e topics) Embed(_ context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if e.calls != nil {
			*e.calls = append(*e.calls, text)
		}
		vectors[i] = []float32{0, 0, 0, 0.1}
		for word := range strings.FieldsSeq(strings.Map(letters, text)) {
			if topic, ok := topicOf[strings.ToLower(word)]; ok {
				vectors[i][topic]++
			}
		}
	}
	return vectors, nil
}

func letters(r rune) rune {
	if strings.ContainsRune(`{}":,.?!`, r) {
		return ' '
	}
	return r
}

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprint("storetest: ", err))
	}
	return b
}
