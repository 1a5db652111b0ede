package race_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A package whose tests do less under the race detector runs again without it.
func TestPackagesThatAskRunWithoutTheRaceDetectorToo(t *testing.T) {
	module := os.DirFS("../..")
	makefile, err := fs.ReadFile(module, "Makefile")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^WITHOUT_RACE := (.*)$`).FindSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile has no WITHOUT_RACE")
	}
	again := strings.Fields(string(line[1]))
	found := 0
	err = fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/race/") {
			return nil
		}
		text, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		// What checkpointtest, storetest and ledgertest shorten, they shorten for who calls it.
		for _, asks := range []string{"race.Enabled", "checkpointtest.Differential(", "storetest.Differential(", "ledgertest.Differential("} {
			if strings.Contains(string(text), asks) {
				found++
				if dir := "./" + path.Dir(name); !slices.Contains(again, dir) {
					t.Errorf("%s uses %s, and %s is not in WITHOUT_RACE of the Makefile", name, asks, dir)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no test asks whether the race detector is on: the search is wrong")
	}
}
