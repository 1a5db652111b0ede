package threadtest_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/threadtest"
)

var update = flag.Bool("update", false, "write the golden file of the present format, if there is none")

// presentFormat is the version of what the engine tells its savers. A change of
// the format gets a number, a graph and a file of its own.
const presentFormat = 1

func goldenFile(version int) string {
	return filepath.Join("testdata", fmt.Sprintf("v%d.json", version))
}

func TestThreadsOfEveryVersionGoOn(t *testing.T) {
	if *update {
		threadtest.WriteGolden(t, goldenFile(presentFormat))
	}
	for version := 1; version <= presentFormat; version++ {
		t.Run(fmt.Sprintf("v%d/memory", version), func(t *testing.T) { threadtest.Golden(t, goldenFile(version), memory) })
		t.Run(fmt.Sprintf("v%d/sqlite", version), func(t *testing.T) {
			onSQLite(t, func(t *testing.T, open func(*testing.T) checkpoint.Saver) {
				threadtest.Golden(t, goldenFile(version), open)
			})
		})
	}
}
