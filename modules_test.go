package treadle_test

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A module that is added to the workspace is also updated by Dependabot, tidied and released by
// .ci/modules, and replaced by readers of the guides who use a clone.
func TestModuleListsAreComplete(t *testing.T) {
	read := func(file, pattern string) []string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(pattern).FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s lacks %s", file, pattern)
		}
		return strings.Fields(string(m[1]))
	}
	modules := read("go.work", `(?s)use \((.*?)\)`)
	updated := read(".github/dependabot.yml", `(?s)directories: # as in go.work\n(.*?)schedule:`)
	published, private := read(".ci/modules", `\npublished=\((.*?)\)`), read(".ci/modules", `\nprivate=\((.*?)\)`)
	replaced := read("docs/README.md", `\nfor module in "" (.*?); do\n`)
	for _, m := range modules {
		m = path.Clean(m)
		if !slices.ContainsFunc(updated, func(p string) bool { ok, err := path.Match(p, path.Join("/", m)); return ok && err == nil }) {
			t.Errorf(".github/dependabot.yml lacks /%s", m)
		}
		if !slices.Contains(published, m) && !slices.Contains(private, m) {
			t.Errorf(".ci/modules lacks %s", m)
		}
		if library := m != "." && !strings.HasPrefix(m, "internal/") && !strings.HasPrefix(m, "cmd/"); library && slices.Contains(published, m) && !slices.Contains(replaced, "/"+m) {
			t.Errorf("docs/README.md, From a clone, lacks /%s", m)
		}
	}
}
