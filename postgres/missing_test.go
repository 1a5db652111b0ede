package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
)

// What is missing from the tables is an error that names the thread, never a
// thread that is empty or shorter.
func TestMissingCheckpointReturnsErrDamaged(t *testing.T) {
	url := quick(t)
	for name, which := range map[string]string{"the newest": "SELECT max(id::text)", "one in between": "SELECT (array_agg(id::text ORDER BY id))[3]", "the oldest": "SELECT min(id::text)"} {
		t.Run(name, func(t *testing.T) {
			db := fresh(t, url, Options{})
			var keys []checkpoint.Key
			var last checkpoint.ID
			for i := range 5 {
				p := &checkpoint.Put{Key: checkpoint.Key{Thread: "thread", ID: checkpoint.NewID(i, last)}, Parent: last, Head: last, Step: i, Source: checkpoint.Loop}
				if err := db.Put(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				last = p.ID
				keys = append(keys, p.Key)
			}
			if _, err := db.conn.Pool.Exec(t.Context(), db.conn.In("DELETE FROM {schema}.checkpoint WHERE id::text=("+which+" FROM {schema}.checkpoint)")); err != nil {
				t.Fatal(err)
			}
			var listed, got error
			for _, err := range db.List(t.Context(), checkpoint.Query{Thread: "thread"}) {
				listed = err
			}
			for _, key := range keys {
				_, err := db.Get(t.Context(), key)
				got = errors.Join(got, err)
			}
			for what, err := range map[string]error{"list": listed, "get": got} {
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), `thread "thread"`) {
					t.Errorf("%s: %v, want %v with the thread", what, err, ErrDamaged)
				}
			}
			if _, err := db.Get(t.Context(), checkpoint.Key{Thread: "thread"}); name == "the newest" && !errors.Is(err, ErrDamaged) {
				t.Errorf("the head: %v, want %v", err, ErrDamaged)
			}
		})
	}
}

// What was removed on purpose is not missing.
func TestPrunedCheckpointsAreNotDamage(t *testing.T) {
	db := fresh(t, quick(t), Options{})
	var last, first checkpoint.ID
	for i := range 5 {
		p := &checkpoint.Put{Key: checkpoint.Key{Thread: "thread", ID: checkpoint.NewID(i, last)}, Parent: last, Head: last, Step: i, Source: checkpoint.Loop}
		if err := db.Put(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		last = p.ID
		if i == 0 {
			first = last
		}
	}
	if _, err := db.Prune(t.Context(), "thread", checkpoint.Retention{KeepLast: 2}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range db.List(t.Context(), checkpoint.Query{Thread: "thread"}) {
		n++
		if err != nil {
			t.Error(err)
		}
	}
	if n != 2 {
		t.Errorf("%d checkpoints, want 2", n)
	}
	if _, err := db.Get(t.Context(), checkpoint.Key{Thread: "thread", ID: first}); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("one that was pruned is %v, want %v", err, checkpoint.ErrNotFound)
	}
}
