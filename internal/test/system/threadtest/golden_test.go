package threadtest_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/system/threadtest"
)

var update = flag.Bool("update", false, "write the golden file of the current format if it is missing")

// currentFormat is the version of what the engine tells its savers. A change of
// the format gets a number and a file of its own. Since 2, a nested checkpoint
// names the one around it, and a checkpoint says who wrote what; since 3, it
// names its graph; since 4, a failure names the type of the node's own error.
const currentFormat = 4

func goldenFile(version int) string {
	return filepath.Join("testdata", fmt.Sprintf("v%d.json", version))
}

// Parity: 165, 206. Of 165 our way: ids of questions are hashes of our own.
func TestThreadsOfEveryVersionContinue(t *testing.T) {
	if *update {
		threadtest.WriteGolden(t, goldenFile(currentFormat))
	}
	for version := 1; version <= currentFormat; version++ {
		suite := func(t *testing.T, open func(*testing.T) checkpoint.Saver) {
			threadtest.GoldenGoesOn(t, goldenFile(version), open)
		}
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			t.Run("memory", func(t *testing.T) { suite(t, memory) })
			onDatabases(t, suite)
		})
	}
}

func TestCurrentFormatIsWritten(t *testing.T) {
	threadtest.GoldenIsPresent(t, goldenFile(currentFormat))
}
