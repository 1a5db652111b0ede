package sqlite

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// SQLite plans by the value of a parameter that is a limit, so it prepares such a
// statement anew whenever that is bound, which takes longer than most statements run.
// An expression of a parameter it does not look into.
func TestLimitsShareStatements(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	bare := regexp.MustCompile(`LIMIT \?($|[^+])`)
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for i, line := range strings.Split(string(raw), "\n") {
			if bare.MatchString(line) {
				t.Errorf("%s:%d: write LIMIT ?+0: %s", path, i+1, strings.TrimSpace(line))
			}
		}
	}
}
