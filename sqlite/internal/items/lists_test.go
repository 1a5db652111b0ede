package items

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/store"
)

// numbersOf returns the numbers in a list.
func numbersOf(l *seqList) []int64 {
	var all []int64
	for _, b := range l.blocks {
		for i, word := range b.bits {
			for ; word != 0; word &= word - 1 {
				all = append(all, b.at*blockSize+int64(64*i+bits.TrailingZeros64(word)))
			}
		}
		for _, low := range b.low {
			all = append(all, b.at*blockSize+int64(low))
		}
	}
	return all
}

func TestTallyCountsItemsInLists(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		gap := rapid.SampledFrom([]int64{1, 3, 200, blockSize, 1 << 40}).Draw(t, "gap")
		lists := make([]*seqList, rapid.IntRange(0, 5).Draw(t, "lists"))
		want := map[int64]int{}
		for i := range lists {
			lists[i] = &seqList{}
			at, text := int64(0), ""
			for _, step := range rapid.SliceOfN(rapid.Int64Range(1, gap), 0, 300).Draw(t, "steps") {
				at += step
				want[at]++
				text += fmt.Sprint(at, ",")
			}
			// A frequent word, read in two parts.
			var dense strings.Builder
			for range rapid.SampledFrom([]int{0, 0, 100, 5000}).Draw(t, "dense") {
				at++
				want[at]++
				fmt.Fprint(&dense, at, ",")
			}
			for _, text := range []string{text, dense.String()} {
				before := numbersOf(lists[i])
				longer, err := lists[i].with(edition{}, text)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(before, numbersOf(lists[i])) {
					t.Fatal("a list has changed")
				}
				lists[i] = longer
			}
		}
		var inOrder, got []int64
		for seq := range want {
			inOrder = append(inOrder, seq)
		}
		slices.SortFunc(inOrder, func(a, b int64) int {
			if want[a] != want[b] {
				return want[b] - want[a]
			}
			return int(min(max(b-a, -1), 1))
		})
		for page := range tallied(lists).best(rapid.IntRange(1, 500).Draw(t, "page")) {
			got = append(got, page...)
		}
		if d := cmp.Diff(inOrder, got); d != "" {
			t.Fatalf("(-counted one by one +tallied):\n%s", d)
		}
	})
}

// Whatever two handles of a file do, each finds what a store in memory finds, and
// no list lacks what the index has.
func TestCachedListsAreUpdated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	dbs := []*testDB{open(t, path, nil), open(t, path, nil)}
	backends := []store.Backend{eager(dbs[0].items), eager(dbs[1].items), store.NewMemoryBackend()}
	rnd := rand.New(rand.NewPCG(5, 8))
	for round := range 12 {
		if race.Enabled && round%4 != 0 {
			continue
		}
		stores := make([]*store.Store, len(backends))
		for i, b := range backends {
			var err error
			fields := [][]string{{"text"}, {"other"}, {"text", "other"}}[round/4]
			if stores[i], err = store.New(b, &store.Options{Fields: fields, History: 2}); err != nil {
				t.Fatal(err)
			}
		}
		ops := make([]store.Op, 90)
		for i := range ops {
			n, key := store.Namespace{"users", fmt.Sprint(rnd.IntN(3))}, fmt.Sprint(rnd.IntN(150))
			ops[i] = store.PutOp{Namespace: n, Key: key, Value: value{"text": sentence(rnd), "other": sentence(rnd)}}
			if rnd.IntN(4) == 0 {
				ops[i] = store.DeleteOp{Namespace: n, Key: key}
			}
		}
		for _, s := range []*store.Store{stores[round%2], stores[2]} {
			if _, err := s.Batch(t.Context(), ops...); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Reindex(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, query := range []string{"word0", "word0 word1 word2 word3", "word7 word40 word300", "nothing"} {
			for _, prefix := range []store.Namespace{nil, {"users"}, {"users", "1"}} {
				o := &store.SearchOptions{Query: query, Limit: 1000}
				want := keysOf(t, stores[2], prefix, o)
				for i, s := range stores[:2] {
					if d := cmp.Diff(want, keysOf(t, s, prefix, o)); d != "" {
						t.Fatalf("round %d: %q under %v by handle %d (-memory +sqlite):\n%s", round, query, prefix, i, d)
					}
				}
			}
		}
		for _, db := range dbs {
			checkLists(t, db)
		}
	}
	checkBackend(t, dbs[0])
}

// checkLists checks that the lists of a handle that has just searched have what
// the index has.
func checkLists(t *testing.T, db *testDB) {
	t.Helper()
	lists := &db.items.lists
	if len(lists.byQuery) == 0 || len(lists.byQuery) != lists.order.Len() {
		t.Errorf("there are %d lists, %d of them in order", len(lists.byQuery), lists.order.Len())
	}
	bytes := 0
	err := db.conn.Read(t.Context(), func(c *database.Conn) error {
		l := db.items.look(t.Context(), c, &store.Batch{}, &indexes{})
		now, err := editionOf(c)
		if err != nil {
			return err
		}
		for query, e := range lists.byQuery {
			kept := e.Value.(*seqList)
			bytes += kept.size()
			read, err := l.readList(&seqList{query: query}, now)
			if err != nil {
				return err
			}
			all := numbersOf(kept)
			if kept.of != now || kept.n != len(all) || !slices.IsSorted(all) {
				t.Errorf("the list of %s is of %v, now is %v; it has %d numbers: %v", query, kept.of, now, kept.n, all)
			}
			for _, seq := range numbersOf(read) {
				if _, found := slices.BinarySearch(all, seq); !found {
					t.Errorf("the list of %s lacks %d", query, seq)
				}
			}
		}
		return nil
	})
	if err != nil || bytes != lists.bytes {
		t.Errorf("%v, the lists take %d bytes and %d are counted", err, bytes, lists.bytes)
	}
}

// putTwice fills a store with items of one word, and replaces them when called.
func putTwice(t *testing.T, s *store.Store) (again func()) {
	t.Helper()
	puts := func() {
		ops := make([]store.Op, foldEvery)
		for i := range ops {
			ops[i] = store.PutOp{Namespace: ada, Key: fmt.Sprint(i), Value: value{"text": "same"}}
		}
		if _, err := s.Batch(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	puts()
	return puts
}

// Lists do not grow with what is gone.
func TestListsDropRemovedItems(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	eager(db.items)
	s := storeOf(t, db, nil)
	again := putTwice(t, s)
	for range 10 {
		again()
		if n := len(keysOf(t, s, nil, &store.SearchOptions{Query: "same", Limit: 1000})); n != foldEvery {
			t.Fatalf("a search finds %d items", n)
		}
		if n := db.items.lists.get(`"same"`).n; n > 4*foldEvery {
			t.Errorf("the list has %d numbers, %d of them of items", n, foldEvery)
		}
	}
}

// An item that gets other words is found by them, and not by those it had, by a
// handle that has lists of both.
func TestReindexedWordsAreFoundByAll(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	reader, writer := open(t, path, nil), open(t, path, nil)
	eager(reader.items)
	oldWays := &store.Options{Fields: []string{"old"}}
	old := storeOf(t, writer, oldWays)
	renewed := storeOf(t, writer, &store.Options{Fields: []string{"new"}})
	// The way in which words are made is not new to the file.
	put(t, renewed, ada, "first", value{"new": "nothing"}, nil)
	for i := range foldEvery {
		put(t, old, ada, fmt.Sprint(i), value{"old": "acorn", "new": "oak"}, nil)
	}
	s := storeOf(t, reader, oldWays)
	found := func(query string) int { return len(keysOf(t, s, ada, &store.SearchOptions{Query: query, Limit: 1000})) }
	if a, o := found("acorn"), found("oak"); a != foldEvery || o != 0 {
		t.Fatalf("%d items are found by their words, %d by those they do not have", a, o)
	}
	if _, err := renewed.Reindex(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, o := found("acorn"), found("oak"); a != 0 || o != foldEvery {
		t.Errorf("%d items are found by the words they had, %d by those they have", a, o)
	}
}

// A transaction that began before items were replaced finds those that were, not
// those that replaced them.
func TestOldSnapshotKeepsLaterLists(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	eager(db.items)
	s := storeOf(t, db, nil)
	again := putTwice(t, s)
	const query = `"same"`
	err := db.conn.Read(t.Context(), func(c *database.Conn) error {
		l := db.items.look(t.Context(), c, &store.Batch{}, &indexes{})
		before, err := editionOf(c) // the transaction sees the file as it is now
		if err != nil {
			return err
		}
		again()
		if n := len(keysOf(t, s, nil, &store.SearchOptions{Query: "same", Limit: 1000})); n != foldEvery {
			t.Errorf("a new search finds %d items", n)
		}
		later := numbersOf(db.items.lists.get(query))
		old, err := l.having(query, before)
		if err != nil {
			return err
		}
		if got := numbersOf(old); len(got) != foldEvery || got[0] != 1 || got[len(got)-1] != foldEvery || later[0] != foldEvery+1 {
			t.Errorf("the old transaction finds %v, the new one %v", got, later)
		}
		if d := cmp.Diff(later, numbersOf(db.items.lists.get(query))); d != "" {
			t.Errorf("the old transaction has changed the list (-before +after):\n%s", d)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What a transaction has seen that was rolled back is not kept.
func TestUncommittedListsAreNotCached(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	eager(db.items)
	putTwice(t, storeOf(t, db, nil))
	undone := errors.New("undone")
	err := db.conn.Write(t.Context(), func(c *database.Conn) error {
		w := db.items.newWriting(c, fromMicros(1))
		if err := w.reindex(1, &store.Indexed{Stamp: "s", Terms: []store.Term{{Text: "other", Count: 1}}}); err != nil {
			return err
		}
		now, err := editionOf(c)
		if err != nil {
			return err
		}
		l := db.items.look(t.Context(), c, &store.Batch{}, &indexes{tentative: true})
		if read, err := l.having(`"other"`, now); err != nil || read.n != 1 {
			t.Errorf("in the transaction the index has %v, %v", read, err)
		}
		return undone
	})
	if !errors.Is(err, undone) {
		t.Fatal(err)
	}
	if kept := db.items.lists.get(`"other"`); kept != nil {
		t.Errorf("the list %v is kept", numbersOf(kept))
	}
}

func TestUnusedListsAreEvictedFirst(t *testing.T) {
	t.Parallel()
	lists := seqLists{most: 3*(&seqList{query: "a"}).size() + 10}
	keep := func(query string, of int64) { lists.keep(&seqList{query: query, of: edition{folded: of}}) }
	for _, query := range []string{"a", "b", "c"} {
		keep(query, 2)
	}
	lists.get("a")
	keep("c", 1) // of an earlier edition than the one that is there
	keep("d", 1)
	for query, want := range map[string]int64{"a": 2, "c": 2, "d": 1} {
		if got := lists.get(query); got == nil || got.of.folded != want {
			t.Errorf("the list of %s is %v, want one of edition %d", query, got, want)
		}
	}
	if lists.get("b") != nil || lists.bytes > lists.most {
		t.Errorf("the list that was not used stays, all take %d bytes of %d", lists.bytes, lists.most)
	}
	lists.keep(&seqList{query: "large", blocks: make([]seqBlock, lists.most)})
	if len(lists.byQuery) != 0 || lists.bytes != 0 {
		t.Errorf("a list that is too large leaves %d, with %d bytes", len(lists.byQuery), lists.bytes)
	}
}
