package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// keptHead returns the head of a thread as it is known, nil if it has to be read.
func keptHead(t *testing.T, db *DB, thread string) (cp *checkpoint.Checkpoint) {
	t.Helper()
	err := db.conn.ReadWarmOnce(t.Context(), func(c *database.Conn) (err error) {
		cp, err = db.getKept(t.Context(), c, checkpoint.Key{Thread: thread})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return cp
}

// storedHead reads the head of a thread from the file, nil if there is no such thread.
func storedHead(t *testing.T, db *DB, thread string) (cp *checkpoint.Checkpoint) {
	t.Helper()
	err := db.conn.ReadOnce(t.Context(), func(c *database.Conn) error {
		return withThread(c, thread, func(id int64, epoch uint64) (err error) {
			cp, err = db.get(t.Context(), c, id, epoch, checkpoint.Key{Thread: thread})
			return err
		})
	})
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatal(err)
	}
	return cp
}

// Two processes do everything that changes a thread, one after the other. What each knows
// of a head, if it knows something, is what the file has.
func TestCachedHeadMatchesFile(t *testing.T) {
	kept, seeds := uint64(0), uint64(4)
	if race.Enabled { // all of them run without it
		seeds = 1
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 2))
		path := filepath.Join(t.TempDir(), "test.db")
		both := []*DB{open(t, path, nil), open(t, path, nil)}
		fences := map[string]uint64{}
		for i := range 150 {
			db := both[0]
			if rnd.IntN(5) == 0 {
				db = both[1]
			}
			thread := fmt.Sprint("thread ", rnd.IntN(3))
			what, err := changeThread(t, rnd, db, thread, i, fences)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for k := range 3 {
				thread := fmt.Sprint("thread ", k)
				want := storedHead(t, both[0], thread)
				for n, db := range both {
					got := keptHead(t, db, thread)
					if got == nil {
						continue
					}
					kept++
					if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
						t.Fatalf("seed %d, after change %d (%s), process %d knows of %s (-file +known):\n%s", seed, i, what, n, thread, diff)
					}
				}
			}
		}
		checkFile(t, both[1])
	}
	if kept < 75*seeds {
		t.Errorf("%d heads of %d seeds were known, want most", kept, seeds)
	}
}

// changeThread does something with a thread, and says what.
func changeThread(t *testing.T, rnd *rand.Rand, db *DB, thread string, i int, fences map[string]uint64) (string, error) {
	ctx := t.Context()
	head := storedHead(t, db, thread)
	l := newLine(t, db, thread)
	if head != nil {
		l.key.ID, l.n = head.ID, head.Step+1
	}
	kind := rnd.IntN(14)
	if head == nil && kind > 5 {
		kind = 0
	}
	switch kind {
	case 6, 7:
		w := checkpoint.Write{Task: fmt.Sprint("task ", rnd.IntN(3)), Kind: checkpoint.Paused, Data: fmt.Appendf(nil, "%q", fmt.Sprint("question ", i))}
		if rnd.IntN(2) == 0 {
			w.Kind, w.RunID = checkpoint.Answers, fmt.Sprint("run ", rnd.IntN(3))
		}
		if rnd.IntN(8) == 0 {
			w.Data = []byte(strings.Repeat("long ", keptPendingMost))
		}
		if rnd.IntN(6) == 0 {
			fences[thread]++ // of a process that has just taken the thread over
		}
		at := checkpoint.Key{Thread: thread, ID: head.ID}
		if rnd.IntN(6) == 0 && !head.Parent.IsZero() {
			at.ID = head.Parent
			if _, err := db.Get(ctx, at); errors.Is(err, checkpoint.ErrNotFound) {
				at.ID = head.ID
			}
		}
		return "a pause or an answer", db.PutWrites(ctx, at, fences[thread], []checkpoint.Write{w})
	case 8:
		return "a result", db.PutWrites(ctx, checkpoint.Key{Thread: thread, ID: head.ID}, fences[thread], []checkpoint.Write{{Task: "task 1", Kind: checkpoint.Done, Data: []byte("1")}})
	case 9:
		fences[thread]++
		return "a fence", db.Fence(ctx, thread, fences[thread])
	case 10:
		_, err := db.DeleteRuns(ctx, thread, []string{fmt.Sprint("run ", rnd.IntN(3))})
		return "a run is deleted", err
	case 11:
		_, err := db.Prune(ctx, thread, checkpoint.Retention{KeepLast: 1})
		return "old checkpoints are removed", err
	case 12:
		delete(fences, thread)
		return "the thread is deleted", db.DeleteThread(ctx, thread)
	case 13:
		to := fmt.Sprint("thread ", rnd.IntN(3))
		err := db.CopyThread(ctx, thread, to)
		if errors.Is(err, checkpoint.ErrConflict) {
			err = nil // it exists
		} else {
			fences[to] = 0
		}
		return "a copy to " + to, err
	}
	p := l.next(set("a", fmt.Sprint(i)))
	p.Fence = fences[thread]
	p.Control = []byte(strings.Repeat("c", []int{10, 200, 2 * keptRecordMost}[rnd.IntN(3)]))
	switch rnd.IntN(4) {
	case 0:
		p.Changes = append(p.Changes, grow("list", 0, fmt.Sprint(i)))
	case 1:
		p.RunID, p.Metadata = fmt.Sprint("run ", rnd.IntN(3)), []byte(`{"a":1}`)
	case 2:
		p.Pending = []checkpoint.Write{{Task: "task 1", Kind: checkpoint.Paused, Data: []byte("y")}}
	}
	return "a put", db.Put(ctx, p)
}

func TestCachedHeadIsCopiedForCallers(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	l := newLine(t, db, "thread")
	p := l.next(set("a", "1"), grow("list", 0, "2"))
	p.Control, p.Metadata, p.RunID = []byte("control"), []byte(`{"a":1}`), "run"
	question := []byte("question")
	p.Pending = []checkpoint.Write{{Task: "t", Kind: checkpoint.Paused, Data: question}}
	l.put(p)
	question[0] = 'Q' // nor does it change with what was put
	want := storedHead(t, db, "thread")
	for range 3 {
		got := keptHead(t, db, "thread")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		got.Control[0], got.Metadata[0], got.Pending[0].Data[0] = 'X', 'X', 'X'
		got.Values["a"].Data[0], got.Values["list"].Items[0][0] = 'X', 'X'
	}
}

func TestProcessesReserveDistinctIDs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	both := []*DB{open(t, path, nil), open(t, path, nil)}
	rnd := rand.New(rand.NewPCG(3, 3))
	const threads = 4 * reservedMost // so that each process reserves numbers several times
	for i := range threads {
		db := both[rnd.IntN(2)]
		thread := fmt.Sprint("thread ", i)
		switch rnd.IntN(4) {
		case 0:
			if err := db.Fence(t.Context(), thread, 1); err != nil {
				t.Fatal(err)
			}
		case 1:
			newLine(t, db, thread).add(set("a", "1"))
			if err := db.DeleteThread(t.Context(), thread); err != nil {
				t.Fatal(err)
			}
		case 2:
			newLine(t, db, thread).add(set("a", "1"))
			if err := db.CopyThread(t.Context(), thread, "copy of "+thread); err != nil {
				t.Fatal(err)
			}
		default:
			l := newLine(t, db, thread)
			l.add(set("a", "1"))
			inner := newLine(t, both[rnd.IntN(2)], thread)
			inner.key.Namespace = "inner"
			inner.add(set("a", "2"))
		}
	}
	checkFile(t, both[0])
	for i := range threads {
		cp, err := both[1].Get(t.Context(), checkpoint.Key{Thread: fmt.Sprint("thread ", i)})
		if err == nil && string(cp.Values["a"].Data) != "1" {
			t.Errorf("thread %d has %q", i, cp.Values["a"].Data)
		}
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			t.Error(err)
		}
	}
}

// Of the answers of two runs the one that was stored first keeps its place.
func TestReplacedAnswerKeepsItsPlace(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	key := newLine(t, db, "thread").add(set("a", "1"))
	for i, run := range []string{"one", "two", "one"} {
		w := checkpoint.Write{Task: "t", Kind: checkpoint.Answers, RunID: run, Data: fmt.Append(nil, i)}
		if err := db.PutWrites(t.Context(), key, 0, []checkpoint.Write{w}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(storedHead(t, db, "thread"), keptHead(t, db, "thread")); diff != "" {
		t.Error(diff)
	}
}

// Pending writes have the order in which they were stored, whoever stores and reads them, and
// in whatever other ways the file is changed in between.
func TestWritesOfProcessesKeepOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	both := []*DB{open(t, path, nil), open(t, path, nil)}
	rnd := rand.New(rand.NewPCG(4, 4))
	l := newLine(t, both[0], "thread")
	key := l.add(set("a", "1"))
	kinds := []checkpoint.WriteKind{checkpoint.Done, checkpoint.Paused, checkpoint.Failed}
	var want []checkpoint.Write
	for i := range 300 {
		db := both[rnd.IntN(2)]
		var ws []checkpoint.Write
		for range 1 + rnd.IntN(2) {
			w := checkpoint.Write{Task: fmt.Sprint(rnd.IntN(1 + i)), Kind: kinds[rnd.IntN(3)], Data: fmt.Append(nil, i)}
			ws = append(ws, w)
			same := func(o checkpoint.Write) bool { return o.Task == w.Task && o.Kind == w.Kind }
			if i := slices.IndexFunc(want, same); i >= 0 {
				want[i] = w
			} else {
				want = append(want, w)
			}
		}
		if err := db.PutWrites(t.Context(), key, 0, ws); err != nil {
			t.Fatal(err)
		}
		switch rnd.IntN(6) {
		case 0:
			newLine(t, db, fmt.Sprint("other ", i)).add(set("a", "1"))
		case 1:
			if err := db.Fence(t.Context(), fmt.Sprint("other ", i), 1); err != nil {
				t.Fatal(err)
			}
		case 2:
			l.db = both[rnd.IntN(2)]
			if diff := cmp.Diff(want, l.get(key.ID).Pending, likeness); diff != "" {
				t.Fatalf("after %d (-want +got):\n%s", i, diff)
			}
		}
	}
	if err := both[0].CopyThread(t.Context(), "thread", "copy"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, newLine(t, both[1], "copy").get(checkpoint.ID{}).Pending, likeness); diff != "" {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
	checkFile(t, both[0])
}

// A process that has looked for a thread does not look again when it makes it, unless
// somebody may have made it since.
func TestMissingThreadIsCreatedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	here, there := open(t, path, nil), open(t, path, nil)
	for i, made := range []func(thread string){
		func(string) {},
		func(thread string) { newLine(t, there, thread).add(set("a", "there")) },
		func(thread string) { newLine(t, here, thread).add(set("a", "there")) },
		func(thread string) {
			if err := here.Fence(t.Context(), thread, 1); err != nil {
				t.Fatal(err)
			}
		},
		func(thread string) {
			inner := newLine(t, here, thread)
			inner.key.Namespace = "inner"
			inner.add(set("a", "inner"))
		},
	} {
		thread := fmt.Sprint("thread ", i)
		if _, err := here.Get(t.Context(), checkpoint.Key{Thread: thread}); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Fatal(err)
		}
		made(thread)
		p := newLine(t, here, thread).next(set("a", "here"))
		p.Fence = 1
		err := here.Put(t.Context(), p)
		if isThere := i == 1 || i == 2; isThere != errors.Is(err, checkpoint.ErrConflict) || !isThere && err != nil {
			t.Errorf("put the first checkpoint of %s: %v", thread, err)
		}
	}
	checkFile(t, there)
}

// The epoch belongs to the thread: one that a nested graph's writes raise counts for the
// head of the root graph too.
func TestOvertakenCachedHeadGetsConflict(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	question := []checkpoint.Write{{Task: "t", Kind: checkpoint.Paused, Data: []byte("?")}}
	for i, raise := range []func(inner *line) error{
		func(inner *line) error { return db.PutWrites(t.Context(), inner.key, 1, question) },
		func(inner *line) error {
			p := inner.next(set("a", "2"))
			p.Fence = 1
			return db.Put(t.Context(), p)
		},
		func(inner *line) error { return db.Fence(t.Context(), inner.key.Thread, 1) },
	} {
		root, inner := newLine(t, db, fmt.Sprint("thread ", i)), newLine(t, db, fmt.Sprint("thread ", i))
		inner.key.Namespace = "inner"
		inner.add(set("a", "1"))
		root.add(set("a", "1"))
		if err := raise(inner); err != nil {
			t.Fatal(err)
		}
		if err := db.PutWrites(t.Context(), root.key, 0, question); !errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("a question of a writer that was overtaken: %v, want %v", err, checkpoint.ErrFenced)
		}
	}
}

// What a transaction that is rolled back has put, or looked up, is forgotten.
func TestRollbackDropsCachedHead(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	l := newLine(t, db, "thread")
	l.add(set("a", "1"))
	want := storedHead(t, db, "thread")
	if _, err := db.Get(t.Context(), checkpoint.Key{Thread: "new"}); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatal(err)
	}
	fails := errors.New("fails")
	err := db.conn.WriteKeeping(t.Context(), func(c *database.Conn) error {
		made := newLine(t, db, "new").next(set("a", "new"))
		return errors.Join(db.putAll(c, []*checkpoint.Put{l.next(set("a", "2")), made}), fails)
	})
	if !errors.Is(err, fails) {
		t.Fatal(err)
	}
	if got := l.get(checkpoint.ID{}); !cmp.Equal(want, got) {
		t.Errorf("after a roll-back %v is read, want %v", got, want)
	}
	if _, err := db.Get(t.Context(), checkpoint.Key{Thread: "new"}); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("a thread that was rolled back: %v, want %v", err, checkpoint.ErrNotFound)
	}
	newLine(t, db, "new").add(set("a", "new"))
	l.add(set("a", "2"))
	for thread, want := range map[string]string{"new": "new", "thread": "2"} {
		if cp := newLine(t, db, thread).get(checkpoint.ID{}); string(cp.Values["a"].Data) != want {
			t.Errorf("%s has %q, want %q", thread, cp.Values["a"].Data, want)
		}
	}
	checkFile(t, db)
}

// A file that has lost count of its threads and lines makes none that are mixed up with
// others, and a check of it says so.
func TestUsedIDsAreNotReassigned(t *testing.T) {
	for _, last := range []string{"threads=0", "lines=0", "threads=0, lines=0"} {
		path := filepath.Join(t.TempDir(), "test.db")
		db := open(t, path, nil)
		newLine(t, db, "old").add(set("a", "old"))
		force(t, db, "UPDATE meta SET "+last)
		if again, err := Open(path, &Options{Check: true}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: a check finds %v", last, errors.Join(err, again.Close()))
		}
		db = open(t, path, nil)
		l := newLine(t, db, "new")
		if err := db.Put(t.Context(), l.next(set("a", "new"))); err == nil {
			t.Errorf("%s: a new thread was made", last)
		}
		if got := newLine(t, db, "old").get(checkpoint.ID{}).Values["a"].Data; string(got) != "old" {
			t.Errorf("%s: the old thread has %q", last, got)
		}
	}
}
