package treadle_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const modulePath = "github.com/treadle-go/treadle"

// floorOf gives each package of the module its floor. A package imports only lower floors, so that what stands
// below can be understood, tested and replaced without what stands above it.
var floorOf = map[string]int{
	"cmd/treadle":                   4,
	"cmd/treadle/internal/demo":     4,
	"cmd/treadle/internal/scaffold": 4,
	"memory/memtest":                4,
	"internal/studiotest":           4,
	"internal/chaostest":            4,
	"internal/servertest":           4,
	"internal/erasetest":            4,
	"internal/studiotest/serve":     4,
	// Its tests trace servers, agents and memories.
	"oteltreadle": 4,

	"server": 3,
	// HTTP and the protocols above it are its callers.
	"internal/runs": 3,
	// The graphs that servers are compared by.
	"internal/platform": 3,

	"agent":   3,
	"client":  3,
	"memory":  3,
	"mcptool": 3,
	// The suites of threads use the root package as its users do.
	"internal/threadtest": 3,

	"internal/crashtest": 3,

	"internal/faulttest": 3,

	// It writes the engine's stored form, and its tests use every kind of database.
	"internal/langgraphimport": 3,

	".":               2,
	"internal/answer": 2,
	// For tests and benchmarks alone.
	"internal/backends": 2,

	"internal/pregel":           1,
	"sqlite":                    1,
	"postgres":                  1,
	"api":                       1,
	"llm/openai":                1,
	"llm/anthropic":             1,
	"llm/gemini":                1,
	"llm/models":                2,
	"checkpoint/checkpointtest": 1,
	"store/storetest":           1,
	"ledger/ledgertest":         1,
	"bus/bustest":               1,
	"natsbus":                   1,
	"store/uselite":             1,
	"llm/llmtest":               1,
	"llm/prices":                1,
	"internal/turns":            1,
	"internal/memoryimport":     1,
	"internal/browsertest":      1,

	"llm":                 0,
	"checkpoint":          0,
	"store":               0,
	"ledger":              0,
	"bus":                 0,
	"studio":              0,
	"internal/bounded":    0,
	"internal/budget":     0,
	"internal/caller":     0,
	"internal/sse":        0,
	"internal/words":      0,
	"internal/caught":     0,
	"draw":                0,
	"reduce":              0,
	"treadletype":         0,
	"internal/dburl":      0,
	"internal/envfile":    0,
	"internal/hub":        0,
	"internal/killtest":   0,
	"internal/natstest":   0,
	"internal/near":       0,
	"internal/netfault":   1,
	"internal/observe":    0,
	"internal/origin":     0,
	"internal/pgtest":     1,
	"internal/plainjson":  0,
	"internal/race":       0,
	"internal/race/again": 0,
	"internal/linked":     0,
	"internal/release":    0,
	"internal/saved":      0,
	"internal/schema":     0,
	"internal/scripttest": 0,
	"internal/testreport": 0,
	"internal/vecindex":   0,
	"internal/delay":      0,
}

// sameFloor lists the imports that do not go down, each with its reason.
var sameFloor = map[[2]string]string{
	{".", "internal/answer"}:                             "questions and signals take values in the same way",
	{"bus", "ledger"}:                                    "its log has the events of the ledger",
	{"bus", "internal/hub"}:                              "all buses deliver signals within a process by it",
	{"checkpoint", "internal/plainjson"}:                 "stored values are decoded by it where they are plain",
	{"ledger", "internal/budget"}:                        "what it remembers is part of a server's memory limit",
	{"ledger", "internal/plainjson"}:                     "objects are read by it where they are plain",
	{"llm", "internal/plainjson"}:                        "messages are read by it where they are plain",
	{"internal/saved", "checkpoint"}:                     "the savers in databases write the values of checkpoints down in one form",
	{"internal/saved", "store"}:                          "the stores in databases have one number for a kind of records",
	{"llm", "internal/caught"}:                           "a panic of a tool names the place as that of a node does",
	{"llm", "internal/bounded"}:                          "arguments of tools are checked against schemas of others, as answers to questions are",
	{"llm", "internal/schema"}:                           "tools and graphs have one kind of schemas",
	{"llm", "treadletype"}:                               "models and nodes have one policy of retries",
	{"llm", "reduce"}:                                    "Messages appends as reduce.List does",
	{"treadletype", "checkpoint"}:                        "an error about a stored value names its checkpoint",
	{"internal/schema", "internal/plainjson"}:            "plain JSON is checked against a schema without decoding it",
	{"llm", "internal/observe"}:                          "models and tools report to the run through it, and it knows nothing of either",
	{"server", "internal/runs"}:                          "the protocols that it serves are ways to one runner, which knows nothing of HTTP",
	{"server", "internal/platform"}:                      "its tests serve the graphs that servers are compared by",
	{"internal/platform", "agent"}:                       "one of its graphs has an agent's tool node",
	{"memory", "agent"}:                                  "its middleware is one of an agent, and agents know nothing of it",
	{"store", "internal/observe"}:                        "its operations are traced through it",
	{"store", "checkpoint"}:                              "one kind of key encrypts checkpoints and items",
	{"store", "internal/vecindex"}:                       "the memory backend and the SQLite one find vectors by the same index",
	{"store", "internal/words"}:                          "the index and the recall of memories split texts by the same rules",
	{"llm", "internal/delay"}:                            "a retry waits as that of a node does",
	{"cmd/treadle", "cmd/treadle/internal/demo"}:         "the commands run the demo application, which knows nothing of them",
	{"internal/studiotest", "internal/servertest"}:       "its tests start a server",
	{"internal/studiotest/serve", "internal/studiotest"}: "the program serves its graphs",
	{"cmd/treadle", "cmd/treadle/internal/scaffold"}:     "a command writes the module",
}

// consumerTrees use the module as its users do: they may import all of it and nothing else imports them.
var consumerTrees = []string{"examples", "parity"}

func TestFloors(t *testing.T) {
	files, err := goFilesOf(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(files, func(f goFile) bool { return f.name == "floors_test.go" }) {
		t.Fatal("the walk over the module did not even find this file")
	}
	for _, problem := range floorProblems(files) {
		t.Error(problem)
	}
}

// docs/design.md shows the floors. The picture is made from the table.
func TestFloorsAreDrawnInTheDesign(t *testing.T) {
	const page, begin, end = "docs/design.md", "<!-- floors -->\n```\n", "```\n<!-- /floors -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the floors", page)
	}
	want := before + begin + drawnFloors() + end + after
	if want == string(text) {
		return
	}
	if !*updating {
		t.Fatalf("the floors in %s are stale: run go test -run TestFloors . -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// drawnFloors has a line for each floor, the highest first.
func drawnFloors() string {
	byFloor := map[int][]string{}
	for pkg, floor := range floorOf {
		if _, err := os.Stat(pkg); err != nil {
			continue // planned
		}
		if pkg == "." {
			pkg = "treadle, the root package"
		}
		byFloor[floor] = append(byFloor[floor], pkg)
	}
	var b strings.Builder
	for floor := len(byFloor) - 1; floor >= 0; floor-- {
		slices.Sort(byFloor[floor])
		line := fmt.Sprintf("%d ", floor)
		for i, pkg := range byFloor[floor] {
			if i > 0 && len(line)+len(pkg) > 110 {
				b.WriteString(line + "\n")
				line = "  "
			}
			line += " " + pkg
			if i < len(byFloor[floor])-1 {
				line += " ·"
			}
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// A goFile is a file and the packages of this module that it imports, all paths relative to the module's root.
type goFile struct {
	name    string
	imports []string
}

// goFilesOf reads the imports of every Go file of the module, whatever its build constraints.
func goFilesOf(module fs.FS) ([]goFile, error) {
	var files []goFile
	err := fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(module, name)
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		src, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		file := goFile{name: name}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
			}
			if imported == modulePath {
				file.imports = append(file.imports, ".")
			} else if rel, ok := strings.CutPrefix(imported, modulePath+"/"); ok {
				file.imports = append(file.imports, rel)
			}
		}
		files = append(files, file)
		return nil
	})
	return files, err
}

// skipDir is fs.SkipDir for a directory that holds no package of the module, by the go command's own rules.
func skipDir(module fs.FS, dir string) error {
	if dir == "." {
		return nil
	}
	base := path.Base(dir)
	if base == "testdata" || base == "node_modules" || base[0] == '.' || base[0] == '_' {
		return fs.SkipDir
	}
	if _, err := fs.Stat(module, path.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir // another module, such as bench
	}
	return nil
}

// floorProblems tells where files break the rule of the floors.
//
// Test files may import any floor: nothing is built on them, and a package's tests run the suite that defines its
// interface, which stands above it.
func floorProblems(files []goFile) []string {
	var problems []string
	unassigned := map[string]bool{}
	for _, file := range files {
		from := path.Dir(file.name)
		fromTree := consumerTree(from)
		fromFloor, ok := floorOf[from]
		if !ok && fromTree == "" && !unassigned[from] {
			unassigned[from] = true
			problems = append(problems, fmt.Sprintf("package %s has no floor: add it to floorOf in floors_test.go", from))
		}
		for _, to := range file.imports {
			toFloor, known := floorOf[to]
			toTree := consumerTree(to)
			switch {
			case from == to: // an external test
			case toTree != "" && toTree != fromTree:
				problems = append(problems, fmt.Sprintf("%s imports %s: nothing outside of %s may", file.name, to, toTree))
			case toTree != "" || fromTree != "":
			case !ok || strings.HasSuffix(file.name, "_test.go"):
			case !known:
				problems = append(problems, fmt.Sprintf("%s imports %s, which has no floor: add it to floorOf in floors_test.go", file.name, to))
			case toFloor >= fromFloor && sameFloor[[2]string{from, to}] == "":
				problems = append(problems, fmt.Sprintf("%s is on floor %d and imports %s on floor %d: only lower floors may be imported",
					file.name, fromFloor, to, toFloor))
			}
		}
	}
	return problems
}

// consumerTree is the consumer tree that a package is part of, or "".
func consumerTree(pkg string) string {
	top, _, _ := strings.Cut(pkg, "/")
	if slices.Contains(consumerTrees, top) {
		return top
	}
	return ""
}

// An exception is for one floor. A way up would be a cycle in the making, whatever its reason.
func TestFloorExceptionsAreOnOneFloor(t *testing.T) {
	for pair, reason := range sameFloor {
		from, fromKnown := floorOf[pair[0]]
		to, toKnown := floorOf[pair[1]]
		if !fromKnown || !toKnown || from != to || reason == "" {
			t.Errorf("the exception for %s to import %s (%q) needs two packages on one floor and a reason", pair[0], pair[1], reason)
		}
	}
}

func TestFloorProblems(t *testing.T) {
	const addIt = "add it to floorOf in floors_test.go"
	for _, test := range []struct {
		name string
		file goFile
		want string // "" if there is no problem
	}{
		{"down", goFile{"graph.go", []string{"internal/pregel", "checkpoint"}}, ""},
		{"down several floors", goFile{"cmd/treadle/main.go", []string{"llm"}}, ""},
		{"up", goFile{"internal/pregel/run.go", []string{"checkpoint", "."}},
			"internal/pregel/run.go is on floor 1 and imports . on floor 2: only lower floors may be imported"},
		{"up from the lowest", goFile{"llm/tool.go", []string{"llm/openai"}},
			"llm/tool.go is on floor 0 and imports llm/openai on floor 1: only lower floors may be imported"},
		{"across", goFile{"server/run.go", []string{"agent"}},
			"server/run.go is on floor 3 and imports agent on floor 3: only lower floors may be imported"},
		{"across by exception", goFile{"llm/messages.go", []string{"reduce"}}, ""},
		{"an exception goes one way", goFile{"reduce/tail.go", []string{"llm"}},
			"reduce/tail.go is on floor 0 and imports llm on floor 0: only lower floors may be imported"},
		{"no floor", goFile{"helpers/strings.go", nil}, "package helpers has no floor: " + addIt},
		{"no floor, and imports", goFile{"helpers/strings.go", []string{"server"}}, "package helpers has no floor: " + addIt},
		{"no floor, tests only", goFile{"helpers/strings_test.go", nil}, "package helpers has no floor: " + addIt},
		{"imports what has no floor", goFile{"server/run.go", []string{"bench"}},
			"server/run.go imports bench, which has no floor: " + addIt},
		{"a test goes up", goFile{"checkpoint/memory_test.go", []string{"checkpoint", "checkpoint/checkpointtest"}}, ""},
		{"a consumer imports anything", goFile{"examples/essay/main.go", []string{".", "cmd/treadle", "llm"}}, ""},
		{"a consumer imports its own", goFile{"parity/graphs_test.go", []string{"parity/graphs"}}, ""},
		{"a consumer imports another", goFile{"parity/run.go", []string{"examples/essay"}},
			"parity/run.go imports examples/essay: nothing outside of examples may"},
		{"a consumer is imported", goFile{"cmd/treadle/new.go", []string{"examples/essay"}},
			"cmd/treadle/new.go imports examples/essay: nothing outside of examples may"},
		{"a consumer is imported by a test", goFile{"graph_test.go", []string{"parity"}},
			"graph_test.go imports parity: nothing outside of parity may"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.Join(floorProblems([]goFile{test.file}), "\n"); got != test.want {
				t.Errorf("the problems of %v are\n%q\nand should be\n%q", test.file, got, test.want)
			}
		})
	}
}

func TestFloorsReadsTheModulesOwnFiles(t *testing.T) {
	source := func(imports ...string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("package p\n\nimport (\n" + strings.Join(imports, "\n") + "\n)\n")}
	}
	files, err := goFilesOf(fstest.MapFS{
		"go.mod":                 {},
		"graph.go":               source(`"fmt"`, `_ "`+modulePath+`/llm"`, `"`+modulePath+`-other/llm"`),
		"llm/llm_windows.go":     source(`t "` + modulePath + `"`),
		"llm/testdata/broken.go": {Data: []byte("no Go")},
		"bench/go.mod":           {},
		"bench/main.go":          source(`"` + modulePath + `"`),
		".cache/kept.go":         source(`"` + modulePath + `"`),
	})
	want := []goFile{{"graph.go", []string{"llm"}}, {"llm/llm_windows.go", []string{"."}}}
	if err != nil || !slices.EqualFunc(files, want, func(a, b goFile) bool { return a.name == b.name && slices.Equal(a.imports, b.imports) }) {
		t.Errorf("the files are %v, %v; want %v", files, err, want)
	}
	if _, err := goFilesOf(fstest.MapFS{"broken.go": {Data: []byte("no Go")}}); err == nil {
		t.Error("a file that does not parse is not an error")
	}
}
