package treadle_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

var updating = flag.Bool("update", false, "rewrite the golden files and the generated sections of docs")

const (
	parityData        = "docs/parity/rows.json"
	parityDifferences = "internal/test/system/parity/differences.md"
)

// parityPages lists the pages with a generated section.
var parityPages = map[string]struct {
	section string
	text    func(table *parityTable, marks []parityMark, differences string) string
}{
	"docs/parity/recorded.md": {"differences", func(_ *parityTable, _ []parityMark, differences string) string { return withoutTitle(differences) }},
	"docs/parity/tests.md":    {"rows", func(table *parityTable, marks []parityMark, _ string) string { return table.rows(marks) }},
	"docs/parity/defects.md":  {"defects", func(table *parityTable, marks []parityMark, _ string) string { return table.defects(marks) }},
	"docs/parity/samples.md":  {"samples", func(table *parityTable, marks []parityMark, _ string) string { return table.samples(marks) }},
}

// A parityRow is a row of LangGraph's test catalog. Reason explains why the row, or a part
// of it, has no test here.
type parityRow struct {
	Row    int    `json:"row"`
	Title  string `json:"title"`
	Group  string `json:"group"`
	Reason string `json:"reason"`
}

// A paritySample is a code sample of LangGraph's documentation.
type paritySample struct {
	Sample string `json:"sample"`
	Title  string `json:"title"`
	Reason string `json:"reason"`
}

type parityTable struct {
	Rows    []parityRow    `json:"rows"`
	Samples []paritySample `json:"samples"`
	Defects []parityDefect `json:"defects"`
}

// parityGroups lists the groups in the order of docs/parity/tests.md, with their headings.
var parityGroups = []struct{ name, heading string }{
	{"graphs", "Graphs"},
	{"channels", "Channels"},
	{"send", "Send"},
	{"command", "Command"},
	{"subgraphs", "Nested graphs"},
	{"retry", "Retries and error handlers"},
	{"timeout", "Timeouts"},
	{"cache", "Cache"},
	{"defer", "Deferred nodes"},
	{"streaming", "Streams"},
	{"drawing", "Drawings"},
	{"persistence", "Persistence and time travel"},
	{"interrupts", "Interrupts"},
	{"functional", "Functional API"},
	{"agents", "Agents"},
	{"store", "Store"},
	{"messages", "Messages"},
	{"language", "What the language decides"},
}

// portedNow lists the groups that are ported as a whole, so that only rows about planned
// features are omitted.
var portedNow = []string{"send", "command", "subgraphs"}

var ahead = regexp.MustCompile(`interrupt|time travel|persistence`)

// docs/parity names for every row the test that ports it, or the reason that there is
// none. Tests name the rows that they port in a line of their doc comment: "Parity: 14,
// 15." for rows, "Sample: A1." for samples, and "Defect: §2.2 the defect." for defects. A
// remark may follow the period of the first two.
func TestParityTableIsComplete(t *testing.T) {
	module := os.DirFS(".")
	table, err := readParityTable(module)
	if err != nil {
		t.Fatal(err)
	}
	marks, err := parityMarks(module)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range table.problems(marks) {
		t.Error(problem)
	}
	differences, err := fs.ReadFile(module, parityDifferences)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for name, p := range parityPages {
		page, err := fs.ReadFile(module, name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := fillSection(page, p.section, p.text(table, marks, string(differences)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if bytes.Equal(page, want) {
			continue
		}
		if !*updating {
			t.Errorf("%s is stale: run go test -run %s . -update", name, t.Name())
			continue
		}
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The short page states how many rows have a test.
func TestParityPageCountsTheRows(t *testing.T) {
	module := os.DirFS(".")
	table, err := readParityTable(module)
	if err != nil {
		t.Fatal(err)
	}
	marks, err := parityMarks(module)
	if err != nil {
		t.Fatal(err)
	}
	page, err := fs.ReadFile(module, "docs/parity.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d of the %d rows", table.ported(marks), len(table.Rows)); !strings.Contains(string(page), want) {
		t.Errorf("docs/parity.md does not say %q", want)
	}
}

func readParityTable(module fs.FS) (*parityTable, error) {
	raw, err := fs.ReadFile(module, parityData)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	table := &parityTable{}
	if err := dec.Decode(table); err != nil {
		return nil, fmt.Errorf("%s: %w", parityData, err)
	}
	return table, nil
}

// A parityMark is one entry of an annotation: the test, and the row, sample or defect that it names.
type parityMark struct {
	id   string // "14", "A1" or "§2.2 the defect"
	test string // its name, with the directory if it is not the root
	file string
}

var parityLine = regexp.MustCompile(`^(Parity|Sample|Defect):\s*(.*)$`)

// eachTestFile calls f with every parsed test file of the module.
func eachTestFile(module fs.FS, f func(name string, files *token.FileSet, parsed *ast.File)) error {
	return fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(name)
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err == nil {
			f(name, files, parsed)
		}
		return err
	})
}

// parityMarks reads the annotations of all tests of the module.
func parityMarks(module fs.FS) ([]parityMark, error) {
	var marks []parityMark
	var errs []error
	err := eachTestFile(module, func(name string, files *token.FileSet, parsed *ast.File) {
		for _, group := range parsed.Comments {
			for line := range strings.Lines(group.Text()) {
				line = strings.TrimSpace(line)
				m := parityLine.FindStringSubmatch(line)
				if m == nil {
					continue
				}
				ids, err := parityIDs(m[1], m[2])
				test := testOf(parsed, group)
				if err == nil && test == "" {
					err = errors.New("it is not on a test, an example or a fuzz test")
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("%s:%d: %q: %w", name, files.Position(group.Pos()).Line, line, err))
					continue
				}
				if dir := path.Dir(name); dir != "." {
					test = dir + "." + test
				}
				for _, id := range ids {
					marks = append(marks, parityMark{id: id, test: test, file: name})
				}
			}
		}
	})
	return marks, errors.Join(append(errs, err)...)
}

func TestParityPagesNameExistingTests(t *testing.T) {
	module := os.DirFS(".")
	known := map[string]bool{}
	err := eachTestFile(module, func(_ string, _ *token.FileSet, parsed *ast.File) {
		for _, decl := range parsed.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				known[fn.Name.Name] = true
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := fs.Glob(module, "docs/parity/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(?:[\\w/]+\\.)?((?:Test|Example|Fuzz)[A-Z]?\\w*)`")
	found := 0
	for _, name := range pages {
		page, err := fs.ReadFile(module, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllSubmatch(page, -1) {
			found++
			if test := string(m[1]); !known[test] {
				t.Errorf("%s names %s, which does not exist", name, test)
			}
		}
	}
	if found == 0 {
		t.Fatal("the pages name no test at all")
	}
}

var sampleID = regexp.MustCompile(`^[A-Z][0-9]+$`)

// parityIDs reads the list of an annotation.
func parityIDs(kind, list string) ([]string, error) {
	if kind == "Defect" {
		return defectID(list)
	}
	list, _, ok := strings.Cut(list, ".") // a remark may follow
	if !ok {
		return nil, errors.New("the list does not end with a full stop")
	}
	ids := strings.Split(list, ",")
	for i, id := range ids {
		id = strings.TrimSpace(id)
		if _, err := strconv.Atoi(id); kind == "Parity" && err != nil {
			return nil, fmt.Errorf("%q is not the number of a row", id)
		}
		if kind == "Sample" && !sampleID.MatchString(id) {
			return nil, fmt.Errorf("%q is not the name of a sample", id)
		}
		ids[i] = id
	}
	return ids, nil
}

// testOf returns the name of the test that group documents or is inside of, or "".
func testOf(file *ast.File, group *ast.CommentGroup) string {
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || fn.Doc != group && (group.Pos() < fn.Pos() || group.End() > fn.End()) {
			continue
		}
		for _, prefix := range []string{"Test", "Example", "Fuzz"} {
			if strings.HasPrefix(fn.Name.Name, prefix) {
				return fn.Name.Name
			}
		}
	}
	return ""
}

// testsOf returns the tests whose annotations name id, those of the root package first.
func testsOf(marks []parityMark, id string) []string {
	var tests []string
	for _, m := range marks {
		if m.id == id && !slices.Contains(tests, m.test) {
			tests = append(tests, m.test)
		}
	}
	slices.SortFunc(tests, func(a, b string) int {
		if up := strings.Count(a, ".") - strings.Count(b, "."); up != 0 {
			return up
		}
		return strings.Compare(a, b)
	})
	return tests
}

// problems lists the entries without a test or a reason, and the annotations that name no entry.
func (table *parityTable) problems(marks []parityMark) []string {
	var problems []string
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	known := map[string]bool{}
	for i, row := range table.Rows {
		id := strconv.Itoa(row.Row)
		known[id] = true
		if row.Row != i+1 {
			complain("%s: row %d stands where row %d should", parityData, row.Row, i+1)
		}
		if !slices.ContainsFunc(parityGroups, func(g struct{ name, heading string }) bool { return g.name == row.Group }) {
			complain("%s: row %d: unknown group %q", parityData, row.Row, row.Group)
		}
		tests := testsOf(marks, id)
		if len(tests) == 0 && row.Reason == "" {
			complain("row %d (%s, %s) has neither a test nor a reason", row.Row, row.Group, row.Title)
		}
		if len(tests) == 0 && slices.Contains(portedNow, row.Group) && row.Reason != "" && !ahead.MatchString(row.Reason) {
			complain("row %d (%s, %s) has no test, and the reason %q is none for its group: what does not need interrupts, time travel or persistence is ported",
				row.Row, row.Group, row.Title, row.Reason)
		}
	}
	for _, s := range table.Samples {
		known[s.Sample] = true
		if len(testsOf(marks, s.Sample)) == 0 && s.Reason == "" {
			complain("sample %s (%s) has neither an example nor a reason", s.Sample, s.Title)
		}
	}
	for _, d := range table.Defects {
		known[d.id()] = true
		if problem := d.problem(marks); problem != "" {
			complain("%s", problem)
		}
	}
	for _, m := range marks {
		if !known[m.id] {
			complain("%s: %s ports %q, which is not in %s", m.file, m.test, m.id, parityData)
		}
	}
	return problems
}

// fillSection writes the generated section of a page.
func fillSection(page []byte, name, text string) ([]byte, error) {
	begin, end := "<!-- generated:"+name+" -->\n", "<!-- /generated:"+name+" -->\n"
	head, rest, found := strings.Cut(string(page), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed || strings.Contains(tail, begin) {
		return nil, fmt.Errorf("want one pair of %s and %s", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return []byte(head + begin + "\n" + strings.TrimSpace(text) + "\n\n" + end + tail), nil
}

// withoutTitle removes the title of a page, so that it can be a section of another.
func withoutTitle(page string) string {
	if strings.HasPrefix(page, "# ") {
		_, page, _ = strings.Cut(page, "\n")
	}
	return page
}

// ported counts the rows with a test.
func (table *parityTable) ported(marks []parityMark) int {
	n := 0
	for _, row := range table.Rows {
		if len(testsOf(marks, strconv.Itoa(row.Row))) > 0 {
			n++
		}
	}
	return n
}

func (table *parityTable) rows(marks []parityMark) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d of %d rows have a test.\n\n", table.ported(marks), len(table.Rows))
	for _, group := range parityGroups {
		fmt.Fprintf(&out, "## %s\n\n| row | LangGraph's test | here |\n|---|---|---|\n", group.heading)
		for _, row := range table.Rows {
			if row.Group == group.name {
				tests := testsOf(marks, strconv.Itoa(row.Row))
				fmt.Fprintf(&out, "| %d | %s | %s |\n", row.Row, cell(row.Title), cell(answer(tests, row.Reason)))
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

func (table *parityTable) samples(marks []parityMark) string {
	var out strings.Builder
	for _, s := range table.Samples {
		tests := testsOf(marks, s.Sample)
		tick := " "
		if len(tests) > 0 {
			tick = "x"
		}
		fmt.Fprintf(&out, "- [%s] %s %s: %s\n", tick, s.Sample, s.Title, answer(tests, s.Reason))
	}
	return out.String()
}

// answer lists the tests of a row and the reason for the part without one.
func answer(tests []string, reason string) string {
	named := make([]string, len(tests))
	for i, test := range tests {
		named[i] = "`" + test + "`"
	}
	out := strings.Join(named, ", ")
	switch {
	case len(tests) > 0 && reason != "":
		return out + "; the rest: " + reason
	case reason != "":
		return reason
	case len(tests) == 0:
		return "**open**"
	}
	return out
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func TestParityMarksAreRead(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte("package p\n\n" + text)} }
	for _, test := range []struct {
		name, text string
		want       []parityMark
		err        string
	}{
		{"doc comment", "// It works.\n//\n// Parity: 14, 15.\nfunc TestA(t *testing.T) {}\n",
			[]parityMark{{"14", "d.TestA", "d/a_test.go"}, {"15", "d.TestA", "d/a_test.go"}}, ""},
		{"sample", "// Sample: A1.\nfunc ExampleA() {}\n", []parityMark{{"A1", "d.ExampleA", "d/a_test.go"}}, ""},
		{"in a body", "func TestA(t *testing.T) {\n\t// Parity: 3.\n\tf()\n}\n", []parityMark{{"3", "d.TestA", "d/a_test.go"}}, ""},
		{"remark", "// Parity: 3. In a step of one.\nfunc FuzzA(f *testing.F) {}\n", []parityMark{{"3", "d.FuzzA", "d/a_test.go"}}, ""},
		{"prose", "// Parity is a word.\nfunc TestA(t *testing.T) {}\n", nil, ""},
		{"no full stop", "// Parity: 14\nfunc TestA(t *testing.T) {}\n", nil, `d/a_test.go:3: "Parity: 14": the list does not end with a full stop`},
		{"no number", "// Parity: 1-4.\nfunc TestA(t *testing.T) {}\n", nil, `d/a_test.go:3: "Parity: 1-4.": "1-4" is not the number of a row`},
		{"defect", "// Defect: §2.2 a thing, or two.\nfunc TestA(t *testing.T) {}\n", []parityMark{{"§2.2 a thing, or two", "d.TestA", "d/a_test.go"}}, ""},
		{"no section", "// Defect: a thing.\nfunc TestA(t *testing.T) {}\n", nil, `d/a_test.go:3: "Defect: a thing.": it is not a section, a text and a dot, as in '§2.2 the defect.'`},
		{"no sample", "// Sample: 1.\nfunc TestA(t *testing.T) {}\n", nil, `d/a_test.go:3: "Sample: 1.": "1" is not the name of a sample`},
		{"on a helper", "// Parity: 1.\nfunc help() {}\n", nil, `d/a_test.go:3: "Parity: 1.": it is not on a test, an example or a fuzz test`},
		{"detached", "// Parity: 1.\n\nfunc TestA(t *testing.T) {}\n", nil, `d/a_test.go:3: "Parity: 1.": it is not on a test, an example or a fuzz test`},
	} {
		t.Run(test.name, func(t *testing.T) {
			marks, err := parityMarks(fstest.MapFS{"d/a_test.go": file(test.text), "d/a.go": file("// Parity: 99.\nfunc TestA() {}\n")})
			if msg := fmt.Sprint(err); err != nil && msg != test.err || err == nil && test.err != "" {
				t.Errorf("the error is %v, want %q", err, test.err)
			}
			if !slices.Equal(marks, test.want) {
				t.Errorf("the marks are %v, want %v", marks, test.want)
			}
		})
	}
}

func TestParityTableProblems(t *testing.T) {
	marks := []parityMark{{"1", "TestA", "a_test.go"}, {"A1", "ExampleA", "a_test.go"}}
	for _, test := range []struct {
		name  string
		table parityTable
		want  string
	}{
		{"all is well", parityTable{[]parityRow{{1, "a", "send", ""}, {2, "b", "send", "ahead: interrupts"}, {3, "c", "graphs", "Python-only"}},
			[]paritySample{{"A1", "s", ""}}, nil}, ""},
		{"neither", parityTable{[]parityRow{{1, "a", "send", ""}, {2, "b", "graphs", ""}}, []paritySample{{"A1", "s", ""}}, nil},
			"row 2 (graphs, b) has neither a test nor a reason"},
		{"no reason for its group", parityTable{[]parityRow{{1, "a", "send", ""}, {2, "b", "command", "too hard"}}, []paritySample{{"A1", "s", ""}}, nil},
			`row 2 (command, b) has no test, and the reason "too hard" is none for its group: what does not need interrupts, time travel or persistence is ported`},
		{"sample", parityTable{[]parityRow{{1, "a", "send", ""}}, []paritySample{{"A1", "s", ""}, {"A2", "r", ""}}, nil},
			"sample A2 (r) has neither an example nor a reason"},
		{"unknown row", parityTable{nil, []paritySample{{"A1", "s", ""}}, nil}, `a_test.go: TestA ports "1", which is not in docs/parity/rows.json`},
		{"unknown group", parityTable{[]parityRow{{1, "a", "sends", ""}}, []paritySample{{"A1", "s", ""}}, nil},
			`docs/parity/rows.json: row 1: unknown group "sends"`},
		{"defect", parityTable{[]parityRow{{1, "a", "send", ""}}, []paritySample{{"A1", "s", ""}}, []parityDefect{{"2.2", "p", "run", "x", ""}, {"2.2", "p", "", "y", "later"}}},
			`the defect "§2.2 x" has neither a test nor a reason`},
		{"defect without a section", parityTable{[]parityRow{{1, "a", "send", ""}}, []paritySample{{"A1", "s", ""}}, []parityDefect{{"", "p", "", "x", ""}}},
			"docs/parity/rows.json: the defect {Section: Part:p Seen: Defect:x Reason:} lacks its section, its part or its text"},
		{"defect seen otherwise", parityTable{[]parityRow{{1, "a", "send", ""}}, []paritySample{{"A1", "s", ""}}, []parityDefect{{"3", "p", "heard", "x", ""}}},
			`docs/parity/rows.json: the defect "§3 x" was seen by "heard": want run, read or nothing`},
		{"out of order", parityTable{[]parityRow{{1, "a", "send", ""}, {3, "c", "graphs", "Python-only"}}, []paritySample{{"A1", "s", ""}}, nil},
			"docs/parity/rows.json: row 3 stands where row 2 should"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.Join(test.table.problems(marks), "\n"); got != test.want {
				t.Errorf("the problems are\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestParityPagesFillMarkedSections(t *testing.T) {
	section := func(name, text string) string {
		return "<!-- generated:" + name + " -->\n" + text + "<!-- /generated:" + name + " -->\n"
	}
	table := &parityTable{[]parityRow{{1, "a|b", "defer", "later"}}, []paritySample{{"A1", "s", ""}}, []parityDefect{{"2.2", "p", "run", "x", ""}}}
	marks := []parityMark{{"1", "parity.TestB", "b_test.go"}, {"1", "TestA", "a_test.go"}, {"§2.2 x", "memory.TestX", "x_test.go"}}
	const differences = "# Title\n\n## Part\n\n```\n# kept\n```\n"
	wants := map[string]string{
		"differences": "\n## Part\n\n```\n# kept\n```\n\n",
		"rows":        "## Deferred nodes\n\n| row | LangGraph's test | here |\n|---|---|---|\n| 1 | a\\|b | `TestA`, `parity.TestB`; the rest: later |\n",
		"defects":     "\n1 of 1 defects have a test.\n\n| § | part | defect | seen | test |\n|---|---|---|---|---|\n| 2.2 | p | x | run | `memory.TestX` |\n\n",
		"samples":     "\n- [ ] A1 s: **open**\n\n",
	}
	for name, p := range parityPages {
		text := p.text(table, marks, differences)
		got, err := fillSection([]byte("before\n"+section(p.section, "old")+"after\n"), p.section, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"before\n<!-- generated:", wants[p.section], "-->\nafter\n"} {
			if !strings.Contains(string(got), want) {
				t.Errorf("%s is\n%s\nand lacks\n%s", name, got, want)
			}
		}
		if again, err := fillSection(got, p.section, text); err != nil || !bytes.Equal(got, again) {
			t.Errorf("filling %s again changes it: %v\n%s", name, err, again)
		}
	}
	if _, err := fillSection([]byte("no markers\n"), "rows", ""); err == nil {
		t.Error("a page without markers is not an error")
	}
}

// skipDir returns fs.SkipDir for a directory without Go packages.
func skipDir(dir string) error {
	base := path.Base(dir)
	if base == "testdata" || base == "node_modules" || dir != "." && (base[0] == '.' || base[0] == '_') {
		return fs.SkipDir
	}
	return nil
}

// A parityDefect is a defect of LangGraph, and a test shows that Treadle does not have it.
// Section is the section of our notes on it. Seen is how it was confirmed: by running
// LangGraph ("run"), by reading its code ("read"), or from reports (""). Reason explains
// why it has no test.
type parityDefect struct {
	Section string `json:"section"`
	Part    string `json:"part"`
	Seen    string `json:"seen"`
	Defect  string `json:"defect"`
	Reason  string `json:"reason"`
}

// id returns the defect's name in annotations.
func (d parityDefect) id() string { return "§" + d.Section + " " + d.Defect }

var defectLine = regexp.MustCompile(`^(§[0-9]+(?:\.[0-9]+)? \S.*)\.$`)

// defectID reads an annotation. It has one defect, whose text may have commas.
func defectID(line string) ([]string, error) {
	m := defectLine.FindStringSubmatch(line)
	if m == nil {
		return nil, errors.New("it is not a section, a text and a dot, as in '§2.2 the defect.'")
	}
	return m[1:], nil
}

// problem returns the reason that the entry is incomplete, or "" if it is complete.
func (d parityDefect) problem(marks []parityMark) string {
	switch {
	case d.Section == "" || d.Part == "" || d.Defect == "":
		return fmt.Sprintf("%s: the defect %+v lacks its section, its part or its text", parityData, d)
	case d.Seen != "" && d.Seen != "run" && d.Seen != "read":
		return fmt.Sprintf("%s: the defect %q was seen by %q: want run, read or nothing", parityData, d.id(), d.Seen)
	case len(testsOf(marks, d.id())) == 0 && d.Reason == "":
		return fmt.Sprintf("the defect %q has neither a test nor a reason", d.id())
	}
	return ""
}

func (table *parityTable) defects(marks []parityMark) string {
	var out strings.Builder
	held := 0
	for _, d := range table.Defects {
		tests := testsOf(marks, d.id())
		if len(tests) > 0 {
			held++
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", d.Section, cell(d.Part), cell(d.Defect), d.Seen, cell(answer(tests, d.Reason)))
	}
	return fmt.Sprintf("%d of %d defects have a test.\n\n| § | part | defect | seen | test |\n|---|---|---|---|---|\n", held, len(table.Defects)) + out.String()
}
