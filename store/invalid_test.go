package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/store"
)

var testTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Invalid input is rejected with an error that names it, before anything is
// written.
func TestInvalidInputIsRejected(t *testing.T) {
	a := store.Namespace{"a"}
	put := func(n store.Namespace, key string, value any, o *store.PutOptions) func(*store.Store) error {
		return func(s *store.Store) error { return s.Put(t.Context(), n, key, value, o) }
	}
	search := func(prefix store.Namespace, o store.SearchOptions) func(*store.Store) error {
		return func(s *store.Store) error { _, err := s.Search(t.Context(), prefix, &o); return err }
	}
	list := func(o store.NamespacesOptions) func(*store.Store) error {
		return func(s *store.Store) error { _, err := s.Namespaces(t.Context(), &o); return err }
	}
	filter := func(f store.Filter) func(*store.Store) error { return search(nil, store.SearchOptions{Filter: f}) }
	ok := map[string]any{}
	for _, test := range []struct {
		name string
		do   func(*store.Store) error
		want string
	}{
		{"no namespace", put(nil, "k", ok, nil), "namespace is empty: use at least one segment"},
		{"empty segment", put(store.Namespace{"a", ""}, "k", ok, nil), `namespace ["a" ""] segment 1 is empty`},
		{"segment of invalid UTF-8", put(store.Namespace{"\xff"}, "k", ok, nil), `namespace ["\xff"] segment 0 is not valid UTF-8`},
		{"long namespace", put(store.Namespace{strings.Repeat("x", 1024)}, "k", ok, nil), "namespace has 1025 bytes: the limit is 1024"},
		{"no key", put(a, "", ok, nil), `key in namespace ["a"] is empty`},
		{"key of invalid UTF-8", put(a, "\xff", ok, nil), `key "\xff" in namespace ["a"] is not valid UTF-8`},
		{"long key", put(a, strings.Repeat("\x00", 600), ok, nil), `key in namespace ["a"] exceeds 1024 bytes`},
		{"number", put(a, "k", 7, nil), `value of key "k" in namespace ["a"] is not a JSON object: 7`},
		{"list", put(a, "k", []int{1}, nil), `value of key "k" in namespace ["a"] is not a JSON object: [1]`},
		{"null", put(a, "k", nil, nil), `value of key "k" in namespace ["a"] is not a JSON object: null`},
		{"invalid JSON", put(a, "k", json.RawMessage(`{"a":`), nil), `value of key "k" in namespace ["a"] cannot be encoded as JSON: json: error calling MarshalJSON for type json.RawMessage: unexpected end of JSON input`},
		{"function", put(a, "k", map[string]any{"f": func() {}}, nil), `value of key "k" in namespace ["a"] cannot be encoded as JSON: json: unsupported type: func()`},
		{"NaN", put(a, "k", map[string]any{"f": math.NaN()}, nil), `value of key "k" in namespace ["a"] cannot be encoded as JSON: json: unsupported value: NaN`},
		{"text of invalid UTF-8", put(a, "k", json.RawMessage("{\"a\":\"\xff\"}"), nil), `value of key "k" in namespace ["a"] contains invalid UTF-8`},
		{"large value", put(a, "k", map[string]string{"v": strings.Repeat("x", store.MaxValue)}, nil), `value of key "k" in namespace ["a"] has 16777224 bytes: the limit is 16777216`},
		{"meta of another kind", put(a, "k", ok, &store.PutOptions{Meta: "x"}), `meta of key "k" in namespace ["a"] is not a JSON object: "x"`},
		{"negative TTL", put(a, "k", ok, &store.PutOptions{TTL: -2}), `TTL of key "k" in namespace ["a"] is -2ns: want 1µs or more, or Forever`},
		{"tiny TTL", put(a, "k", ok, &store.PutOptions{TTL: 10}), `TTL of key "k" in namespace ["a"] is 10ns: want 1µs or more, or Forever`},
		{"two conditions", put(a, "k", ok, &store.PutOptions{IfVersion: 1, IfAbsent: true}), `put of key "k" in namespace ["a"] sets both IfVersion and IfAbsent: set only one`},
		{"negative version", put(a, "k", ok, &store.PutOptions{IfVersion: -1}), `put of key "k" in namespace ["a"] has an invalid IfVersion -1: want 1 or more, or 0 for any`},
		{"no paths", put(a, "k", ok, &store.PutOptions{Index: []string{}}), `index of key "k" in namespace ["a"] has no paths: set NoIndex to hide an item from queries`},
		{"paths and NoIndex", put(a, "k", ok, &store.PutOptions{Index: []string{"a"}, NoIndex: true}), `index of key "k" in namespace ["a"] has both paths and NoIndex: set only one`},
		{"invalid path", put(a, "k", ok, &store.PutOptions{Index: []string{"a[x]"}}), `index of key "k" in namespace ["a"] path "a[x]" has an invalid index "x": want a number or *`},
		{"get without a key", func(s *store.Store) error { _, err := s.Get(t.Context(), a, "", nil); return err }, `key in namespace ["a"] is empty`},
		{"delete without a namespace", func(s *store.Store) error { return s.Delete(t.Context(), nil, "k", nil) }, "namespace is empty: use at least one segment"},
		{"delete of a negative version", func(s *store.Store) error { return s.Delete(t.Context(), a, "k", &store.DeleteOptions{IfVersion: -1}) }, `delete of key "k" in namespace ["a"] has an invalid IfVersion -1: want 1 or more, or 0 for any`},
		{"history without a key", func(s *store.Store) error { _, err := s.History(t.Context(), a, ""); return err }, `key in namespace ["a"] is empty`},
		{"ForgetAll without a prefix", func(s *store.Store) error { return s.ForgetAll(t.Context(), nil) }, "namespace is empty: use at least one segment"},
		{"forgetting without a key", func(s *store.Store) error { return s.Forget(t.Context(), a, "") }, `key in namespace ["a"] is empty`},
		{"negative limit", search(nil, store.SearchOptions{Limit: -1}), "limit -1 is invalid: want 1 or more, or 0 for 10"},
		{"huge limit", search(nil, store.SearchOptions{Limit: math.MaxInt}), "limit 9223372036854775807 or offset 0 exceeds 1073741824"},
		{"negative offset", search(nil, store.SearchOptions{Offset: -1}), "offset -1 is invalid: want 0 or more"},
		{"prefix with an empty segment", search(store.Namespace{""}, store.SearchOptions{}), `namespace [""] segment 0 is empty`},
		{"unknown ranking", search(nil, store.SearchOptions{Ranking: 9}), "ranking 9 is unknown: use Auto, Semantic, Keyword, or Hybrid"},
		{"semantic ranking without an embedder", search(nil, store.SearchOptions{Ranking: store.Hybrid}), "ranking requires an embedder: set Options.Embedder"},
		{"negative limit of namespaces", list(store.NamespacesOptions{Limit: -1}), "limit -1 is invalid: want 1 or more, or 0 for 100"},
		{"negative depth", list(store.NamespacesOptions{MaxDepth: -1}), "max depth -1 is invalid: want 1 or more, or 0 for no limit"},
		{"empty segment in a pattern", list(store.NamespacesOptions{Suffix: store.Namespace{""}}), `namespace [""] segment 0 is empty`},
		{"unknown operator", filter(store.Filter{Op: "like", Path: []string{"a"}}), `filter has an unknown operator "like"`},
		{"nested unknown operator", filter(store.Not(store.And(store.Filter{Op: "like"}))), `filter has an unknown operator "like"`},
		{"ordered booleans", filter(store.Gt("a", true)), "filter a gt compares with true: only numbers and strings are ordered"},
		{"value without JSON", filter(store.Eq("a", math.Inf(1))), "filter a eq: json: unsupported value: +Inf"},
		{"empty path", filter(store.Eq("", 1)), "filter has an empty path"},
		{"comparison without values", filter(store.Filter{Op: store.OpEq, Path: []string{"a"}}), "filter a eq has 0 values"},
		{"comparison without a path", filter(store.Filter{Op: store.OpExists}), "filter exists has no path"},
		{"no filter in not", filter(store.Filter{Op: store.OpNot}), "filter not takes one filter, not 0"},
		{"watch from a negative version", func(s *store.Store) error {
			for _, err := range s.Watch(t.Context(), nil, -2) {
				return err
			}
			return nil
		}, "watch has an invalid start -2: want a version, 0, or store.Latest"},
		{"operation by pointer", func(s *store.Store) error {
			_, err := s.Batch(t.Context(), &store.PutOp{Namespace: a, Key: "k", Value: ok})
			return err
		}, "operation is a *store.PutOp: pass it by value"},
		{"no operation", func(s *store.Store) error { _, err := s.Batch(t.Context(), nil); return err }, "operation is nil"},
		{"two conditional writes", func(s *store.Store) error {
			_, err := s.Batch(t.Context(), store.PutOp{Namespace: a, Key: "k", Value: ok},
				store.DeleteOp{Namespace: a, Key: "k", DeleteOptions: store.DeleteOptions{IfVersion: 1}})
			return err
		}, `operation 1: store: key "k" in namespace ["a"] is written twice in one batch with a version condition: write it once`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := store.NewMemory(nil)
			if err != nil {
				t.Fatal(err)
			}
			err = test.do(s)
			if _, ok := errors.AsType[*store.InvalidError](err); !ok {
				t.Fatalf("got error %v", err)
			}
			want := test.want
			if !strings.HasPrefix(want, "operation 1") {
				want = "store: " + want
			}
			if err.Error() != want {
				t.Errorf("got error\n%s\nwant\n%s", err, want)
			}
			if items, err := s.Search(t.Context(), nil, nil); len(items) > 0 || err != nil {
				t.Errorf("after the error, the store contains %v, %v", items, err)
			}
		})
	}
}

func TestInvalidOptionsAreRejected(t *testing.T) {
	for want, o := range map[string]store.Options{
		`field "a..b" has an empty part between dots`:                                 {Fields: []string{"$", "a..b"}},
		"embedder treadle-hash-1 has invalid dimension 0":                             {Embedder: store.NewHashEmbedder(0)},
		"options have an invalid TTL -1ns: want 1µs or more, or 0 for none":           {TTL: -1},
		"options have an invalid TTL 1ns: want 1µs or more, or 0 for none":            {TTL: 1},
		"options have an invalid History -1: want 1 or more, or 0 for 100":            {History: -1},
		"options have an invalid HistoryAge -1ns: want more than 0, or 0 for forever": {HistoryAge: -1},
		"ranking requires an embedder: set Options.Embedder":                          {Ranking: store.Semantic},
		"ranking -1 is unknown: use Auto, Semantic, Keyword, or Hybrid":               {Ranking: -1},
	} {
		if _, err := store.NewMemory(&o); err == nil || err.Error() != "store: "+want {
			t.Errorf("%+v: got error %v, want %s", o, err, want)
		}
	}
}

func TestConflictErrorNamesRemedy(t *testing.T) {
	s, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Put(t.Context(), store.Namespace{"a"}, "k", map[string]any{}, &store.PutOptions{IfVersion: 3})
	want := `store: key "k" in namespace ["a"] is at version 0, not 3: read it again and retry`
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

// vectors is an embedder that returns itself.
type vectors [][]float32

func (vectors) Model() string  { return "test" }
func (vectors) Dimension() int { return 2 }
func (v vectors) Embed(context.Context, []string) ([][]float32, error) {
	return append([][]float32(nil), v...), nil
}

func TestInvalidEmbeddingIsReported(t *testing.T) {
	nan := float32(math.NaN())
	for want, v := range map[string]vectors{
		"store: embed with test: 0 vectors for 1 texts":                              {},
		"store: embed with test: 2 vectors for 1 texts":                              {{1, 2}, {1, 2}},
		`store: embed with test: vector of "{\"t\":\"x\"}" has 3 dimensions, want 2`: {{1, 2, 3}},
		`store: embed with test: vector of "{\"t\":\"x\"}" contains NaN at index 1`:  {{1, nan}},
	} {
		s, err := store.NewMemory(&store.Options{Embedder: v})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Put(t.Context(), store.Namespace{"a"}, "k", map[string]string{"t": "x"}, nil)
		if _, ok := errors.AsType[*store.EmbedError](err); !ok || err.Error() != want {
			t.Errorf("got error %v, want %s", err, want)
		}
		if _, err := s.Get(t.Context(), store.Namespace{"a"}, "k", nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("get after the error: %v", err)
		}
	}
}

func TestNewRequiresBackend(t *testing.T) {
	var invalid *store.InvalidError
	if _, err := store.New(nil, nil); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "backend is nil") {
		t.Errorf("got error %v", err)
	}
}
