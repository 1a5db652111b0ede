package treadle_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The Go code of a guide is cut out of tests and examples, so that it compiles
// and does what the text says. Only white space may differ.
func TestDocsShowCompiledCode(t *testing.T) {
	normal := func(code []byte) string { return strings.Join(strings.Fields(string(code)), " ") }

	var files []string
	for _, pattern := range []string{"*_test.go", "*/*example_test.go", "examples/*/*_test.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	sources := make([]string, len(files))
	for i, f := range files {
		code, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		sources[i] = normal(code)
	}
	compiled := func(block string) bool {
		for _, s := range sources {
			if strings.Contains(s, block) {
				return true
			}
		}
		return false
	}

	block := regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	for _, doc := range []string{"docs/from-langgraph.md", "docs/server.md", "docs/observability.md", "docs/client.md", "docs/time.md", "docs/sagas.md"} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		found := block.FindAllSubmatchIndex(text, -1)
		if opened := strings.Count(string(text), "```go"); len(found) == 0 || len(found) != opened {
			t.Errorf("%s: read %d of %d blocks of Go", doc, len(found), opened)
		}
		for _, at := range found {
			code := text[at[2]:at[3]]
			if n := normal(code); n == "" || !compiled(n) {
				line := 1 + strings.Count(string(text[:at[0]]), "\n")
				t.Errorf("%s:%d: no test has this code:\n%s", doc, line, code)
			}
		}
	}
}

// The pages for contributors name files and packages. Those must be there.
func TestDocsNameExistingFiles(t *testing.T) {
	quoted := regexp.MustCompile("`([A-Za-z0-9_./-]+)`")
	for _, doc := range []string{"docs/extending.md", "docs/testing.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		named := 0
		for _, m := range quoted.FindAllSubmatch(text, -1) {
			name := string(m[1])
			if dir, _, deep := strings.Cut(name, "/"); !deep && filepath.Ext(name) != ".go" {
				continue // a word
			} else if _, err := os.Stat(dir); deep && err != nil {
				continue // a path of something else
			}
			named++
			if _, err := os.Stat(name); err != nil {
				t.Errorf("%s names %s, which is not there", doc, name)
			}
		}
		if named == 0 {
			t.Errorf("%s: found no name of a file", doc)
		}
	}
}

// Links between the pages, and from them into the tree, lead to files that exist.
func TestDocsLinkToExistingFiles(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`") // a call with a type argument looks like a link
	var docs []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "bench/*.md", "parity/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, found...)
	}
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(code.ReplaceAll(text, nil), -1) {
			target := string(m[1])
			if strings.Contains(target, ":") { // another site
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", doc, target)
			}
		}
	}
}

// Each of a newcomer's first tasks has a section that names its files.
func TestExtendingHasASectionForEachFirstTask(t *testing.T) {
	text, err := os.ReadFile("docs/extending.md")
	if err != nil {
		t.Fatal(err)
	}
	file := regexp.MustCompile("`[a-z_/]+\\.go`")
	for _, task := range []string{"A stream mode", "A provider of models", "A saver", "A default of retries", "A middleware", "A subcommand", "A scoring term"} {
		_, section, ok := strings.Cut(string(text), "\n## "+task+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if n := len(file.FindAllString(section, -1)); !ok || n < 4 {
			t.Errorf("docs/extending.md: section %q: there %t, names %d files", task, ok, n)
		}
	}
}
