package threadtest_test

import (
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pgtest"
	"github.com/treadle-go/treadle/internal/threadtest"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/sqlite"
)

// inMemory is one saver: nobody but the process keeps it.
func inMemory(*testing.T) func() checkpoint.Saver {
	m := checkpoint.NewMemory()
	return func() checkpoint.Saver { return m }
}

func inFile(t *testing.T) func() checkpoint.Saver {
	path := filepath.Join(t.TempDir(), "threads.db")
	return reopened(t, func() (closer, error) { return sqlite.Open(path, nil) })
}

// inDatabase is one database for all: to make one takes a while.
func inDatabase(t *testing.T) threadtest.Place {
	url := pgtest.URL(t)
	return func(t *testing.T) func() checkpoint.Saver {
		return reopened(t, func() (closer, error) {
			return postgres.Open(t.Context(), url, &postgres.Options{Migrate: true})
		})
	}
}

type closer interface {
	checkpoint.Saver
	Close() error
}

// reopened closes what it opened before it opens it again.
func reopened(t *testing.T, open func() (closer, error)) func() checkpoint.Saver {
	var last closer
	end := func() {
		if last == nil {
			return
		}
		if err := last.Close(); err != nil {
			t.Error(err)
		}
		last = nil
	}
	t.Cleanup(end)
	return func() checkpoint.Saver {
		end()
		db, err := open()
		if err != nil {
			t.Fatal(err)
		}
		last = db
		return db
	}
}

func TestValuesSurviveARestart(t *testing.T) {
	t.Run("memory", func(t *testing.T) { threadtest.Values(t, inMemory) })
	t.Run("sqlite", func(t *testing.T) { threadtest.Values(t, inFile) })
	t.Run("postgres", func(t *testing.T) { threadtest.Values(t, inDatabase(t)) })
}

func TestValuesOfAnotherCodecSurviveARestart(t *testing.T) {
	threadtest.Values(t, inFile, threadtest.Gzip{})
}

func TestCodecsOnMemory(t *testing.T)   { threadtest.Codecs(t, memory) }
func TestCodecsOnSQLite(t *testing.T)   { onSQLite(t, threadtest.Codecs) }
func TestCodecsOnPostgres(t *testing.T) { onPostgres(t, threadtest.Codecs) }

func TestSizesAreAskedForRarely(t *testing.T) { threadtest.SizesAskRarely(t) }
func TestSizesOnMemory(t *testing.T)          { threadtest.Sizes(t, memory) }
func TestSizesOnSQLite(t *testing.T)          { onSQLite(t, threadtest.Sizes) }
func TestSizesOnPostgres(t *testing.T)        { onPostgres(t, threadtest.Sizes) }
