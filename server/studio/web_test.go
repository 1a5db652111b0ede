package studio

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/treadle-go/treadle/internal/test/need"
)

// needPackages fails the test if the npm packages of the page are missing.
func needPackages(t *testing.T) {
	t.Helper()
	need.Program(t, need.Node)
	if _, err := os.Stat("web/node_modules"); err != nil {
		t.Fatalf("this test needs packages from npm: %v: run .ci/npm", err)
	}
}

// The unit tests of the page.
func TestPageUnits(t *testing.T) {
	needPackages(t)
	cmd := exec.CommandContext(t.Context(), "npm", "test", "--silent")
	cmd.Dir = "web"
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// npm leaves builds for other systems out of a lock file if its registry does not have them.
// npm ci then fails on these systems: pin the package to a version that has all builds.
func TestLockFileCoversAllPlatforms(t *testing.T) {
	raw, err := os.ReadFile("web/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct {
			Dependencies         map[string]string
			OptionalDependencies map[string]string
		}
	}
	if err := json.Unmarshal(raw, &lock); err != nil || len(lock.Packages) == 0 {
		t.Fatal(len(lock.Packages), err)
	}
	// A package is in its parent's directory, or in one above.
	locked := func(parent, name string) bool {
		for {
			if _, ok := lock.Packages[strings.TrimPrefix(parent+"/node_modules/"+name, "/")]; ok || parent == "" {
				return ok
			}
			parent = parent[:max(0, strings.LastIndex(parent, "node_modules/")-1)]
		}
	}
	for name, p := range lock.Packages {
		for _, needs := range []map[string]string{p.Dependencies, p.OptionalDependencies} {
			for dependency, version := range needs {
				if !locked(name, dependency) {
					t.Errorf("the lock file lacks %s %s, which %s needs", dependency, version, name)
				}
			}
		}
	}
}

// ESLint checks the lines of scripts.
func TestStylesHaveShortLines(t *testing.T) {
	const limit = 120
	err := fs.WalkDir(os.DirFS("web/src"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".css" {
			return err
		}
		text, err := os.ReadFile(filepath.Join("web/src", name))
		for i, line := range bytes.Split(text, []byte("\n")) {
			if n := utf8.RuneCount(line); n > limit {
				t.Errorf("web/src/%s:%d has %d characters, more than %d", name, i+1, n, limit)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
