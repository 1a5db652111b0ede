package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
)

// A page of a tree has the order of its rows in a list, by which SQLite searches. If that is
// wrong, a search from above may miss rows that a search from below finds.
func TestListDetectsReorderedPage(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.db")
	db := open(t, whole, nil)
	l := newLine(t, db, "pruned")
	for i := range 12 {
		l.add(set("a", fmt.Sprintf("%0100d", i)))
	}
	if _, err := db.Prune(t.Context(), "pruned", checkpoint.Retention{KeepLast: 7}); err != nil {
		t.Fatal(err)
	}
	newLine(t, db, "other").add(set("a", "1"))
	number := ask(t, db, "SELECT pageno FROM dbstat WHERE name='checkpoint'")
	want := idsOf(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	start := (number - 1) * damagePage
	cells := int(raw[start+3])<<8 | int(raw[start+4])
	if cells != 8 {
		t.Fatalf("the page has %d rows, want 8", cells)
	}
	list := func(raw []byte) []byte { return raw[start+8:][:2*cells] } // behind the header of a leaf
	noticed := 0
	for i := range cells {
		for k := range cells {
			for _, both := range []bool{true, false} {
				changed := slices.Clone(raw)
				from, to := list(raw), list(changed)
				copy(to[2*i:], from[2*k:2*k+2])
				if both {
					copy(to[2*k:], from[2*i:2*i+2])
				}
				db, err := Open(damageCopy(t, dir, fmt.Sprint(i, k, both), changed), nil)
				if err != nil {
					t.Fatal(err)
				}
				got := idsOf(t, db)
				for _, id := range want {
					cp, err := db.Get(t.Context(), checkpoint.Key{Thread: "pruned", ID: id})
					if err == nil && cp.ID != id || err != nil && !errors.Is(err, ErrDamaged) {
						t.Errorf("with row %d where %d was (exchanged: %t), %s is read as %v, %v", k, i, both, id, cp, err)
					}
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
				if got == nil {
					noticed++
				} else if !slices.Equal(got, want) {
					t.Errorf("with row %d where %d was (exchanged: %t), %d checkpoints are listed, want %d", k, i, both, len(got), len(want))
				}
			}
		}
	}
	if noticed == 0 {
		t.Error("no damage was noticed")
	}
}

// idsOf returns the ids of all checkpoints of the thread, or nil if it is damaged.
func idsOf(t *testing.T, db *DB) (ids []checkpoint.ID) {
	t.Helper()
	ids = []checkpoint.ID{}
	for cp, err := range db.List(t.Context(), checkpoint.Query{Thread: "pruned"}) {
		if errors.Is(err, ErrDamaged) {
			return nil
		}
		if err != nil {
			t.Error(err)
			return nil
		}
		ids = append(ids, cp.ID)
	}
	return ids
}
