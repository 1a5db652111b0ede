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

// Bad input is refused with an error that names it, before anything is written.
func TestBadInputIsRefused(t *testing.T) {
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
		{"no namespace", put(nil, "k", ok, nil), "namespace is empty: an item needs at least one segment"},
		{"an empty segment", put(store.Namespace{"a", ""}, "k", ok, nil), `namespace ["a" ""] segment 1 is empty`},
		{"a segment of bytes", put(store.Namespace{"\xff"}, "k", ok, nil), `namespace ["\xff"] segment 0 is not valid UTF-8`},
		{"a long namespace", put(store.Namespace{strings.Repeat("x", 1024)}, "k", ok, nil), "namespace takes 1025 bytes, at most 1024 are allowed"},
		{"no key", put(a, "", ok, nil), `key in namespace ["a"] is empty`},
		{"a key of bytes", put(a, "\xff", ok, nil), `key "\xff" in namespace ["a"] is not valid UTF-8`},
		{"a long key", put(a, strings.Repeat("\x00", 600), ok, nil), `key in namespace ["a"] takes more than 1024 bytes`},
		{"a number", put(a, "k", 7, nil), `value of key "k" in namespace ["a"] is not a JSON object but 7`},
		{"a list", put(a, "k", []int{1}, nil), `value of key "k" in namespace ["a"] is not a JSON object but [1]`},
		{"nothing", put(a, "k", nil, nil), `value of key "k" in namespace ["a"] is not a JSON object but null`},
		{"no JSON", put(a, "k", json.RawMessage(`{"a":`), nil), `value of key "k" in namespace ["a"] is not JSON: json: error calling MarshalJSON for type json.RawMessage: unexpected end of JSON input`},
		{"a function", put(a, "k", map[string]any{"f": func() {}}, nil), `value of key "k" in namespace ["a"] is not JSON: json: unsupported type: func()`},
		{"NaN", put(a, "k", map[string]any{"f": math.NaN()}, nil), `value of key "k" in namespace ["a"] is not JSON: json: unsupported value: NaN`},
		{"text of bytes", put(a, "k", json.RawMessage("{\"a\":\"\xff\"}"), nil), `value of key "k" in namespace ["a"] has text that is not valid UTF-8`},
		{"a large value", put(a, "k", map[string]string{"v": strings.Repeat("x", store.MaxValue)}, nil), `value of key "k" in namespace ["a"] takes 16777224 bytes, at most 16777216 are allowed`},
		{"meta of another kind", put(a, "k", ok, &store.PutOptions{Meta: "x"}), `meta of key "k" in namespace ["a"] is not a JSON object but "x"`},
		{"a negative TTL", put(a, "k", ok, &store.PutOptions{TTL: -2}), `TTL of key "k" in namespace ["a"] is -2ns: it must be at least a microsecond, or Forever`},
		{"a tiny TTL", put(a, "k", ok, &store.PutOptions{TTL: 10}), `TTL of key "k" in namespace ["a"] is 10ns: it must be at least a microsecond, or Forever`},
		{"two conditions", put(a, "k", ok, &store.PutOptions{IfVersion: 1, IfAbsent: true}), `put of key "k" in namespace ["a"] has IfVersion and IfAbsent: they exclude each other`},
		{"a negative version", put(a, "k", ok, &store.PutOptions{IfVersion: -1}), `put of key "k" in namespace ["a"] has a condition on version -1`},
		{"no paths", put(a, "k", ok, &store.PutOptions{Index: []string{}}), `index of key "k" in namespace ["a"] has no paths: set NoIndex to hide an item from queries`},
		{"paths and none", put(a, "k", ok, &store.PutOptions{Index: []string{"a"}, NoIndex: true}), `index of key "k" in namespace ["a"] has paths and NoIndex: they exclude each other`},
		{"a bad path", put(a, "k", ok, &store.PutOptions{Index: []string{"a[x]"}}), `index of key "k" in namespace ["a"] path "a[x]" has the index "x", which is neither a number nor *`},
		{"get without a key", func(s *store.Store) error { _, err := s.Get(t.Context(), a, "", nil); return err }, `key in namespace ["a"] is empty`},
		{"delete without a namespace", func(s *store.Store) error { return s.Delete(t.Context(), nil, "k", nil) }, "namespace is empty: an item needs at least one segment"},
		{"delete of a negative version", func(s *store.Store) error { return s.Delete(t.Context(), a, "k", &store.DeleteOptions{IfVersion: -1}) }, `delete of key "k" in namespace ["a"] has a condition on version -1`},
		{"history without a key", func(s *store.Store) error { _, err := s.History(t.Context(), a, ""); return err }, `key in namespace ["a"] is empty`},
		{"forgetting all there is", func(s *store.Store) error { return s.ForgetAll(t.Context(), nil) }, "namespace is empty: an item needs at least one segment"},
		{"forgetting without a key", func(s *store.Store) error { return s.Forget(t.Context(), a, "") }, `key in namespace ["a"] is empty`},
		{"a negative limit", search(nil, store.SearchOptions{Limit: -1}), "limit is -1: it must not be negative"},
		{"an endless limit", search(nil, store.SearchOptions{Limit: math.MaxInt}), "limit 9223372036854775807 and offset 0 must not be greater than 1073741824"},
		{"a negative offset", search(nil, store.SearchOptions{Offset: -1}), "offset is -1: it must not be negative"},
		{"a prefix with an empty segment", search(store.Namespace{""}, store.SearchOptions{}), `namespace [""] segment 0 is empty`},
		{"an unknown ranking", search(nil, store.SearchOptions{Ranking: 9}), "ranking 9 does not exist: use Auto, Semantic, Keyword or Hybrid"},
		{"meaning without an embedder", search(nil, store.SearchOptions{Ranking: store.Hybrid}), "ranking by meaning needs an embedder: set Options.Embedder"},
		{"a negative limit of namespaces", list(store.NamespacesOptions{Limit: -1}), "limit is -1: it must not be negative"},
		{"a negative depth", list(store.NamespacesOptions{MaxDepth: -1}), "max depth is -1: it must not be negative"},
		{"an empty segment in a pattern", list(store.NamespacesOptions{Suffix: store.Namespace{""}}), `namespace [""] segment 0 is empty`},
		{"an unknown operator", filter(store.Filter{Op: "like", Path: []string{"a"}}), `filter has an unknown operator "like"`},
		{"an unknown operator within", filter(store.Not(store.And(store.Filter{Op: "like"}))), `filter has an unknown operator "like"`},
		{"an order of booleans", filter(store.Gt("a", true)), "filter a gt compares with true: only numbers and texts have an order"},
		{"a value that is no JSON", filter(store.Eq("a", math.Inf(1))), "filter a eq: json: unsupported value: +Inf"},
		{"an empty path", filter(store.Eq("", 1)), "filter a path is empty"},
		{"a comparison without values", filter(store.Filter{Op: store.OpEq, Path: []string{"a"}}), "filter a eq has 0 values"},
		{"a comparison without a path", filter(store.Filter{Op: store.OpExists}), "filter exists has no path"},
		{"no filter in not", filter(store.Filter{Op: store.OpNot}), "filter not needs exactly one filter, it has 0"},
		{"watching from before the beginning", func(s *store.Store) error {
			for _, err := range s.Watch(t.Context(), nil, -2) {
				return err
			}
			return nil
		}, "version to watch from is negative"},
		{"an operation by pointer", func(s *store.Store) error {
			_, err := s.Batch(t.Context(), &store.PutOp{Namespace: a, Key: "k", Value: ok})
			return err
		}, "operation is a *store.PutOp: give it by value"},
		{"no operation", func(s *store.Store) error { _, err := s.Batch(t.Context(), nil); return err }, "operation is nil"},
		{"a conditional write twice", func(s *store.Store) error {
			_, err := s.Batch(t.Context(), store.PutOp{Namespace: a, Key: "k", Value: ok},
				store.DeleteOp{Namespace: a, Key: "k", DeleteOptions: store.DeleteOptions{IfVersion: 1}})
			return err
		}, `operation 1: store: key "k" in namespace ["a"] is written twice in a batch, and a condition on its version cannot hold for both`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := store.NewMemory(nil)
			if err != nil {
				t.Fatal(err)
			}
			err = test.do(s)
			if _, ok := errors.AsType[*store.InvalidError](err); !ok {
				t.Fatalf("the error is %v", err)
			}
			want := test.want
			if !strings.HasPrefix(want, "operation 1") {
				want = "store: " + want
			}
			if err.Error() != want {
				t.Errorf("the error is\n%s\nwant\n%s", err, want)
			}
			if items, err := s.Search(t.Context(), nil, nil); len(items) > 0 || err != nil {
				t.Errorf("then there is %v, %v", items, err)
			}
		})
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for want, o := range map[string]store.Options{
		`field "a..b" has an empty part between dots`:                      {Fields: []string{"$", "a..b"}},
		"embedder treadle-hash-1 has dimension 0":                          {Embedder: store.NewHashEmbedder(0)},
		"options have a TTL of -1ns":                                       {TTL: -1},
		"options have a TTL of 1ns":                                        {TTL: 1},
		"options have a History of -1: 1 is the least":                     {History: -1},
		"options have a HistoryAge of -1ns":                                {HistoryAge: -1},
		"ranking by meaning needs an embedder: set Options.Embedder":       {Ranking: store.Semantic},
		"ranking -1 does not exist: use Auto, Semantic, Keyword or Hybrid": {Ranking: -1},
	} {
		if _, err := store.NewMemory(&o); err == nil || err.Error() != "store: "+want {
			t.Errorf("%+v: the error is %v, want %s", o, err, want)
		}
	}
}

func TestAConflictSaysWhatToDo(t *testing.T) {
	s, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Put(t.Context(), store.Namespace{"a"}, "k", map[string]any{}, &store.PutOptions{IfVersion: 3})
	want := `store: key "k" in namespace ["a"] is at version 0, the write was to replace version 3: get it again and retry`
	if err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

// vectors answers with what it has.
type vectors [][]float32

func (vectors) Model() string  { return "test" }
func (vectors) Dimension() int { return 2 }
func (v vectors) Embed(context.Context, []string) ([][]float32, error) {
	return append([][]float32(nil), v...), nil
}

func TestABadEmbeddingIsNamed(t *testing.T) {
	nan := float32(math.NaN())
	for want, v := range map[string]vectors{
		"store: embed by test: 0 vectors for 1 texts":                                       {},
		"store: embed by test: 2 vectors for 1 texts":                                       {{1, 2}, {1, 2}},
		`store: embed by test: the vector of "{\"t\":\"x\"}" has 3 dimensions instead of 2`: {{1, 2, 3}},
		`store: embed by test: the vector of "{\"t\":\"x\"}" has NaN at 1`:                  {{1, nan}},
	} {
		s, err := store.NewMemory(&store.Options{Embedder: v})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Put(t.Context(), store.Namespace{"a"}, "k", map[string]string{"t": "x"}, nil)
		if _, ok := errors.AsType[*store.EmbedError](err); !ok || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
		if _, err := s.Get(t.Context(), store.Namespace{"a"}, "k", nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("then get gives %v", err)
		}
	}
}

func TestAStoreNeedsABackend(t *testing.T) {
	var invalid *store.InvalidError
	if _, err := store.New(nil, nil); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "backend is nil") {
		t.Errorf("the error is %v", err)
	}
}
