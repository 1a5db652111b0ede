package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

func TestPackEvery32Chunks(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	l := newLine(t, db, "thread")
	want := numbers(3*packSize + 5)
	var keys []checkpoint.Key
	for _, item := range want {
		keys = append(keys, l.add(grow("l", 0, item)))
	}
	if n := ask(t, db, "SELECT count(*) FROM chunk"); n != 3+5 {
		t.Errorf("%d rows for %d chunks, want %d", n, len(want), 3+5)
	}
	for i, key := range keys { // also those that end inside a row
		if got := texts(l.get(key.ID).Values["l"]); !slices.Equal(got, want[:i+1]) {
			t.Fatalf("checkpoint %d has %q, want %q", i, got, want[:i+1])
		}
	}
	checkFile(t, db)
}

func TestLargeChunksAreNotPacked(t *testing.T) {
	db := open(t, database.InMemory, nil)
	l := newLine(t, db, "thread")
	for range packSize {
		l.add(grow("l", 0, strings.Repeat("x", packMax/packSize+1)))
	}
	if n := ask(t, db, "SELECT count(*) FROM chunk"); n != packSize {
		t.Errorf("%d rows, want %d", n, packSize)
	}
	if got := len(l.get(checkpoint.ID{}).Values["l"].Items); got != packSize {
		t.Errorf("%d elements, want %d", got, packSize)
	}
}

// resealChunks gives all chunks valid checksums, as if the program had written them.
func resealChunks(t *testing.T, db *DB) {
	t.Helper()
	err := db.conn.Write(t.Context(), func(c *database.Conn) error {
		sums := map[int64]int64{}
		err := c.Each("SELECT rowid, line, chain, seq, n, data FROM chunk", nil, func(scan func(...any) error) error {
			var id, line, chain, seq, n int64
			var data []byte
			err := scan(&id, &line, &chain, &seq, &n, &data)
			sums[id] = chunkSum(line, chain, seq, n, data)
			return err
		})
		for id, sum := range sums {
			if err == nil {
				_, err = c.Change("UPDATE chunk SET sum=? WHERE rowid=?", sum, id)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Missing and unreadable rows cause an error that names them, never an empty list, even
// if the checksums are valid.
func TestMissingOrInvalidRowsAreErrors(t *testing.T) {
	for name, test := range map[string]struct{ query, want string }{
		"a missing chunk":        {"DELETE FROM chunk WHERE chain=2 AND seq=32", `channel "l" of checkpoint`},
		"all chunks missing":     {"DELETE FROM chunk WHERE chain=2", "missing chunk 0 of chain 2"},
		"a missing value":        {"DELETE FROM chunk WHERE chain=1", "missing chunk 0 of chain 1"},
		"an unreadable chunk":    {"UPDATE chunk SET data=x'ff' WHERE chain=2 AND seq=0", "unreadable chunk 0 of chain 2"},
		"too few in a chunk":     {"UPDATE chunk SET data=x'0000', n=1 WHERE chain=2 AND seq=33", "list has 33 elements, want 34"},
		"too many dropped":       {"UPDATE chunk SET data=x'6300', n=1 WHERE chain=2 AND seq=33", "drops 99 elements of 33"},
		"several values":         {"UPDATE chunk SET data=x'000201610162' WHERE chain=1", "2 values instead of one"},
		"an unreadable record":   {"UPDATE checkpoint SET record=x'0100' WHERE id=(SELECT head FROM line)", "record invalid after 2 of 2 bytes"},
		"a record of the future": {"UPDATE checkpoint SET record=x'09' WHERE id=(SELECT head FROM line)", "unknown format 9"},
		"a missing run":          {"DELETE FROM run", "missing run 3 of line 1"},
		"a missing shape":        {"DELETE FROM shape", "missing or unreadable shape"},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, database.InMemory, nil)
			l := newLine(t, db, "thread")
			l.add(set("v", strings.Repeat("v", 100)))
			for _, item := range numbers(34) {
				p := l.next(grow("l", 0, item))
				p.RunID = "run"
				l.put(p)
			}
			force(t, db, test.query)
			resealChunks(t, db)
			cp, err := db.Get(t.Context(), checkpoint.Key{Thread: "thread"})
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), `thread "thread"`) || !strings.Contains(err.Error(), test.want) || cp != nil {
				t.Errorf("get returns %v, %v; want %v with the thread and %q", cp, err, ErrDamaged, test.want)
			}
			var listErr error
			for cp, err := range db.List(t.Context(), checkpoint.Query{Thread: "thread"}) {
				listErr = err
				if err != nil && cp != nil {
					t.Error("a checkpoint beside the error")
				}
			}
			if !errors.Is(listErr, ErrDamaged) {
				t.Errorf("the list ends with %v, want %v", listErr, ErrDamaged)
			}
		})
	}
}

// A fork of a fork of a fork … is read from a bounded number of places.
func TestNestedForksAreBounded(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	l := newLine(t, db, "thread")
	want := []string{"root"}
	parent := l.add(grow("l", 0, "root"))
	for i := range 3 * saved.MaxSegments {
		l.add(grow("l", 0, "left behind"))
		want = append(want, fmt.Sprint("branch ", i))
		if i%5 == 4 {
			want = append(want[:len(want)-2], want[len(want)-1])
			parent = l.fork(parent.ID, grow("l", 1, want[len(want)-1]))
		} else {
			parent = l.fork(parent.ID, grow("l", 0, want[len(want)-1]))
		}
		if got := texts(l.get(parent.ID).Values["l"]); !slices.Equal(got, want) {
			t.Fatalf("fork %d has %q, want %q", i, got, want)
		}
		err := db.conn.Read(t.Context(), func(c *database.Conn) error {
			h, err := loadHead(c, lineName{thread: "thread"})
			if err != nil {
				return err
			}
			r, err := find(c, h, parent.ID)
			if err != nil {
				return err
			}
			if _, err := r.m.resolve(newLoader(c, h.line)); err != nil {
				return err
			}
			if n := len(r.m.slots[0].Segments); n > saved.MaxSegments {
				t.Errorf("fork %d has %d segments, want at most %d", i, n, saved.MaxSegments)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	checkFile(t, db)
}

// When the head goes back into the middle of a packed row, what the new head
// appends must not collide with what is left there, also in a process that
// remembers the old times.
func TestHeadMovedBackStartsNewChain(t *testing.T) {
	for _, results := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "test.db")
		db, other := open(t, path, nil), open(t, path, nil)
		l := newLine(t, db, "thread")
		var keys []checkpoint.Key
		for i, item := range numbers(packSize + 3) {
			p := l.next(grow("l", 0, item))
			if i >= 10 {
				p.RunID = "late"
			}
			if i == 9 { // this handle remembers checkpoint 9 as the head
				l.db = other
				if results {
					p.Pending = []checkpoint.Write{{Task: "t", Kind: checkpoint.Done, Data: []byte("x")}}
				}
			}
			keys = append(keys, l.put(p))
			l.db = db
		}
		if n, err := db.DeleteRuns(t.Context(), "thread", []string{"late"}); n != packSize-7 || err != nil {
			t.Fatalf("delete runs: %d, %v; want %d", n, err, packSize-7)
		}
		for _, handle := range []*DB{other, db} {
			l.db, l.key = handle, checkpoint.Key{Thread: "thread", ID: l.get(checkpoint.ID{}).ID}
			if handle == other && l.key.ID != keys[9].ID {
				t.Fatalf("the head is %s, want %s", l.key.ID, keys[9].ID)
			}
			l.add(grow("l", 0, "new"))
		}
		want := append(numbers(10), "new", "new")
		if got := texts(l.get(checkpoint.ID{}).Values["l"]); !slices.Equal(got, want) {
			t.Errorf("the head has %q, want %q", got, want)
		}
		checkFile(t, db)
	}
}

// Results that were recorded when their checkpoint was no longer the head wait
// for whoever goes on from it, also if it becomes the head again.
func TestHeadMovedBackConsumesResults(t *testing.T) {
	db := open(t, database.InMemory, nil)
	l := newLine(t, db, "thread")
	first := l.add()
	p := l.next()
	p.RunID = "late"
	l.put(p)
	done := checkpoint.Write{Task: "t", Kind: checkpoint.Done, Data: []byte("x")}
	if err := db.PutWrites(t.Context(), first, 0, []checkpoint.Write{done}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.DeleteRuns(t.Context(), "thread", []string{"late"}); err != nil {
		t.Fatal(err)
	}
	if n := len(l.get(first.ID).Pending); n != 1 {
		t.Fatalf("%d results, want 1", n)
	}
	l.key = first
	l.add()
	if n := len(l.get(first.ID).Pending); n != 0 {
		t.Errorf("%d results are left after the next put", n)
	}
	checkFile(t, db)
}

// Checkpoints that are read together have nothing in common that a caller could
// spoil.
func TestListedCheckpointsShareNoMemory(t *testing.T) {
	db := open(t, database.InMemory, nil)
	l := newLine(t, db, "thread")
	var fields []checkpoint.Change
	for i := range 40 { // enough for a base
		fields = append(fields, set(fmt.Sprint("field ", i), "a small value"))
	}
	p := l.next(append(fields, grow("l", 0, numbers(3)...), set("large", strings.Repeat("x", 100)))...)
	p.RunID, p.Metadata = "run", []byte(`{"user":"ada"}`)
	l.put(p)
	for range listPage - 1 {
		p := l.next()
		p.RunID, p.Metadata = "run", []byte(`{"user":"ada"}`)
		l.put(p)
	}
	scribble := func(b []byte) {
		for i := range b {
			b[i] = '#'
		}
	}
	want := l.get(checkpoint.ID{})
	for _, cp := range listed(t, db, checkpoint.Query{Thread: "thread"}) {
		if d := cmp.Diff(want.Values, cp.Values, likeness); d != "" || !slices.Equal(want.Metadata, cp.Metadata) {
			t.Fatalf("after others were spoilt, %s has metadata %s and (-want +got):\n%s", cp.ID, cp.Metadata, d)
		}
		for _, v := range cp.Values {
			scribble(v.Data)
			for _, item := range v.Items {
				scribble(item)
			}
		}
		scribble(cp.Metadata)
	}
}

// A step of a wide graph costs what it changes, not what there is.
func TestStepOfWideGraphIsSmall(t *testing.T) {
	db := open(t, database.InMemory, nil)
	l := newLine(t, db, "thread")
	var all []checkpoint.Change
	for i := range 200 {
		all = append(all, set(fmt.Sprint("field ", i), fmt.Sprint("value ", i)))
	}
	l.add(all...)
	const steps = 300
	before, err := db.Size(t.Context(), "thread")
	if err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		l.add(set(fmt.Sprint("field ", i%3), fmt.Sprint("new ", i)))
	}
	after, err := db.Size(t.Context(), "thread")
	if err != nil {
		t.Fatal(err)
	}
	if each := (after - before) / steps; each > 100 {
		t.Errorf("a step that changes one field of 200 takes %d bytes, want at most 100", each)
	}
	head := l.get(checkpoint.ID{})
	for i := range 200 {
		name, want := fmt.Sprint("field ", i), fmt.Sprint("value ", i)
		if i < 3 {
			want = fmt.Sprint("new ", steps-3+i)
		}
		if got := string(head.Values[name].Data); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	checkFile(t, db)
}

// An input is in its checkpoint's control and then in a list, but not twice in
// the file.
func TestInputIsSavedOnce(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	l := newLine(t, db, "thread")
	text := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz", 300)
	p := l.next()
	p.Control = fmt.Appendf(nil, `{"start":{"messages":[{"type":"human","content":%q}]},"next":["__start__"]}`, text)
	control := string(p.Control)
	input := l.put(p)
	p = l.next(grow("messages", 0, fmt.Sprintf(`{"type":"human","id":"1","content":%q}`, text)))
	p.RunID = "run"
	l.put(p)
	size, err := db.Size(t.Context(), "thread")
	if err != nil || size > int64(len(text))+500 {
		t.Errorf("the thread takes %d bytes, %v; want little more than %d", size, err, len(text))
	}
	check := func(when string) {
		t.Helper()
		if got := string(l.get(input.ID).Control); got != control {
			t.Errorf("%s the control is %.100q (%d bytes), want %.100q (%d bytes)", when, got, len(got), control, len(control))
		}
		checkFile(t, db)
	}
	check("after the step")
	if _, err := db.DeleteRuns(t.Context(), "thread", []string{"run"}); err != nil {
		t.Fatal(err)
	}
	check("when the step was deleted") // its chunk is still needed
	l.key = input
	l.add(grow("messages", 0, "something else"))
	check("after another step")
	if _, err := db.Prune(t.Context(), "thread", checkpoint.Retention{}); err != nil {
		t.Fatal(err)
	}
	checkFile(t, db)
	if n := ask(t, db, "SELECT sum(length(data)) FROM chunk"); n > 100 {
		t.Errorf("%d bytes of chunks are left, want those of the head alone", n)
	}
}
