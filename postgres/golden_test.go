package postgres

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

var update = flag.Bool("update", false, "write the golden file if it is missing")

// A put writes the same bytes in every release of a format, so that processes of several
// releases can share a schema. The golden file of a released format never changes.
func TestStoredBytesMatchGoldenFile(t *testing.T) {
	db, mem := fresh(t, quick(t), Options{}), checkpoint.NewMemory()
	for _, s := range []historian{db, mem} {
		if err := history(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	got := rowsOf(t, db)
	golden := filepath.Join("testdata", "v1.txt")
	if _, err := os.Stat(golden); *update && os.IsNotExist(err) {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
		t.Errorf("the rows (-want +got):\n%s", d)
	}
	for _, thread := range []string{"main", "copy", "odd\x00\xff"} {
		for _, space := range []string{"", "node:1|child:2"} {
			if d := cmp.Diff(listed(t, mem, thread, space), listed(t, db, thread, space), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("thread %q, namespace %q (-want +got):\n%s", thread, space, d)
			}
		}
	}
}

func listed(t *testing.T, s checkpoint.Saver, thread, space string) (all []*checkpoint.Checkpoint) {
	t.Helper()
	for cp, err := range s.List(t.Context(), checkpoint.Query{Thread: thread, Namespace: space}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, cp)
	}
	return all
}

// rowsOf are all rows of checkpoints as text.
func rowsOf(t *testing.T, db *DB) string {
	t.Helper()
	var all strings.Builder
	for _, table := range []struct{ name, columns string }{
		{"thread", "name, epoch"},
		{"shape", "id, names"},
		{"run", "thread, id, name, metadata"},
		{"line", "id, thread, path, head, rev, next, checkpoints, bytes"},
		{"checkpoint", "line, id, run, base, record, control, echo, metadata"},
		{"chunk", "line, chain, seq, data"},
		{"pending", "line, id, task, kind, data"},
	} {
		rows, err := db.conn.Pool.Query(t.Context(), fmt.Sprintf("SELECT ROW(%s)::text COLLATE \"C\" FROM %s.%s ORDER BY 1", table.columns, db.conn.Quoted, table.name))
		if err != nil {
			t.Fatal(err)
		}
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s\n%s\n", table.name, strings.Join(texts, "\n"))
	}
	return all.String()
}

// A historian is a saver that can do all that history does.
type historian interface {
	checkpoint.Saver
	checkpoint.Pruner
	checkpoint.Copier
	checkpoint.RunDeleter
}

// A scribe writes a history: what it puts has the same ids at all times.
type scribe struct {
	saver historian
	n     uint64
	heads map[string]checkpoint.ID // of the namespaces, by thread and name
	err   error
}

func (s *scribe) put(ctx context.Context, thread, space string, p checkpoint.Put, changes ...checkpoint.Change) checkpoint.ID {
	s.n++
	at := thread + "|" + space
	p.Key = checkpoint.Key{Thread: thread, Namespace: space}
	binary.BigEndian.PutUint64(p.ID[:], 0x1f1a0000_00006000|s.n<<16)
	binary.BigEndian.PutUint64(p.ID[8:], 0x9000_0000_0000_0000|s.n%3)
	p.Step, p.Head, p.Changes = int(s.n)-2, s.heads[at], changes
	if p.Parent.IsZero() {
		p.Parent = p.Head
	}
	if s.err == nil {
		s.err = s.saver.Put(ctx, &p)
	}
	s.heads[at] = p.ID
	return p.ID
}

// history writes everything that rows can contain. It never changes: additions of a later
// version belong in a history of that version.
func history(ctx context.Context, saver historian) error {
	s := &scribe{saver: saver, heads: map[string]checkpoint.ID{}}
	value := func(channel, data string) checkpoint.Change {
		return checkpoint.Change{Channel: channel, Version: s.n, Data: []byte(data)}
	}
	list := func(channel string, drop int, items ...string) checkpoint.Change {
		c := checkpoint.Change{Channel: channel, Version: s.n, List: true, Drop: drop}
		for _, item := range items {
			c.Items = append(c.Items, []byte(item))
		}
		return c
	}
	ada := checkpoint.Put{Source: checkpoint.Loop, RunID: "run of ada", Metadata: json.RawMessage(`{"user": "ada"}`)}
	said := strings.Repeat("what was said, ", 30)

	// An echo, values of all sizes, and channels that are changed twice.
	s.put(ctx, "main", "", checkpoint.Put{Source: checkpoint.Input, Control: []byte(`{"start":"` + said + `"}`)})
	s.put(ctx, "main", "", ada, list("list", 0, said, ""), value("small", "1"), value("48 bytes", strings.Repeat("x", 48)), value("49 bytes", strings.Repeat("y", 49)))
	bob := ada
	bob.Metadata, bob.Control = json.RawMessage(`{"user":"bob"}`), []byte(`{"next":["a"]}`)
	s.put(ctx, "main", "", bob, list("list", 0, "replaced"), list("list", 1, "for good"), value("small", strings.Repeat("2", 60)), value("small", ""))
	fields := make([]checkpoint.Change, 30)
	for i := range fields {
		fields[i] = value(fmt.Sprint("field ", i), fmt.Sprint("value ", i))
	}
	s.put(ctx, "main", "", ada, fields...)
	for i := range 60 { // enough for a base
		s.put(ctx, "main", "", ada, list("list", i%7/6, fmt.Sprint("item ", i)), value("count", fmt.Sprint(i)))
	}
	// More forks of forks than a list has segments, and one from the beginning.
	parent := s.heads["main|"]
	for i := range saved.MaxSegments + 2 {
		s.put(ctx, "main", "", checkpoint.Put{Source: checkpoint.Loop, RunID: "gone"}, list("list", 0, "left behind"))
		parent = s.put(ctx, "main", "", checkpoint.Put{Source: checkpoint.Fork, Parent: parent}, list("list", 1, "fork", fmt.Sprint(i)))
	}
	s.put(ctx, "main", "", checkpoint.Put{Source: "something new", Pending: []checkpoint.Write{{Task: "b", Kind: checkpoint.Done, Data: []byte("result")}, {Task: "a", Kind: checkpoint.Paused}}},
		checkpoint.Change{Channel: "small", Clear: true}, list("empty", 0), list("list", 1000))
	s.put(ctx, "main", "node:1|child:2", ada, list("list", 0, "nested"), value("new", "\x00\xff"))
	s.put(ctx, "odd\x00\xff", "", checkpoint.Put{Source: checkpoint.Update}, value("\x00\xff", "odd"))

	for _, do := range []func() error{
		func() error { return saver.CopyThread(ctx, "main", "copy") },
		func() error {
			_, err := saver.Prune(ctx, "copy", checkpoint.Retention{KeepLast: 9, KeepInterrupted: true})
			return err
		},
		func() error { _, err := saver.DeleteRuns(ctx, "main", []string{"gone"}); return err },
		func() error { _, err := saver.DeleteRuns(ctx, "copy", []string{"gone"}); return err },
	} {
		if s.err == nil {
			s.err = do()
		}
	}
	return s.err
}
