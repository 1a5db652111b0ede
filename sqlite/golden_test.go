package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/store"
)

// present is the version of files that are written today.
const present = 6

var update = flag.Bool("update", false, "write the golden file of the present version, if there is none")

// A file that a version of this package has written can be read by all later
// ones. The files in testdata were written when their version was the present
// one, and are never written again. Version 2 adds the store, version 3 the
// checksums, version 4 the ledger, version 5 the index of values and
// signatures, version 6 short lists in records.
func TestFilesOfEveryVersionLoad(t *testing.T) {
	want := checkpoint.NewMemory()
	if err := history(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	for version := 1; version <= present; version++ {
		golden := filepath.Join("testdata", fmt.Sprintf("v%d.db", version))
		if _, err := os.Stat(golden); version == present && *update && os.IsNotExist(err) {
			writeGolden(t, golden)
		}
		raw, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "test.db")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		db := open(t, path, nil)
		if got := ask(t, db, "PRAGMA user_version"); got != present {
			t.Errorf("version %d is now version %d, want %d", version, got, present)
		}
		for _, thread := range []string{"main", "copy", "gone", "odd\x00\xff"} {
			for _, space := range []string{"", "node:1|child:2"} {
				q := checkpoint.Query{Thread: thread, Namespace: space}
				if d := cmp.Diff(listed(t, want, q), listed(t, db, q), likeness); d != "" {
					t.Errorf("version %d, thread %q, namespace %q (-want +got):\n%s", version, thread, space, d)
				}
			}
		}
		if err := db.Fence(t.Context(), "main", 3); err == nil {
			t.Errorf("version %d: epoch 3 is not taken", version)
		}
		if got, ok, err := db.Cache().Get(t.Context(), "space", "key"); string(got) != "value" || !ok || err != nil {
			t.Errorf("version %d: the cache has %q, %v, %v", version, got, ok, err)
		}
		l := newLine(t, db, "main") // and it goes on
		l.key.ID = l.get(checkpoint.ID{}).ID
		before := len(l.get(checkpoint.ID{}).Values["list"].Items)
		p := l.next(grow("list", 0, "more"))
		p.Fence = 3
		l.put(p)
		if after := len(l.get(checkpoint.ID{}).Values["list"].Items); after != before+1 {
			t.Errorf("version %d: the list grew from %d to %d elements, want one more", version, before, after)
		}
		if version >= 2 {
			checkStored(t, db)
		}
		checkLedger(t, db, version >= 4)
		checkFile(t, db)
		checkBackend(t, db)
	}
}

// What is put today is stored in the bytes that it was stored in when the present version
// was made, so that all programs of that version can read it.
func TestAHistoryIsStoredInTheBytesOfItsVersion(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", fmt.Sprintf("v%d.db", present)))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "golden.db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	db := open(t, inMemory, nil)
	if err := history(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	want, got := rowsOf(t, open(t, path, nil)), rowsOf(t, db)
	if len(want) < 100 {
		t.Fatalf("the golden file has %d rows, so they were not read", len(want))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the rows (-want +got):\n%s", d)
	}
}

// rowsOf are all rows of checkpoints as text.
func rowsOf(t *testing.T, db *DB) (rows []string) {
	t.Helper()
	for _, table := range []struct{ name, columns string }{
		{"thread", "id,hex(name),fence"},
		{"line", "id,thread,hex(path),hex(head),at,last,next,rev,open,count,bytes"},
		{"checkpoint", "key,hex(id),run,hex(record)"},
		{"chunk", "line,chain,seq,n,hex(data)"},
		{"pending", "checkpoint,hex(task),hex(kind),hex(data)"},
		{"run", "line,run,hex(name),hex(metadata)"},
		{"shape", "id,hex(names)"},
	} {
		columns := "'" + table.name + " '||" + strings.ReplaceAll(table.columns, ",", "||' '||")
		err := db.read(t.Context(), func(c *conn) error {
			return c.each(fmt.Sprintf("SELECT %s FROM %s ORDER BY 1", columns, table.name), nil, func(scan func(...any) error) error {
				var row string
				err := scan(&row)
				rows = append(rows, row)
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

func writeGolden(t *testing.T, path string) {
	t.Helper()
	db, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := history(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := db.Cache().Set(t.Context(), "space", "key", []byte("value"), 0); err != nil {
		t.Fatal(err)
	}
	if err := fillStore(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := fillLedger(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// fillStore puts items into a store of which some have a past, an end or a
// vector. Like history, it is never changed.
func fillStore(ctx context.Context, db *DB) error {
	s, err := db.Store(&store.Options{Fields: []string{"text"}, Embedder: store.NewHashEmbedder(16)})
	if err != nil {
		return err
	}
	for i := range 70 { // more than are folded into the index of words at a time
		n := store.Namespace{"users", fmt.Sprint(i % 3)}
		if err := s.Put(ctx, n, fmt.Sprint("key ", i%60), map[string]any{"text": fmt.Sprint("memory number ", i), "n": i}, nil); err != nil {
			return err
		}
	}
	if err := s.Put(ctx, store.Namespace{"users", "0"}, "for a century", map[string]any{"text": "long"}, &store.PutOptions{TTL: 100 * 365 * 24 * time.Hour}); err != nil {
		return err
	}
	return s.Delete(ctx, store.Namespace{"users", "0"}, "key 3", nil)
}

// checkStored checks what fillStore has put.
func checkStored(t *testing.T, db *DB) {
	t.Helper()
	s, err := db.Store(&store.Options{Fields: []string{"text"}, Embedder: store.NewHashEmbedder(16)})
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Search(t.Context(), nil, &store.SearchOptions{Limit: 100})
	if err != nil || len(all) != 60 {
		t.Errorf("the store has %d items, %v; want 60", len(all), err)
	}
	found, err := s.Search(t.Context(), store.Namespace{"users", "1"}, &store.SearchOptions{Query: "memory number 58", Limit: 1})
	if err != nil || len(found) != 1 || found[0].Key != "key 58" {
		t.Errorf("the search finds %v, %v; want key 58", found, err)
	}
	if item, err := s.Get(t.Context(), store.Namespace{"users", "0"}, "key 3", nil); item != nil || !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what was deleted is %v, %v", item, err)
	}
	if past, err := s.History(t.Context(), store.Namespace{"users", "0"}, "key 3"); len(past) != 3 || err != nil {
		t.Errorf("it has %d versions, %v; want 3", len(past), err)
	}
	for i := range 70 { // and it goes on, over what is there
		if err := s.Put(t.Context(), store.Namespace{"users", fmt.Sprint(i % 3)}, fmt.Sprint("key ", i%60), map[string]any{"text": "new"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Reindex(t.Context()); err != nil {
		t.Errorf("%d were indexed anew: %v", n, err)
	}
}

// ledgerRows are rows that have and lack everything. Like history, they are never
// changed.
func ledgerRows() []*ledger.Row {
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return []*ledger.Row{
		{Kind: ledger.Threads, ID: uuid.UUID{1}, Created: created, Doc: []byte(`{"thread":"doc"}`), Terms: []uint64{5, 1 << 63}, Open: true, Due: created.Add(time.Hour)},
		{Kind: ledger.Runs, ID: uuid.UUID{2}, Parent: uuid.UUID{1}, Worker: uuid.UUID{3}, Open: true, Created: created.Add(time.Second), Doc: []byte(`{"run":"doc"}`), Body: []byte("body \x00\xff")},
		{Kind: ledger.Crons, ID: uuid.UUID{4}, Created: created.Add(2 * time.Second), Doc: []byte{}},
	}
}

func fillLedger(ctx context.Context, db *DB) error {
	b := db.Ledger()
	err := b.Update(ctx, uuid.UUID{1}, func(tx ledger.Tx) error {
		for _, r := range ledgerRows() {
			if err := tx.Put(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.Append(ctx, &ledger.Events{Thread: uuid.UUID{1}, Run: uuid.UUID{2}, First: 1, Last: 9, Data: []byte("events")})
}

// checkLedger checks what fillLedger has put, if it was, and that it can be put.
func checkLedger(t *testing.T, db *DB, filled bool) {
	t.Helper()
	if !filled {
		if err := fillLedger(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	b := db.Ledger()
	for _, want := range ledgerRows() {
		got, err := b.Get(t.Context(), want.Kind, want.ID)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("a row (-want +got):\n%s", d)
		}
		n := 0
		for _, err := range b.Find(t.Context(), &ledger.Query{Kind: want.Kind, Parent: want.Parent, Worker: want.Worker, Open: want.Open, Terms: want.Terms}) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != 1 {
			t.Errorf("%d rows are found for %s, want 1", n, want.ID)
		}
	}
	for e, err := range b.Events(t.Context(), uuid.UUID{1}, uuid.UUID{2}, 0) {
		if err != nil || string(e.Data) != "events" {
			t.Errorf("the events are %+v, %v", e, err)
		}
	}
}

// full is a saver that can do all that history does.
type full interface {
	checkpoint.Saver
	checkpoint.Pruner
	checkpoint.Copier
	checkpoint.RunDeleter
	checkpoint.Fencer
}

// history has everything that a file can hold. It is never changed: what is new
// in a later version belongs into a history of that version.
func history(ctx context.Context, s full) error {
	tick := uint64(0x1f1_0000_0000_0000)
	var err error
	heads := map[lineName]checkpoint.ID{}
	step := 0
	put := func(thread, space string, edit func(*checkpoint.Put), changes ...checkpoint.Change) checkpoint.ID {
		name := lineName{thread, space}
		p := &checkpoint.Put{Key: checkpoint.Key{Thread: thread, Namespace: space}, Parent: heads[name], Head: heads[name], Step: step, Source: checkpoint.Loop, Changes: changes}
		step++
		tick += 1000
		binary.BigEndian.PutUint64(p.ID[:8], tick<<4&^0xffff|6<<12|tick&0xfff)
		binary.BigEndian.PutUint64(p.ID[8:], 0x8000_0000_0000_0001)
		if edit != nil {
			edit(p)
		}
		if err == nil {
			err = s.Put(ctx, p)
		}
		heads[name] = p.ID
		return p.ID
	}
	message := strings.Repeat("what was said. ", 40)
	run := func(name, metadata string) func(*checkpoint.Put) {
		return func(p *checkpoint.Put) { p.RunID, p.Metadata = name, json.RawMessage(metadata) }
	}
	input := put("main", "", func(p *checkpoint.Put) {
		p.Step, p.Source, p.Control = -1, checkpoint.Input, []byte(`{"start":"`+message+`"}`)
	})
	put("main", "", run("0190a6e2-6f3b-7000-8000-000000000001", `{"user":"ada"}`), grow("list", 0, `"`+message+`"`), set("small", "1"), set("large", strings.Repeat("large ", 100)))
	var fields []checkpoint.Change
	for i := range 20 {
		fields = append(fields, set(fmt.Sprint("field ", i), fmt.Sprint("value ", i)))
	}
	put("main", "", run("0190a6e2-6f3b-7000-8000-000000000001", `{"user":"bob"}`), fields...)
	for i := range 70 { // packs, and a base
		put("main", "", run("a run by another name", `{"user":"ada"}`), grow("list", i%7/6, fmt.Sprint("item ", i)), set("count", fmt.Sprint(i)))
	}
	middle := heads[lineName{"main", ""}]
	for range 3 {
		put("main", "", run("deleted", ""), grow("list", 0, "left behind"))
	}
	put("main", "", func(p *checkpoint.Put) { p.Parent, p.Source = middle, checkpoint.Fork }, grow("list", 2, "fork"), checkpoint.Change{Channel: "small", Version: 9, Clear: true})
	put("main", "", func(p *checkpoint.Put) {
		p.Source = "something new"
		p.Pending = []checkpoint.Write{{Task: "b", Kind: checkpoint.Done, Data: []byte("result")}, {Task: "a", Kind: checkpoint.Paused, Data: []byte("?")}}
	}, grow("empty", 0))
	put("main", "node:1|child:2", nil, grow("list", 0, "nested"), set("x", ""))
	put("odd\x00\xff", "", nil, set("\x00\xff", "\xff\x00"))
	put("gone", "", run("deleted", ""), set("a", "1"))
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	note(s.PutWrites(ctx, checkpoint.Key{Thread: "main", ID: input}, 0, []checkpoint.Write{{Task: "a", Kind: checkpoint.Answers, Data: []byte("!")}, {Task: "a", Kind: "other"}}))
	note(s.CopyThread(ctx, "main", "copy"))
	_, e := s.Prune(ctx, "copy", checkpoint.Retention{KeepLast: 9, KeepInterrupted: true})
	note(e)
	for _, thread := range []string{"main", "copy", "gone"} {
		_, e = s.DeleteRuns(ctx, thread, []string{"deleted"})
		note(e)
	}
	note(s.Fence(ctx, "main", 3))
	return err
}

// A damaged file of an older version is refused, or is read with errors, or has what was
// stored: bringing it up to date hides no damage.
func TestDamagedFilesOfOlderVersionsNeverLie(t *testing.T) {
	want := checkpoint.NewMemory()
	if err := history(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join("testdata", fmt.Sprintf("v%d.db", present-1)))
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(9, 9))
	noticed := 0
	for i := range 60 {
		damaged := bytes.Clone(raw)
		for range 1 + rnd.IntN(3) {
			damaged[100+rnd.IntN(len(damaged)-100)] ^= byte(1 + rnd.IntN(255))
		}
		path := filepath.Join(t.TempDir(), "test.db")
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, nil)
		if err != nil {
			noticed++
			continue
		}
		for _, thread := range []string{"main", "copy", "odd\x00\xff"} {
			for _, space := range []string{"", "node:1|child:2"} {
				q := checkpoint.Query{Thread: thread, Namespace: space}
				var got []*checkpoint.Checkpoint
				for cp, e := range db.List(t.Context(), q) {
					got, err = append(got, cp), e
				}
				if err != nil {
					noticed++
				} else if d := cmp.Diff(listed(t, want, q), got, likeness); d != "" {
					t.Errorf("case %d, thread %q, namespace %q (-want +got):\n%s", i, thread, space, d)
				}
				err = nil
			}
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	if noticed == 0 {
		t.Error("no damage was noticed, so the test tries none")
	}
}
