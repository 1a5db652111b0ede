package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/cmd/treadle/internal/demo"
)

// buildDir is where tests that need a real process build the command.
var buildDir string

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "treadle-test-"); err != nil {
		panic(err)
	}
	if err := os.Setenv("TREADLE_ENCODER", filepath.Join(buildDir, "encoder")); err != nil { // not the user's
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(buildDir); err != nil {
			panic(err)
		}
		os.Exit(code)
	}))
}

// result is the output and the exit code of a command.
type result struct {
	Stdout, Stderr string
	Code           int
}

// call runs the command without a terminal.
func call(ctx context.Context, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, strings.NewReader(""), &stdout, &stderr)
	return result{stdout.String(), stderr.String(), code}
}

func diff(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestUsageErrorExitsWith2(t *testing.T) {
	for _, test := range []struct {
		args string
		want string
		help string // the command whose help is named
	}{
		{"nosuch", `unknown command "nosuch" for "treadle"`, "treadle"},
		{"dmo", "unknown command \"dmo\" for \"treadle\"\n\nDid you mean this?\n\tdemo\n\tdev", "treadle"},
		{"--nosuch", "unknown flag: --nosuch", "treadle"},
		{"demo --nosuch", "unknown flag: --nosuch", "treadle demo"},
		{"demo --thread=", "--thread and --user must not be empty", "treadle demo"},
		{"demo extra", `unknown command "extra" for "treadle demo"`, "treadle demo"},
		{"jokes --topic=", `invalid argument "" for "--topic" flag: topic requires at least one letter`, "treadle jokes"},
		{"jokes --topic=\x1b[31mred", `invalid argument "\x1b[31mred" for "--topic" flag: topic must be one line of plain text`, "treadle jokes"},
		{"jokes --topic=\xff", `invalid argument "\xff" for "--topic" flag: topic must be one line of plain text`, "treadle jokes"},
		{"jokes --pace=-1s", `invalid argument "-1s" for "--pace" flag: use 0s or more`, "treadle jokes"},
		{"jokes --pace fast", `invalid argument "fast" for "--pace" flag: time: invalid duration "fast"`, "treadle jokes"},
		{"draw nosuch", `unknown graph "nosuch": use one of jokes, demo, essay`, "treadle draw"},
		{"draw demo essay", "draw takes one graph, not 2", "treadle draw"},
		{"draw --format png", `invalid argument "png" for "-f, --format" flag: use text|ascii|mermaid|dot|svg|json`, "treadle draw"},
		{"draw --depth deep", `invalid argument "deep" for "-d, --depth" flag: strconv.ParseInt: parsing "deep": invalid syntax`, "treadle draw"},
		{"import", "missing --from: pass LangGraph's SQLite file, a Postgres URL, or a JSON file", "treadle import"},
		{"import --from x", "missing --db: pass the target, or use --dry-run", "treadle import"},
		{"import x", "import takes no arguments: pass the source with --from and the target with --db", "treadle import"},
		{"erase", "missing --db: pass an SQLite file or a Postgres URL", "treadle erase"},
		{"erase --db x", "missing --user: pass the ID of the person", "treadle erase"},
		{"erase --db x --user ann", "erasing cannot be undone: preview with -n, then pass --yes", "treadle erase"},
		{"erase ann", "erase takes no arguments: pass the person with --user and the database with --db", "treadle erase"},
		{"threads lst", "unknown command \"lst\" for \"treadle threads\"\n\nDid you mean this?\n\tlist", "treadle threads"},
		{"threads list extra", `unknown command "extra" for "treadle threads list"`, "treadle threads list"},
		{"threads show", "show requires a thread name", "treadle threads show"},
		{"threads history a b", "history takes one thread, not 2", "treadle threads history"},
		{"threads history a --limit -1", "invalid --limit -1: use 0 or more", "treadle threads history"},
		{"threads fork a", "fork requires --to, the name of the new thread", "treadle threads fork"},
		{"threads prune a", "prune requires --keep-last, --max-age, or --keep-interrupted", "treadle threads prune"},
		{"threads prune a --keep-last -1", "invalid --keep-last -1: use 1 or more", "treadle threads prune"},
		{"threads prune a --max-age soon", `invalid argument "soon" for "--max-age" flag: use an age such as 36h, 30d, or 8w`, "treadle threads prune"},
		{"threads prune a --max-age -3d", `invalid argument "-3d" for "--max-age" flag: use an age such as 36h, 30d, or 8w`, "treadle threads prune"},
		{"threads rm a", "rm asks for confirmation, which requires a terminal: use --yes", "treadle threads rm"},
		{"new", "new requires a module name", "treadle new"},
		{"new a b", "new takes one name, not 2", "treadle new"},
		{"new ../shop", `invalid module path "../shop": file path: use a name such as shop or example.com/team/shop`, "treadle new"},
		{"dev a b", "dev takes one package, not 2: put the program's flags after --", "treadle dev"},
		{"dev -- --port=1", "--port=1 is a flag of treadle dev: put it before --", "treadle dev"},
		{"dev . -- -config x", "-config is a flag of treadle dev: put it before --", "treadle dev"},
		{"acp a b", "acp takes one package, not 2: put the program's flags after --", "treadle acp"},
		{"acp a --url http://localhost", "acp takes a package or --url, not both", "treadle acp"},
		{"serve extra", `unknown command "extra" for "treadle serve"`, "treadle serve"},
		{"serve --port x", `invalid argument "x" for "--port" flag: strconv.ParseInt: parsing "x": invalid syntax`, "treadle serve"},
		{"version 2", `unknown command "2" for "treadle version"`, "treadle version"},
		{"help nosuch", `unknown command "nosuch" for "treadle"`, "treadle help"},
		{"help draw essay", `unknown command "essay" for "treadle draw"`, "treadle help"},
	} {
		t.Run(test.args, func(t *testing.T) {
			got := call(t.Context(), strings.Fields(test.args)...)
			diff(t, got, result{"", "treadle: " + test.want + "\nRun '" + test.help + " -h' for usage.\n", 2})
		})
	}
}

func TestHelpShowsCommandsAndExamples(t *testing.T) {
	const want = `Treadle runs agents as graphs: nodes are plain functions, the state is typed,
and every step is saved in a checkpoint.

Usage:
  treadle [command]

Examples:
  treadle demo                          chat with an agent
  treadle jokes                         watch a graph run
  treadle jokes --topic owls | cat      the same as plain lines, for a log
  treadle threads list                  list the saved threads
  treadle draw jokes                    draw a graph in the terminal
  treadle draw essay --depth 1 -o essay.svg
  treadle new shop                      create a module that serves an agent
  treadle dev                           serve it, and restart it when a file changes

Available Commands:
  acp         Use an agent from an editor over ACP
  completion  Generate the autocompletion script for the specified shell
  demo        Chat with an assistant that has tools, asks for permission, and remembers
  dev         Serve your program and restart it when a file changes
  draw        Draw a graph
  encoder     Install the sentence encoder for semantic search
  erase       Erase all data stored about a person
  export      Export memories and other store items as JSON Lines
  help        Show help for a command
  import      Import threads and memories from LangGraph and others
  jokes       Watch a graph fan out, pick the best joke, and ask
  new         Create a module with an agent, a test, and a Dockerfile
  serve       Serve the demo graphs over HTTP
  threads     Inspect and clean up saved threads
  version     Print the version

Flags:
  -h, --help      help for treadle
  -v, --version   version for treadle

Use "treadle [command] --help" for more information about a command.
`
	for _, args := range []string{"", "--help", "-h", "help"} {
		diff(t, call(t.Context(), strings.Fields(args)...), result{Stdout: want})
	}
}

func TestHelpCommandMatchesHelpFlag(t *testing.T) {
	const want = `Draw a graph as text, as an image, or as source for another tool. It needs no
network.

Graphs:
  jokes    a joke writer: fan-out with Send, a pick, an interrupt (see treadle jokes)
  demo     an agent: model and tools in a loop, with memory (see treadle demo)
  essay    an essay writer: a subgraph for research, and a branch after the review

Usage:
  treadle draw [graph] [flags]

Examples:
  treadle draw jokes
  treadle draw essay --depth 1          with the subgraph expanded
  treadle draw essay --format mermaid   to paste into a README
  treadle draw essay -o essay.svg       derives the format from the name

Flags:
  -d, --depth int                                levels of subgraphs to expand; -1 expands all
  -f, --format text|ascii|mermaid|dot|svg|json   output format (default text)
  -h, --help                                     help for draw
  -o, --output string                            output file (default standard output)
`
	diff(t, call(t.Context(), "draw", "--help"), result{Stdout: want})
	diff(t, call(t.Context(), "help", "draw"), result{Stdout: want})
}

func TestVersionNamesBuild(t *testing.T) {
	on := ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	for _, test := range []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"installed", &debug.BuildInfo{GoVersion: "go1.99", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{revision}}, "v1.2.3 (go1.99" + on},
		{"a checkout", &debug.BuildInfo{GoVersion: "go1.99", Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{revision}}, "devel-0123456789ab (go1.99" + on},
		{"changed checkout", &debug.BuildInfo{GoVersion: "go1.99", Settings: []debug.BuildSetting{revision, {Key: "vcs.modified", Value: "true"}}}, "devel-0123456789ab-dirty (go1.99" + on},
		{"no repository", &debug.BuildInfo{GoVersion: "go1.99", Main: debug.Module{Version: "(devel)"}}, "devel (go1.99" + on},
		{"no information", nil, "unknown (" + runtime.Version() + on},
	} {
		t.Run(test.name, func(t *testing.T) {
			diff(t, versionOf(test.info, test.info != nil), test.want)
		})
	}
	want := result{Stdout: "treadle " + versionOf(debug.ReadBuildInfo()) + "\n"}
	diff(t, call(t.Context(), "version"), want)
	diff(t, call(t.Context(), "--version"), want)
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestFailedOutputExitsWith1(t *testing.T) {
	for _, args := range []string{"demo", "jokes", "draw", "version", "--help"} {
		t.Run(args, func(t *testing.T) {
			var stderr bytes.Buffer
			code := run(t.Context(), []string{args}, strings.NewReader(""), brokenPipe{}, &stderr)
			diff(t, result{"", stderr.String(), code}, result{"", "treadle: broken pipe\n", 1})
		})
	}
}

func TestDrawFormats(t *testing.T) {
	for _, name := range []string{"jokes", "demo", "essay"} {
		entry, err := demo.FindGraph(name)
		if err != nil {
			t.Fatal(err)
		}
		g, err := entry.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, how := range formats() {
			t.Run(name+" "+how.name, func(t *testing.T) {
				want, err := how.draw(g.Shape())
				if err != nil {
					t.Fatal(err)
				}
				diff(t, call(t.Context(), "draw", name, "--format", how.name), result{Stdout: strings.TrimRight(want, "\n") + "\n"})
			})
		}
	}
}

func TestDrawDefaultsToJokesAsText(t *testing.T) {
	diff(t, call(t.Context(), "draw"), result{Stdout: demoGraph})
}

func TestDrawDepthExpandsSubgraphs(t *testing.T) {
	closed := []string{"__start__", "research", "draft", "review", "publish", "__end__"}
	open := []string{"__start__", "research:search", "research:read", "research:__end__", "draft", "review", "publish", "__end__"}
	for depth, want := range map[string][]string{"0": closed, "1": open, "2": open, "-1": open} {
		t.Run(depth, func(t *testing.T) {
			got := call(t.Context(), "draw", "essay", "--format", "json", "--depth", depth)
			var shape struct{ Nodes []struct{ ID string } }
			if err := json.Unmarshal([]byte(got.Stdout), &shape); err != nil {
				t.Fatal(err, got)
			}
			var ids []string
			for _, n := range shape.Nodes {
				ids = append(ids, n.ID)
			}
			diff(t, ids, want)
		})
	}
}

func TestDrawDerivesFormatFromFileName(t *testing.T) {
	for _, test := range []struct{ file, format, like string }{
		{"g.svg", "", "svg"},
		{"g.SVG", "", "svg"},
		{"g.dot", "", "dot"},
		{"g.gv", "", "dot"},
		{"g.mmd", "", "mermaid"},
		{"g.mermaid", "", "mermaid"},
		{"g.json", "", "json"},
		{"g.txt", "", "text"},
		{"graph", "", "text"},
		{"g.svg", "ascii", "ascii"},
	} {
		t.Run(test.file+" "+test.format, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), test.file)
			args := []string{"draw", "-o", file}
			if test.format != "" {
				args = append(args, "--format", test.format)
			}
			diff(t, call(t.Context(), args...), result{})
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			diff(t, string(got), call(t.Context(), "draw", "--format", test.like).Stdout)
		})
	}
	diff(t, call(t.Context(), "draw", "-o", "-"), call(t.Context(), "draw"))
}

func TestDrawReportsUnwritableFile(t *testing.T) {
	got := call(t.Context(), "draw", "-o", filepath.Join(t.TempDir(), "nosuch", "g.svg"))
	if got.Code != 1 || got.Stdout != "" || !strings.HasPrefix(got.Stderr, "treadle: open ") {
		t.Errorf("got %+v, want exit code 1 and the error", got)
	}
}

// Every command that takes a database rejects a name that is neither a file nor Postgres,
// without showing its password and without creating a file.
func TestCommandsRejectInvalidDatabases(t *testing.T) {
	for _, command := range [][]string{
		{"threads", "list", "--db"}, {"jokes", "--pace", "0s", "--db"}, {"demo", "--model", "offline", "--db"}, {"serve", "--port", "0", "--db"},
		{"export", "--db"}, {"erase", "--user", "ann", "-n", "--db"}, {"import", "--from", "nosuch.sqlite", "--db"}, {"import", "--dry-run", "--from"},
	} {
		for _, name := range []string{"postgress://u:SECRET@db.invalid/x", "Server=db;Password=SECRET", "postgres://u:SECRET/x@db.invalid/x", "postgres:/u:SECRET@db.invalid"} {
			t.Chdir(t.TempDir())
			got := call(t.Context(), append(command, name)...)
			if text := got.Stdout + got.Stderr; got.Code == 0 || strings.Contains(text, "SECRET") || !strings.Contains(text, "scheme") && !strings.Contains(text, "keyword") && !strings.Contains(text, "URL") {
				t.Errorf("%v %s: %+v", command, name, got)
			}
			if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
				t.Errorf("%v %s: files %v, %v", command, name, files, err)
			}
		}
	}
	for _, command := range [][]string{{"threads", "list", "--db"}, {"jokes", "--pace", "0s", "--db"}, {"demo", "--model", "offline", "--db"}, {"serve", "--port", "0", "--db"}} {
		for _, name := range []string{"host=db.invalid password=SECRET", "postgres://u:SECRET@db.invalid/x"} {
			got := call(t.Context(), append(command, name)...)
			if text := got.Stdout + got.Stderr; got.Code == 0 || strings.Contains(text, "SECRET") || !strings.Contains(text, "file") {
				t.Errorf("%v %s: %+v", command, name, got)
			}
		}
	}
}
