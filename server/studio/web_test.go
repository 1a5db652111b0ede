package studio

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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
