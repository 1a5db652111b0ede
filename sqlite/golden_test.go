package sqlite

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
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
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/store"
)

var update = flag.Bool("update", false, "rewrite the golden file of the current version")

// fileVersion is the current file version. Each version has a golden file.
const fileVersion = 1

// goldenFile returns the path of a copy of the golden file of a version. A golden file
// was written by a program of that version; once that version is released, its golden
// file is never rewritten.
func goldenFile(t *testing.T, version int) string {
	t.Helper()
	golden := filepath.Join("testdata", fmt.Sprintf("v%d.db", version))
	if version == fileVersion && *update {
		if err := os.Remove(golden); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		writeGolden(t, golden)
	}
	raw, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "golden.db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFilesOfAllVersionsLoad(t *testing.T) {
	want := checkpoint.NewMemory()
	if err := history(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	for version := 1; version <= fileVersion; version++ {
		db := open(t, goldenFile(t, version), nil)
		if got := ask(t, db, "PRAGMA user_version"); got != fileVersion {
			t.Errorf("version %d is now version %d, want %d", version, got, fileVersion)
		}
		for _, thread := range []string{"main", "copy", "gone", "odd\x00\xff"} {
			for _, space := range []string{"", "node:1|child:2"} {
				q := checkpoint.Query{Thread: thread, Namespace: space}
				if d := cmp.Diff(listed(t, want, q), listed(t, db, q), likeness); d != "" {
					t.Errorf("version %d, thread %q, namespace %q (-want +got):\n%s", version, thread, space, d)
				}
			}
		}
		if err := db.Fence(t.Context(), "main", 3); !errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("version %d: fence at the current epoch: %v, want %v", version, err, checkpoint.ErrFenced)
		}
		if got, ok, err := db.Cache().Get(t.Context(), "space", "key"); string(got) != "value" || !ok || err != nil {
			t.Errorf("version %d: cached %q, %v, %v", version, got, ok, err)
		}
		l := newLine(t, db, "main") // the thread can be continued
		l.key.ID = l.get(checkpoint.ID{}).ID
		before := len(l.get(checkpoint.ID{}).Values["list"].Items)
		p := l.next(grow("list", 0, "more"))
		p.Fence = 3
		l.put(p)
		if after := len(l.get(checkpoint.ID{}).Values["list"].Items); after != before+1 {
			t.Errorf("version %d: the list grew from %d to %d elements, want one more", version, before, after)
		}
		checkStored(t, db)
		checkLedger(t, db)
		checkFile(t, db)
		checkFile(t, db)
	}
}

// All programs of a version must be able to read what one of them writes.
func TestSavedBytesMatchGoldenFile(t *testing.T) {
	golden := open(t, goldenFile(t, fileVersion), nil)
	db := open(t, database.InMemory, nil)
	if err := history(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	want, got := rowsOf(t, golden), rowsOf(t, db)
	if len(want) < 100 {
		t.Fatalf("the golden file has %d rows, so they were not read", len(want))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
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
		err := db.conn.Read(t.Context(), func(c *database.Conn) error {
			return c.Each(fmt.Sprintf("SELECT %s FROM %s ORDER BY 1", columns, table.name), nil, func(scan func(...any) error) error {
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

// checkLedger checks the rows that fillLedger has written.
func checkLedger(t *testing.T, db *DB) {
	t.Helper()
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
			n++
			if err != nil {
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
