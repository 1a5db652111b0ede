package sqlite

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/databasetest"
)

// line is a namespace of a thread, as one writer who is alone sees it.
type line struct {
	testing.TB
	db  checkpoint.Saver
	key checkpoint.Key // of the head
	n   int            // puts so far
}

func newLine(tb testing.TB, db checkpoint.Saver, thread string) *line {
	return &line{TB: tb, db: db, key: checkpoint.Key{Thread: thread}}
}

// next returns a put that goes on from the head.
func (l *line) next(changes ...checkpoint.Change) *checkpoint.Put {
	p := &checkpoint.Put{Key: l.key, Parent: l.key.ID, Head: l.key.ID, Step: l.n, Source: checkpoint.Loop, Changes: changes}
	p.ID = checkpoint.NewID(l.n, l.key.ID)
	return p
}

func (l *line) put(p *checkpoint.Put) checkpoint.Key {
	l.Helper()
	if err := l.db.Put(l.Context(), p); err != nil {
		l.Fatalf("put %s: %v", p.ID, err)
	}
	l.key = p.Key
	l.n++
	return p.Key
}

func (l *line) add(changes ...checkpoint.Change) checkpoint.Key {
	l.Helper()
	return l.put(l.next(changes...))
}

// fork puts a checkpoint whose parent is not the head.
func (l *line) fork(parent checkpoint.ID, changes ...checkpoint.Change) checkpoint.Key {
	l.Helper()
	p := l.next(changes...)
	p.Parent, p.Source = parent, checkpoint.Fork
	return l.put(p)
}

func (l *line) get(id checkpoint.ID) *checkpoint.Checkpoint {
	l.Helper()
	cp, err := l.db.Get(l.Context(), checkpoint.Key{Thread: l.key.Thread, Namespace: l.key.Namespace, ID: id})
	if err != nil {
		l.Fatalf("get %s: %v", id, err)
	}
	return cp
}

func set(channel, value string) checkpoint.Change {
	return checkpoint.Change{Channel: channel, Version: 1, Data: []byte(value)}
}

func grow(channel string, drop int, items ...string) checkpoint.Change {
	c := checkpoint.Change{Channel: channel, Version: 1, List: true, Drop: drop}
	for _, item := range items {
		c.Items = append(c.Items, []byte(item))
	}
	return c
}

// texts returns the elements of a list.
func texts(v checkpoint.Value) []string {
	out := make([]string, len(v.Items))
	for i, item := range v.Items {
		out[i] = string(item)
	}
	return out
}

// numbers are elements that are stored in chunks, since they are too long to be part of a
// record.
func numbers(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("item %d%*s", i, saved.InlineMax, "."))
	}
	return out
}

func listed(tb testing.TB, s checkpoint.Saver, q checkpoint.Query) (out []*checkpoint.Checkpoint) {
	tb.Helper()
	for cp, err := range s.List(tb.Context(), q) {
		if err != nil {
			tb.Fatalf("list %q: %v", q.Thread, err)
		}
		out = append(out, cp)
	}
	return out
}

// likeness compares bytes as such, which is a hundred times faster than one by
// one; what is empty may be nil.
var likeness = cmp.Options{
	cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) }),
	cmp.FilterPath(func(p cmp.Path) bool {
		t := p.Last().Type()
		return t == nil || t.Kind() != reflect.Slice || t.Elem().Kind() != reflect.Uint8
	}, cmpopts.EquateEmpty()),
}

// ask returns the first column of a query's first row.
func ask(tb testing.TB, db *DB, query string, args ...any) int {
	tb.Helper()
	return databasetest.Ask(tb, db.conn, query, args...)
}

// force changes the file without updating checksums.
func force(tb testing.TB, db *DB, query string) {
	tb.Helper()
	databasetest.Force(tb, db.conn, query)
	db.known.forget()
}
