package treadle_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The Go code of a guide is copied from tests and examples, so that it compiles and does
// what the text describes. Only white space may differ.
func TestDocsShowCompiledCode(t *testing.T) {
	normal := func(code []byte) string { return strings.Join(strings.Fields(string(code)), " ") }

	var files []string
	for _, pattern := range []string{"*_test.go", "*/*example_test.go", "agent/*/*example_test.go", "memory/*/*example_test.go", "llm/*/*example_test.go", "client/*/*example_test.go", "server/*/*example_test.go", "examples/*/*_test.go", "examples/*/main.go", "internal/test/system/*/*example_test.go", "examples/guides/*/*.go", "examples/guides/*/*/*.go"} {
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
	for _, doc := range []string{"README.md", "docs/from-langgraph.md", "docs/server.md", "docs/observability.md", "docs/client.md", "docs/time.md", "docs/sagas.md", "docs/first-agent.md", "docs/deep-agents.md", "docs/graphs.md", "docs/testing-agents.md", "docs/users.md", "docs/changing-graphs.md", "docs/memory.md", "docs/retrieval.md", "docs/providers.md", "docs/mcp.md", "docs/privacy.md", "docs/generative-ui.md", "docs/a2a.md", "docs/agui.md", "docs/errors.md"} {
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
			if wholeFile.Match(text[:at[0]]) { // see TestGuidesShowWholeFiles
				continue
			}
			if n := normal(code); n == "" || !compiled(n) {
				line := 1 + strings.Count(string(text[:at[0]]), "\n")
				t.Errorf("%s:%d: no test has this code:\n%s", doc, line, code)
			}
		}
	}
}

// wholeFile matches the end of the text before a block that a reader copies into a file.
var wholeFile = regexp.MustCompile("(?:^|\n)Write `([^`\n]+)`[^\n]*:\n\n$")

// A guide shows each file of its program whole, so that a reader who copies the blocks gets the
// program in examples/guides. There, the module path is a different one.
func TestGuidesShowWholeFiles(t *testing.T) {
	block := regexp.MustCompile("(?ms)^```[a-z]+\n(.*?)^```$")
	for doc, guide := range map[string]struct{ dir, module string }{
		"docs/first-agent.md":     {"firstagent", "shop"},
		"docs/deep-agents.md":     {"deepagents", "library"},
		"docs/graphs.md":          {"graphs", "reviews"},
		"docs/testing-agents.md":  {"testagent", "desk"},
		"docs/users.md":           {"users", "accounts"},
		"docs/changing-graphs.md": {"changing", "essays"},
		"docs/memory.md":          {"memory", "waiter"},
		"docs/retrieval.md":       {"retrieval", "answers"},
		"docs/sagas.md":           {"sagas", "trip"},
		"docs/deploying.md":       {"deploying", "agent"},
	} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "go mod init "+guide.module+"\n") {
			t.Errorf("%s does not create the module %s", doc, guide.module)
		}
		shown := 0
		for _, at := range block.FindAllSubmatchIndex(text, -1) {
			name := wholeFile.FindSubmatch(text[:at[0]])
			if name == nil {
				continue
			}
			shown++
			file := filepath.Join("examples/guides", guide.dir, string(name[1]))
			program, err := os.ReadFile(file)
			if err != nil {
				t.Errorf("%s: %v", doc, err)
				continue
			}
			want := strings.ReplaceAll(string(program), "github.com/treadle-go/treadle/examples/guides/"+guide.dir, guide.module)
			if got := string(text[at[2]:at[3]]); got != want {
				t.Errorf("%s differs from %s; it shows\n%s", doc, file, got)
			}
		}
		if shown == 0 {
			t.Errorf("%s shows no file", doc)
		}
	}
}

// Links between the pages, and from them into the tree, lead to files that exist.
func TestDocsLinkToExistingFiles(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)]*))?\)`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`") // a call with a type argument looks like a link
	var docs []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "bench/*.md", "internal/test/system/parity/*.md"} {
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
			target, section := string(m[1]), string(m[2])
			if strings.Contains(target, ":") { // another site
				continue
			}
			file := doc
			if target != "" {
				file = filepath.Join(filepath.Dir(doc), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which does not exist", doc, target)
			} else if section != "" && filepath.Ext(file) == ".md" && !slices.Contains(sections(t, file), section) {
				t.Errorf("%s links to section %s of %s, which does not exist", doc, section, file)
			}
		}
	}
}

// sections returns the names that links use for the headings of a page.
func sections(t *testing.T, page string) []string {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAll(text, nil)
	punctuation := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllSubmatch(text, -1) {
		name := punctuation.ReplaceAllString(strings.ToLower(string(m[1])), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// Each task in the table of docs/extending.md has a section, which names the file to start at,
// and each section is in the table.
func TestExtendingHasSectionPerTask(t *testing.T) {
	text, err := os.ReadFile("docs/extending.md")
	if err != nil {
		t.Fatal(err)
	}
	start, sections, _ := strings.Cut(string(text), "\n## ")
	tasks := regexp.MustCompile("(?m)^\\| \\[([^\\]]+)\\]\\(#[^)]+\\) \\| `([^`]+)`").FindAllStringSubmatch(start, -1)
	bodies := map[string]string{}
	for s := range strings.SplitSeq(sections, "\n## ") {
		title, body, _ := strings.Cut(s, "\n")
		bodies[strings.ToLower(title)] = body
	}
	for _, task := range tasks {
		if body, ok := bodies[strings.ToLower(task[1])]; !ok || !strings.Contains(body, "`"+task[2]+"`") {
			t.Errorf("docs/extending.md: section %q: exists %t, want one that names %s", task[1], ok, task[2])
		}
	}
	if len(tasks) == 0 || len(tasks) != len(bodies) {
		t.Errorf("docs/extending.md: %d tasks in the table, %d sections", len(tasks), len(bodies))
	}
}
