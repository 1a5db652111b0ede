package browsertest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/test/need"
	"github.com/treadle-go/treadle/internal/test/scripttest"
)

func TestChecksFailOnPageFaults(t *testing.T) {
	need.Program(t, need.Chromium)
	cmd, err := command(t.Context(), "testdata/faults.mjs")
	if err != nil {
		t.Fatal(err)
	}
	results, err := scripttest.Run(cmd)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range results {
		if r.OK != (r.Error == "") {
			t.Errorf("result %+v", r)
		}
		got[r.Name] = r.Error
	}
	for name, want := range map[string]string{
		"sound": "", "allowed": "", "throws": "exception in the page: Error: oops", "logs": "error on the console: oops", "differs": `want "goodbye"`,
		"differs, which is not to be allowed": `want "goodbye"`,
	} {
		if err, ok := got[name]; !ok || !strings.Contains(err, want) || want == "" && err != "" {
			t.Errorf("%s: %q", name, err)
		}
	}
}

func TestMissingChromiumErrorNamesCommand(t *testing.T) {
	none := func(string) (string, error) { return "", errors.New("not found") }
	if _, err := find(func(string) string { return "" }, none); err == nil || !strings.Contains(err.Error(), "run .ci/chromium") {
		t.Errorf("no Chromium: %v", err)
	}
	if _, err := find(func(string) string { return "/no/chromium" }, none); err == nil || !strings.Contains(err.Error(), "TREADLE_TEST_CHROMIUM") {
		t.Errorf("path without Chromium: %v", err)
	}
}

func TestMissingPackagesErrorNamesCommand(t *testing.T) {
	dir := t.TempDir()
	if err := installed(dir); err != nil {
		t.Errorf("directory without package.json: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := installed(dir); err == nil || !strings.Contains(err.Error(), "run .ci/npm") {
		t.Errorf("no packages: %v", err)
	}
}
