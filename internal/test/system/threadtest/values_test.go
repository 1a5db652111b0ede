package threadtest_test

import (
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/internal/test/system/threadtest"
)

// inMemory returns a single saver, which ends with the process.
func inMemory(*testing.T) func() checkpoint.Saver {
	m := checkpoint.NewMemory()
	return func() checkpoint.Saver { return m }
}

// inDatabase is one database for all values: to make one takes a while.
func inDatabase(t *testing.T, b *backends.Backend) threadtest.Place {
	t.Helper()
	address := b.Unsynced(b.Address(t))
	return func(t *testing.T) func() checkpoint.Saver {
		return reopened(t, func() (backends.Database, error) { return b.Open(t.Context(), address, 0) })
	}
}

// reopened closes the saver before it opens it again.
func reopened(t *testing.T, open func() (backends.Database, error)) func() checkpoint.Saver {
	var last backends.Database
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
	t.Run("memory", func(t *testing.T) { threadtest.Values(t, inMemory, 1) })
	for _, b := range backends.All {
		t.Run(b.Name, func(t *testing.T) { threadtest.Values(t, inDatabase(t, b), oneOf()) })
	}
}

func TestValuesOfOtherCodecSurviveRestart(t *testing.T) {
	threadtest.Values(t, inDatabase(t, backends.SQLite), oneOf(), threadtest.Gzip{})
}

// oneOf returns n if databases test one in n values: see package race.
func oneOf() int {
	if race.Enabled {
		return 8
	}
	return 1
}

func TestCodecs(t *testing.T) { onEach(t, threadtest.Codecs) }

func TestSizesAreAskedForRarely(t *testing.T) { threadtest.SizesAskRarely(t) }
func TestSizes(t *testing.T)                  { onEach(t, threadtest.Sizes) }
