package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/store"
)

// Differential performs the same random operations on a backend and on an in-memory
// backend, and compares every result. open returns an empty backend and cleans up with
// t.Cleanup; it is called once per seed.
//
// TREADLE_SEEDS=n runs n additional seeds. without names operations that do not apply
// to the backend: "changes" or "imports".
func Differential(t *testing.T, open func(t *testing.T) store.Backend, without ...string) {
	t.Helper()
	seeds := 4
	if race.Enabled {
		seeds = 1 // operations are sequential
	}
	if env := os.Getenv("TREADLE_SEEDS"); env != "" {
		n, err := strconv.Atoi(env)
		if err != nil {
			t.Fatalf("TREADLE_SEEDS: %v", err)
		}
		seeds += n
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newComparison(t, seed, open(t))
			w.without = without
			for range 250 {
				w.step()
			}
			w.compareAll()
		})
	}
}

// comparison holds a store on the tested backend and a store in memory.
type comparison struct {
	*testing.T
	rnd      *rand.Rand
	clock    *clock
	start    time.Time
	backends [2]store.Backend
	stores   [2]*store.Store
	versions map[int64]int64 // versions in memory, keyed by those of the other store, which may have gaps
	last     string          // the last operation
	file     string          // the last export
	without  []string        // see Differential
}

func newComparison(t *testing.T, seed uint64, b store.Backend) *comparison {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	w := &comparison{T: t, rnd: rand.New(rand.NewPCG(seed, 11)), clock: &clock{now: start}, start: start, versions: map[int64]int64{0: 0}}
	w.backends = [2]store.Backend{b, store.NewMemoryBackend()}
	w.reopen()
	return w
}

// reopen reopens the stores with different options.
func (w *comparison) reopen() {
	o := store.Options{
		Now:        w.clock.Now,
		Embedder:   pick(w, nil, store.NewHashEmbedder(8), store.NewHashEmbedder(24), store.Embedder(topics{})),
		Fields:     pick(w, nil, []string{"text"}, []string{"tags[*]", "$"}),
		TTL:        pick(w, 0, 0, 5*time.Minute),
		NoRefresh:  w.rnd.IntN(4) == 0,
		History:    pick(w, 0, 1, 2, 5),
		HistoryAge: pick(w, 0, 10*time.Minute),
	}
	for i, b := range w.backends {
		s, err := store.New(b, &o)
		if err != nil {
			w.Fatal(err)
		}
		w.stores[i] = s
	}
	w.last = fmt.Sprintf("reopen %+v", o)
}

func pick[T any](w *comparison, of ...T) T { return of[w.rnd.IntN(len(of))] }

func (w *comparison) step() {
	if w.rnd.IntN(3) == 0 {
		w.clock.pass(time.Duration(w.rnd.IntN(240)) * time.Second)
	}
	switch n := w.rnd.IntN(100); {
	case n < 70:
		ops := make([]store.Op, 1+w.rnd.IntN(4)*w.rnd.IntN(2))
		for i := range ops {
			ops[i] = w.op()
		}
		w.last = fmt.Sprintf("batch %+v", ops)
		both(w, func(i int, s *store.Store) ([]store.Result, error) {
			return s.Batch(w.Context(), w.ownVersions(i, ops)...)
		})
	case n < 80:
		at, prefix, o := w.past(), w.prefix(), w.search()
		w.last = fmt.Sprintf("as of %v search %v %+v", at, prefix, o)
		both(w, func(_ int, s *store.Store) ([]*store.Item, error) { return s.AsOf(at).Search(w.Context(), prefix, &o) })
	case n < 84:
		at, name, key := w.past(), w.namespace(), w.key()
		w.last = fmt.Sprintf("as of %v get %v %q", at, name, key)
		both(w, func(_ int, s *store.Store) (*store.Item, error) { return s.AsOf(at).Get(w.Context(), name, key) })
	case n < 88:
		w.last = "sweep"
		both(w, func(_ int, s *store.Store) (int, error) { return s.Sweep(w.Context()) })
	case n < 90:
		name, key := w.namespace(), w.key()
		w.last = fmt.Sprintf("forget %v %q", name, key)
		both(w, func(_ int, s *store.Store) (any, error) { return nil, s.Forget(w.Context(), name, key) })
	case n < 91:
		name := w.namespace()
		w.last = fmt.Sprintf("forget all %v", name)
		both(w, func(_ int, s *store.Store) (any, error) { return nil, s.ForgetAll(w.Context(), name) })
	case n < 93:
		w.reopen()
	case n < 95:
		w.last = "reindex"
		both(w, func(_ int, s *store.Store) (int, error) { return s.Reindex(w.Context()) })
	case n < 96:
		w.compareChanges()
	case n < 98:
		w.travel()
	default:
		name, key := w.namespace(), w.key()
		w.last = fmt.Sprintf("history %v %q", name, key)
		both(w, func(_ int, s *store.Store) ([]store.Change, error) { return s.History(w.Context(), name, key) })
	}
}

// both performs an operation on both stores and compares the results.
func both[T any](w *comparison, do func(int, *store.Store) (T, error)) {
	w.Helper()
	got, gotErr := do(0, w.stores[0])
	want, wantErr := do(1, w.stores[1])
	if (gotErr == nil) != (wantErr == nil) {
		w.Fatalf("%s: got error %v, want %v", w.last, gotErr, wantErr)
	}
	if gotErr != nil {
		w.compareErrors(gotErr, wantErr)
		return
	}
	w.compare(got, want)
}

func (w *comparison) compareErrors(got, want error) {
	w.Helper()
	gotConflict, ok := errors.AsType[*store.ConflictError](got)
	if wantConflict, wantOK := errors.AsType[*store.ConflictError](want); ok && wantOK {
		w.compare(&store.Item{Key: gotConflict.Key, Version: gotConflict.Have}, &store.Item{Key: wantConflict.Key, Version: wantConflict.Have})
		return
	}
	if got.Error() != want.Error() {
		w.Fatalf("%s: got error %v, want %v", w.last, got, want)
	}
}

// compare compares results. Versions need not be equal, but each must always correspond
// to the same version in the other store.
func (w *comparison) compare(got, want any) {
	w.Helper()
	gotVersions, wantVersions := takeVersions(got), takeVersions(want)
	if gotText, wantText := string(raw(got)), string(raw(want)); gotText != wantText {
		w.Fatalf("%s: result differs from memory (+):\n%s", w.last, cmp.Diff(got, want, cmpopts.EquateEmpty()))
	}
	for i, v := range gotVersions {
		known, ok := w.versions[v]
		if !ok {
			w.versions[v] = wantVersions[i]
		} else if known != wantVersions[i] {
			w.Fatalf("%s: version %d corresponds to %d in memory, but memory has %d here", w.last, v, known, wantVersions[i])
		}
	}
}

// takeVersions removes the versions from a result and returns them, in order.
func takeVersions(answer any) (all []int64) {
	take := func(version *int64) { all, *version = append(all, *version), 0 }
	switch a := answer.(type) {
	case *store.Item:
		if a != nil {
			take(&a.Version)
		}
	case []*store.Item:
		for _, item := range a {
			take(&item.Version)
		}
	case []store.Change:
		for i := range a {
			take(&a[i].Version)
			if a[i].Item != nil {
				take(&a[i].Item.Version)
			}
		}
	case []store.Result:
		for _, r := range a {
			all = append(append(all, takeVersions(r.Item)...), takeVersions(r.Items)...)
		}
	}
	return all
}

// compareAll compares all items, histories, and changes.
func (w *comparison) compareAll() {
	w.last = "final search"
	both(w, func(_ int, s *store.Store) ([]*store.Item, error) {
		return s.Search(w.Context(), nil, &store.SearchOptions{Limit: 10_000})
	})
	w.last = "final namespaces"
	both(w, func(_ int, s *store.Store) ([]store.Namespace, error) { return s.Namespaces(w.Context(), nil) })
	w.compareChanges()
	w.travel()
}

func (w *comparison) compareChanges() {
	if slices.Contains(w.without, "changes") {
		return
	}
	prefix := w.prefix()
	w.last = fmt.Sprintf("changes under %v", prefix)
	both(w, func(i int, _ *store.Store) ([]store.Change, error) {
		return allChanges(w.Context(), w.backends[i], prefix)
	})
}

// allChanges returns all changes of a backend.
func allChanges(ctx context.Context, b store.Backend, prefix store.Namespace) ([]store.Change, error) {
	const page = 7
	var all []store.Change
	for after := int64(0); ; {
		records, seq, err := b.Changes(ctx, prefix, after, page)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			all = append(all, store.Change{Version: r.Seq, Kind: r.Kind, At: r.Updated, Namespace: r.Namespace, Key: r.Key,
				Item: &store.Item{Value: r.Value, Meta: r.Meta, Created: r.Created, Expires: r.Expires}})
		}
		if len(records) < page {
			return all, nil
		}
		if last := records[page-1].Seq; seq != last {
			return nil, fmt.Errorf("page ends at %d, but seq is %d", last, seq)
		}
		after = seq
	}
}

var (
	segments = []string{"a", "b", "a.b", "a%", "\x00", "é"}
	words    = []string{"pizza", "pasta", "plumber", "tennis", "work", "I", "love", "Ünal", "über", "x1"}
)

func (w *comparison) namespace() store.Namespace {
	n := make(store.Namespace, 1+w.rnd.IntN(3))
	for i := range n {
		n[i] = pick(w, segments...)
	}
	return n
}

func (w *comparison) prefix() store.Namespace { return w.namespace()[:w.rnd.IntN(2)] }

func (w *comparison) key() string { return pick(w, "k", "l", "m\x00", "%") }

func (w *comparison) past() time.Time {
	since := w.clock.Now().Sub(w.start)
	return w.start.Add(time.Duration(w.rnd.Int64N(int64(since) + 1)))
}

func (w *comparison) text() string {
	text := make([]string, w.rnd.IntN(6))
	for i := range text {
		text[i] = pick(w, words...)
	}
	return strings.Join(text, " ")
}

func (w *comparison) value() object {
	return object{
		"text": w.text(), "n": w.number(), "tags": []string{w.text(), w.text()}, "ok": w.rnd.IntN(2) == 0,
		"deep": object{"n": w.number(), "s": pick(w, "", "1", "é'%_\"")},
	}
}

func (w *comparison) number() any {
	return pick[any](w, 1, 2, 2.0, 2.5, -3, uint64(1<<63), "2", nil)
}
