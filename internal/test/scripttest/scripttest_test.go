package scripttest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/test/scripttest"
)

func TestFailedChecksAreResults(t *testing.T) {
	results, err := run(t, `echo '{"name":"a","ok":true}'; echo '{"name":"b","error":"broken"}'; exit 1`)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 2 || !results[0].OK || results[1].OK || results[1].Error != "broken" {
		t.Errorf("results %+v", results)
	}
}

func TestFailedScriptsAreErrors(t *testing.T) {
	for script, want := range map[string]string{
		`echo '{"name":"a","ok":true}'; echo no end >&2; exit 1`: "no end",
		`echo '{"name":"a"}'; echo crash >&2; exit 2`:            "crash",
		`echo hello`: "not the result of a check: hello",
	} {
		if _, err := run(t, script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestTrackLooksAtAllButInstalledFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"node_modules", "src"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// To look at a link to a file that is missing is an error.
	if err := os.Symlink("missing", filepath.Join(dir, "node_modules", "link")); err != nil {
		t.Fatal(err)
	}
	if err := scripttest.Track(dir); err != nil {
		t.Errorf("installed file: %v", err)
	}
	if err := os.Symlink("missing", filepath.Join(dir, "src", "link")); err != nil {
		t.Fatal(err)
	}
	if err := scripttest.Track(dir); err == nil {
		t.Error("src/link was not looked at")
	}
}

func run(t *testing.T, script string) ([]scripttest.Result, error) {
	t.Helper()
	return scripttest.Run(exec.CommandContext(t.Context(), "bash", "-c", script))
}
