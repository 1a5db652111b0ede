package threadtest_test

import (
	"context"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/internal/test/system/threadtest"
)

func memory(*testing.T) checkpoint.Saver { return checkpoint.NewMemory() }

// onEach runs a suite in memory and on every database. Under the race detector,
// databases run the concurrent tests alone: see package race.
func onEach(t *testing.T, suite threadtest.Suite) {
	t.Helper()
	if race.Runs(true) {
		t.Run("memory", func(t *testing.T) { suite.Run(t, memory) })
	}
	onDatabases(t, func(t *testing.T, open func(*testing.T) checkpoint.Saver) {
		if race.Enabled {
			suite.RunConcurrent(t, open)
		} else {
			suite.Run(t, open)
		}
	})
}

// onDatabases runs a test on every database.
func onDatabases(t *testing.T, test func(*testing.T, func(*testing.T) checkpoint.Saver)) {
	t.Helper()
	for _, b := range backends.All {
		t.Run(b.Name, func(t *testing.T) { test(t, emptied(t, b)) })
	}
}

// emptied returns what opens an empty database for a test. To make one takes
// longer than most tests do, so a test leaves the one it had, emptied, to the
// next.
func emptied(t *testing.T, b *backends.Backend) func(*testing.T) checkpoint.Saver {
	t.Helper()
	d := &databases{T: t, Backend: b, address: b.Unsynced(b.Address(t))} // no test here has a server crash
	return d.take
}

type databases struct {
	*testing.T
	*backends.Backend
	address string
	made    int
	idle    []backends.Database
}

func (d *databases) take(t *testing.T) checkpoint.Saver {
	t.Helper()
	if len(d.idle) == 0 {
		d.add()
	}
	db := d.idle[0]
	d.idle = d.idle[1:]
	t.Cleanup(func() {
		if err := empty(context.WithoutCancel(t.Context()), db); err != nil {
			t.Errorf("empty the database for the next test: %v", err)
		}
		d.idle = append(d.idle, db)
	})
	return db
}

func (d *databases) add() {
	d.Helper()
	d.made++
	db, err := d.Open(d.Context(), d.address, d.made)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() {
		if err := db.Close(); err != nil {
			d.Error(err)
		}
	})
	d.idle = append(d.idle, db)
}

// empty removes all data from a database.
func empty(ctx context.Context, db backends.Database) error {
	var names []string
	for thread, err := range db.Threads(ctx) {
		if err != nil {
			return err
		}
		names = append(names, thread.Name)
	}
	for _, name := range names {
		if err := db.DeleteThread(ctx, name); err != nil {
			return err
		}
	}
	return db.Cache().Clear(ctx)
}
