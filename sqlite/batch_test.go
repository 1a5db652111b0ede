package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// manyPuts makes puts of one line of all kinds: lists that grow and shrink, large values,
// new channels, controls that are echoes, results, runs, epochs, and forks, also of
// checkpoints of the same batch.
func manyPuts(rnd *rand.Rand, l *line, n int) (puts []*checkpoint.Put) {
	ids := []checkpoint.ID{}
	for i := range n {
		p := l.next(set("a", fmt.Sprint(i)))
		text := strings.Repeat(fmt.Sprint("a message of the user ", i, " "), 12)
		switch rnd.IntN(8) {
		case 0:
			p.Changes = append(p.Changes, set(fmt.Sprint("channel ", i), "x"))
		case 1:
			p.Changes = append(p.Changes, set("large", strings.Repeat("large ", saved.InlineMax)))
		case 2:
			p.Pending = []checkpoint.Write{{Task: "t", Kind: checkpoint.Done, Data: []byte("x")}, {Task: "t", Kind: checkpoint.Paused, Data: []byte("y")}}
		case 3:
			p.RunID, p.Metadata = fmt.Sprint("run ", i), []byte(`{"a":1}`)
		case 4:
			p.Fence = uint64(i)
		}
		if i%2 == 0 {
			p.Control = []byte(text)
			if rnd.IntN(4) == 0 {
				p.Control = bytes.Repeat(p.Control, 1+maxRecord/len(text)) // too long to be remembered
			}
			p.Changes = append(p.Changes, grow("list", 0, fmt.Sprint(i)))
		} else {
			p.Changes = append(p.Changes, grow("list", rnd.IntN(2), string(puts[i-1].Control)))
		}
		if len(puts) > 0 {
			p.Fence = max(p.Fence, puts[i-1].Fence)
		}
		if len(ids) > 0 && rnd.IntN(3) == 0 {
			p.Parent, p.Source = ids[rnd.IntN(len(ids))], checkpoint.Fork
		}
		puts, ids = append(puts, p), append(ids, p.ID)
		l.key, l.n = p.Key, l.n+1
	}
	return puts
}

// Whatever the puts are and however they are divided into batches, the file has the same
// rows.
func TestBatchEqualsSinglePuts(t *testing.T) {
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		one := open(t, filepath.Join(t.TempDir(), "one.db"), nil)
		all := open(t, filepath.Join(t.TempDir(), "all.db"), nil)
		main := newLine(t, nil, "thread")
		inner := newLine(t, nil, "thread")
		inner.key.Namespace = "inner"
		fences := uint64(0)
		var puts []*checkpoint.Put
		a, b := manyPuts(rnd, main, 70), manyPuts(rnd, inner, 20)
		for len(a)+len(b) > 0 { // lines take turns
			from := &a
			if len(a) == 0 || len(b) > 0 && rnd.IntN(6) == 0 {
				from = &b
			}
			p := (*from)[0]
			*from = (*from)[1:]
			fences = max(fences, p.Fence)
			p.Fence = fences
			puts = append(puts, p)
		}
		for _, p := range puts {
			if err := one.Put(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		for rest := puts; len(rest) > 0; {
			n := min(len(rest), 1+rnd.IntN(9))
			if rnd.IntN(3) == 0 {
				all.known.forget() // as after a restart
			}
			if err := all.PutAll(t.Context(), rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if diff := cmp.Diff(rowsOf(t, one), rowsOf(t, all)); diff != "" {
			t.Fatalf("seed %d: the rows of puts (-) and of batches (+) differ:\n%s", seed, diff)
		}
		checkFile(t, all)
		for _, ns := range []string{"", "inner"} {
			q := checkpoint.Query{Thread: "thread", Namespace: ns}
			if diff := cmp.Diff(listed(t, one, q), listed(t, all, q), likeness); diff != "" {
				t.Fatalf("seed %d: %s", seed, diff)
			}
		}
	}
}

// A fork needs what its parent stored, which may be in the same batch, and a list of as
// many segments as there may be is read to be copied.
func TestPutReadsEarlierPutsOfItsBatch(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	l := newLine(t, db, "thread")
	parent := l.add(grow("list", 0, "0")).ID
	var puts []*checkpoint.Put
	next := func(change checkpoint.Change) *checkpoint.Put {
		p := l.next(change)
		l.key, l.n = p.Key, l.n+1
		puts = append(puts, p)
		return p
	}
	want := []string{"0"}
	for i := range 2*saved.MaxSegments + 1 {
		item := fmt.Sprint(i + 1)
		next(set("a", item))
		fork := next(set("a", item))
		fork.Parent, fork.Source = parent, checkpoint.Fork
		parent = next(grow("list", 0, item)).ID
		want = append(want, item)
	}
	if err := db.PutAll(t.Context(), puts); err != nil {
		t.Fatal(err)
	}
	if got := texts(l.get(checkpoint.ID{}).Values["list"]); !cmp.Equal(got, want) {
		t.Errorf("the list is %q, want %q", got, want)
	}
	checkFile(t, db)
}

// A batch whose head another process has moved, or that is refused after a part of it
// was stored, stores nothing, and the next one is not confused by it.
func TestRejectedBatchSavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	here, there := open(t, path, nil), open(t, path, nil)
	l := newLine(t, here, "thread")
	first := l.add(grow("list", 0, "0"))
	l.add(grow("list", 0, "1"))
	other := newLine(t, here, "other")
	other.add(set("a", "1"))
	after := func(l *line, p *checkpoint.Put) *line { return &line{TB: t, key: p.Key, n: l.n + 1} }

	a := l.next(grow("list", 0, "2"))
	b := after(l, a).next(grow("list", 0, "3"))
	c := after(l, b).next(set("new", "a shape"))
	wrong := func(of *checkpoint.Put) *checkpoint.Put {
		p := *of
		p.Head = first.ID
		return &p
	}
	fork := *b
	fork.Parent, fork.Source = first.ID, checkpoint.Fork
	noParent := *b
	noParent.Parent = checkpoint.NewID(0, checkpoint.ID{})
	old := *b
	old.ID = first.ID
	fenced, fences := *b, *a
	fences.Fence = 3
	newLines := newLine(t, here, "new")
	n := newLines.next(set("a", "1"))
	before := rowsOf(t, here)
	for name, puts := range map[string][]*checkpoint.Put{
		"the second has another head":             {a, wrong(b)},
		"the third has another head":              {a, b, wrong(c)},
		"the third has, and the second is a fork": {a, &fork, wrong(c)},
		"the second has no parent":                {a, &noParent},
		"the second is older":                     {a, &old},
		"the second has an older epoch":           {&fences, &fenced},
		"the second line has another head":        {a, b, wrong(other.next())},
		"a new line, and another head":            {n, wrong(b)},
		"a new line, and another head of it":      {n, wrong(after(newLines, n).next())},
	} {
		for _, remembered := range []bool{true, false} {
			if !remembered {
				here.known.forget()
			}
			err := here.PutAll(t.Context(), puts)
			want := checkpoint.ErrConflict
			if puts[0].Fence > 0 {
				want = checkpoint.ErrFenced
			}
			if name == "the second has no parent" || name == "the second is older" {
				want = err // they are not conflicts
			}
			if err == nil || !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
			if diff := cmp.Diff(before, rowsOf(t, here)); diff != "" {
				t.Fatalf("%s: something was stored:\n%s", name, diff)
			}
		}
	}

	l.get(checkpoint.ID{})
	if err := here.PutAll(t.Context(), []*checkpoint.Put{a, b}); err != nil {
		t.Fatal(err)
	}
	if err := there.Put(t.Context(), c); err != nil { // which here does not know
		t.Fatal(err)
	}
	before = rowsOf(t, here)
	late := after(after(l, a), b).next(grow("list", 0, "late"))
	later := after(l, late).next(grow("list", 0, "later"))
	if err := here.PutAll(t.Context(), []*checkpoint.Put{late, later}); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("a batch after a head that was overtaken: %v, want %v", err, checkpoint.ErrConflict)
	}
	if diff := cmp.Diff(before, rowsOf(t, here)); diff != "" {
		t.Fatalf("something of it was stored:\n%s", diff)
	}
	d := after(l, c).next(grow("list", 0, "4"))
	e := after(l, d).next(grow("list", 0, "5"))
	if err := here.PutAll(t.Context(), []*checkpoint.Put{d, e, other.next()}); err != nil {
		t.Fatal(err)
	}
	if got, want := texts(l.get(checkpoint.ID{}).Values["list"]), []string{"0", "1", "2", "3", "4", "5"}; !cmp.Equal(got, want) {
		t.Errorf("the list is %q, want %q", got, want)
	}
	checkFile(t, there)
}

// What is read while the statement that found the thread is open is of one state of the
// file, whatever another process writes meanwhile.
func TestCheckpointIsReadFromOneSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	here, there := open(t, path, nil), open(t, path, nil)
	l := newLine(t, there, "thread")
	key := l.add(grow("list", 0, "1"))
	read := func(meanwhile func()) (cp *checkpoint.Checkpoint) {
		t.Helper()
		err := here.conn.ReadWarmOnce(t.Context(), func(c *database.Conn) error {
			return withThread(c, "thread", func(thread int64, epoch uint64) (err error) {
				meanwhile()
				cp, err = here.get(t.Context(), c, thread, epoch, checkpoint.Key{Thread: "thread"})
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		return cp
	}
	cp := read(func() {
		l.add(grow("list", 0, "2"))
		if err := there.DeleteThread(t.Context(), "thread"); err != nil {
			t.Error(err)
		}
	})
	if got := texts(cp.Values["list"]); cp.ID != key.ID || !cmp.Equal(got, []string{"1"}) {
		t.Errorf("checkpoint %s with %q was read, want %s as it was before the other wrote", cp.ID, got, key.ID)
	}
	if _, err := here.Get(t.Context(), key); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("a read after it gives %v, want %v", err, checkpoint.ErrNotFound)
	}
	newLine(t, here, "thread").add() // and nothing is in the way of a write
}
