package memoryimport_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/imports/memoryimport"
	"github.com/treadle-go/treadle/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func newStore(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// described returns the items of a store, one per line.
func described(t testing.TB, s *store.Store) []string {
	t.Helper()
	items, err := s.Search(t.Context(), nil, &store.SearchOptions{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, it := range items {
		created, updated := it.Created.Format(time.RFC3339Nano), it.Updated.Format(time.RFC3339Nano)
		out = append(out, fmt.Sprintf("%v %s %s %s %s %s", it.Namespace, it.Key, created, updated, it.Value, it.Meta))
	}
	slices.Sort(out)
	return out
}

func TestRunImportsOtherSystems(t *testing.T) {
	for name, test := range map[string]struct {
		want     []string
		pinned   []string
		problems []string
	}{
		"mem0.json": {
			want: []string{
				`["memories" "ada"] 7c1f 2026-01-05T17:30:00.25Z 2026-02-01T08:00:00Z {"content":{"content":"Ada drinks <green> tea"},"kind":"Memory"} ` +
					`{"mem0":{"agent_id":"helper","hash":"5d41","metadata":{"topic":"drinks","weight":1.50}}}`,
				`["memories" "ada"] 9e2b 2026-03-01T00:00:00Z 2026-03-01T00:00:00Z {"content":{"content":"Ada is in Rome until Easter"},"kind":"Memory"} ` +
					`{"mem0":{"categories":["travel"]},"validity":{"until":"2026-04-06T00:00:00Z"}}`,
				`["memories" "helper"] b003 2026-01-01T10:00:00Z 2026-01-01T10:00:00Z {"content":{"content":"Answers are short"},"kind":"Memory"} {"mem0":{"role":"user"}}`,
			},
			problems: []string{"entry 4: memory omitted: no text", "entry 5: memory omitted: missing ID or owner",
				`entry 6: memory omitted: invalid ISO 8601 time "soon"`},
		},
		"letta.af": {
			want: []string{
				`["memories" "helper"] human 2026-01-22T02:06:35.101954Z 2026-01-22T02:06:35.101954Z {"content":{"content":"Name: Ada"},"kind":"Memory"} ` +
					`{"letta":{"description":"about the user","limit":20000,"read_only":true}}`,
				`["memories" "helper"] persona 2026-01-22T02:06:35.101954Z 2026-01-22T02:06:35.101954Z {"content":{"content":"I am brief."},"kind":"Memory"} {"letta":{"limit":5000}}`,
				`["memories" "second"] human 2026-01-22T02:06:35.101954Z 2026-01-22T02:06:35.101954Z {"content":{"content":"Name: Ada"},"kind":"Memory"} ` +
					`{"letta":{"description":"about the user","limit":20000,"read_only":true}}`,
			},
			pinned:   []string{"human", "persona"},
			problems: []string{"agent 2, block block-9: memory omitted: no text"},
		},
		"letta-0.6.af": {
			want: []string{
				`["memories" "old agent"] human 2025-04-01T03:47:27Z 2025-04-01T03:52:02.091007Z {"content":{"content":"Name: Bob"},"kind":"Memory"} {"letta":{"limit":5000}}`,
			},
			pinned: []string{"human"},
		},
		"letta-passages.json": {
			want: []string{
				`["memories" "archive-1"] passage-1 2026-02-03T04:05:06Z 2026-02-03T04:05:06Z {"content":{"content":"The boiler is from 1998"},"kind":"Memory"} {"letta":{"tags":["house"]}}`,
			},
			problems: []string{"entry 2: memory omitted: no text"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			dry, err := memoryimport.Run(t.Context(), read(t, name), nil, store.Namespace{"memories"})
			if err != nil || dry.Items != len(test.want) {
				t.Errorf("%v: dry run reports %d items, want %d", err, dry.Items, len(test.want))
			}
			r, err := memoryimport.Run(t.Context(), read(t, name), s, store.Namespace{"memories"})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.want, described(t, s)); d != "" {
				t.Errorf("items (-want +got):\n%s", d)
			}
			var problems []string
			for _, p := range r.Problems {
				problems = append(problems, p.Item+": "+p.Text)
			}
			if d := cmp.Diff(test.problems, problems); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
			if d := cmp.Diff(test.pinned, r.Pinned); d != "" {
				t.Errorf("pinned memories (-want +got):\n%s", d)
			}
			again, err := memoryimport.Run(t.Context(), read(t, name), s, store.Namespace{"memories"})
			if err != nil || again.Items != 0 || again.Same != r.Items {
				t.Errorf("%v: second import added %d items and found %d", err, again.Items, again.Same)
			}
		})
	}
}

func TestRunKeepsNewerItems(t *testing.T) {
	s := newStore(t)
	n := store.Namespace{"memories", "ada"}
	if err := s.Put(t.Context(), n, "7c1f", map[string]string{"content": "mine"}, nil); err != nil {
		t.Fatal(err)
	}
	r, err := memoryimport.Run(t.Context(), read(t, "mem0.json"), s, store.Namespace{"memories"})
	if err != nil || r.Items != 2 || len(r.Problems) != 4 || !strings.Contains(r.Problems[0].Text, "it has changed in the target") {
		t.Errorf("%v: report %+v", err, r)
	}
	if item, err := s.Get(t.Context(), n, "7c1f", nil); err != nil || string(item.Value) != `{"content":"mine"}` {
		t.Errorf("%v: item %s", err, item.Value)
	}
}

func TestRunAddsMemoryWithoutTimeOnce(t *testing.T) {
	s := newStore(t)
	for i := range 2 {
		r, err := memoryimport.Run(t.Context(), []byte(`[{"id":"a","memory":"x","user_id":"u","created_at":null}]`), s, nil)
		if err != nil || r.Items != 1-i || r.Same != i {
			t.Errorf("%v: import %d reports %+v", err, i, r)
		}
	}
}

func TestRunRejectsOtherFiles(t *testing.T) {
	for _, file := range []string{"", "{", "null", "7", `{"a":1}`, `[1]`, `[{"a":1}]`, `[] []`, "hello"} {
		if _, err := memoryimport.Run(t.Context(), []byte(file), newStore(t), nil); !errors.Is(err, memoryimport.ErrFormat) {
			t.Errorf("%q: error %v", file, err)
		}
	}
}

// Parts of a file that are not memories of a user or an agent are listed.
func TestForeignImportListsOmittedParts(t *testing.T) {
	memory := `{"id":"1","memory":"x","user_id":"u"}`
	for file, want := range map[string]string{
		`{"results":[` + memory + `],"next":"https://api/?page=2"}`:                               "next: more pages follow",
		`{"results":[` + memory + `],"next":null,"relations":[{"source":"a"},{"source":"b"}]}`:    "relations: 2 relations of mem0's graph memory omitted",
		`{"agents":[{"name":"a","block_ids":[]}],"blocks":[{"id":"b1","label":"l","value":"v"}]}`: "block b1: block omitted: no agent uses it",
		`{"agents":[7],"blocks":[]}`: "agent 1: agent omitted: not an object",
		`{"agents":[{"name":"a","block_ids":["b1"]}],"blocks":[{"id":"b1","label":"l","value":"v"},{"id":"b1","label":"l","value":"w"}]}`: "block 2: block omitted: missing or duplicate ID",
	} {
		r, err := memoryimport.Run(t.Context(), []byte(file), newStore(t), store.Namespace{"memories"})
		if err != nil || len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0].Item+": "+r.Problems[0].Text, want) {
			t.Errorf("%s: %v, %+v, want %s", file, err, r.Problems, want)
		}
	}
}

// No file makes an import panic, and a second import finds the items of the first.
func FuzzRun(f *testing.F) {
	for _, name := range []string{"mem0.json", "letta.af", "letta-0.6.af", "letta-passages.json"} {
		f.Add(string(read(f, name)))
	}
	f.Add(`{"results":[{"memory":"x","id":"","user_id":7},null]}`)
	f.Add(`{"agents":[null,{"block_ids":[1,"b"],"memory_blocks":[3]}],"blocks":[null,{"id":"b"}]}`)
	f.Fuzz(func(t *testing.T, file string) {
		s := newStore(t)
		first, err := memoryimport.Run(t.Context(), []byte(file), s, store.Namespace{"m"})
		if err != nil {
			if !errors.Is(err, memoryimport.ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		before := described(t, s)
		if len(before) > first.Items {
			t.Fatalf("%d items added, %d reported", len(before), first.Items)
		}
	})
}
