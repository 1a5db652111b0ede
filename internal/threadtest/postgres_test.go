package threadtest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pgtest"
	"github.com/treadle-go/treadle/internal/threadtest"
	"github.com/treadle-go/treadle/postgres"
)

// onPostgres runs a suite on a database of its own. No test here has the server
// crash, so nobody waits for its disk.
func onPostgres(t *testing.T, suite func(*testing.T, func(*testing.T) checkpoint.Saver)) {
	t.Helper()
	suite(t, (&schemas{T: t, url: pgtest.URL(t) + "?synchronous_commit=off"}).take)
}

// schemas are those of a suite. To make one and to connect to it takes longer
// than most tests do, so a test leaves the one it had, emptied, to the next.
type schemas struct {
	*testing.T
	url  string
	made int
	idle []*postgres.DB
}

func (s *schemas) take(t *testing.T) checkpoint.Saver {
	t.Helper()
	if len(s.idle) == 0 {
		s.idle = append(s.idle, s.open())
	}
	db := s.idle[0]
	s.idle = s.idle[1:]
	t.Cleanup(func() {
		if err := empty(t, db); err != nil {
			t.Errorf("empty the schema for the next test: %v", err)
		}
		s.idle = append(s.idle, db)
	})
	return db
}

func (s *schemas) open() *postgres.DB {
	s.Helper()
	s.made++
	db, err := postgres.Open(s.Context(), s.url, &postgres.Options{Schema: fmt.Sprint("suite ", s.made), Migrate: true})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := db.Close(); err != nil {
			s.Error(err)
		}
	})
	return db
}

// empty leaves a database as if nobody had been there.
func empty(t *testing.T, db *postgres.DB) error {
	ctx := context.WithoutCancel(t.Context()) // which is over by now
	for thread, err := range db.Threads(ctx) {
		if err != nil {
			return err
		}
		if err := db.DeleteThread(ctx, thread.Name); err != nil {
			return err
		}
	}
	return db.Cache().Clear(ctx)
}

func TestStateOnPostgres(t *testing.T)       { onPostgres(t, threadtest.State) }
func TestEditsOnPostgres(t *testing.T)       { onPostgres(t, threadtest.Edits) }
func TestTravelOnPostgres(t *testing.T)      { onPostgres(t, threadtest.Travel) }
func TestNestingOnPostgres(t *testing.T)     { onPostgres(t, threadtest.Nesting) }
func TestDurabilityOnPostgres(t *testing.T)  { onPostgres(t, threadtest.Durability) }
func TestSiblingsOnPostgres(t *testing.T)    { onPostgres(t, threadtest.Siblings) }
func TestRacesOnPostgres(t *testing.T)       { onPostgres(t, threadtest.Races) }
func TestMigrationsOnPostgres(t *testing.T)  { onPostgres(t, threadtest.Migrations) }
func TestInterruptsOnPostgres(t *testing.T)  { onPostgres(t, threadtest.Interrupts) }
func TestBreakpointsOnPostgres(t *testing.T) { onPostgres(t, threadtest.Breakpoints) }
func TestFunctionalOnPostgres(t *testing.T)  { onPostgres(t, threadtest.Functional) }
