package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/treadletype"
)

// buildDir is where tests that need a real process build the command.
var buildDir string

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "treadle-test-"); err != nil {
		panic(err)
	}
	// The SDK of Gemini links OpenCensus, which starts a worker with the process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"), goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(buildDir); err != nil {
			panic(err)
		}
		os.Exit(code)
	}))
}

// result is how a command ended.
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
		t.Errorf("not as wanted (-want +got):\n%s", d)
	}
}

func TestWrongUsageExitsWith2(t *testing.T) {
	for _, test := range []struct {
		args string
		want string
	}{
		{"nosuch", `unknown command "nosuch" for "treadle"`},
		{"dmo", "unknown command \"dmo\" for \"treadle\"\n\nDid you mean this?\n\tdemo"},
		{"--nosuch", "unknown flag: --nosuch"},
		{"demo --nosuch", "unknown flag: --nosuch"},
		{"demo extra", `unknown command "extra" for "treadle demo"`},
		{"jokes --topic=", `invalid argument "" for "--topic" flag: a topic has at least one letter`},
		{"jokes --topic=\x1b[31mred", `invalid argument "\x1b[31mred" for "--topic" flag: a topic is one line of plain text`},
		{"jokes --topic=\xff", `invalid argument "\xff" for "--topic" flag: a topic is one line of plain text`},
		{"jokes --pace=-1s", `invalid argument "-1s" for "--pace" flag: want 0s or more`},
		{"jokes --pace fast", `invalid argument "fast" for "--pace" flag: time: invalid duration "fast"`},
		{"draw nosuch", `unknown graph "nosuch": there is demo, essay`},
		{"draw demo essay", "draw takes one graph, not 2"},
		{"draw --format png", `invalid argument "png" for "-f, --format" flag: want text|ascii|mermaid|dot|svg|json`},
		{"draw --depth deep", `invalid argument "deep" for "-d, --depth" flag: strconv.ParseInt: parsing "deep": invalid syntax`},
		{"threads lst", "unknown command \"lst\" for \"treadle threads\"\n\nDid you mean this?\n\tlist"},
		{"threads list extra", `unknown command "extra" for "treadle threads list"`},
		{"threads show", "show needs the name of a thread"},
		{"threads history a b", "history takes one thread, not 2"},
		{"threads history a --limit -1", "--limit is -1: want 0 or more"},
		{"threads fork a", "fork needs --to, the name of the new thread"},
		{"threads prune a", "prune needs to know what to keep: --keep-last, --max-age or --keep-interrupted"},
		{"threads prune a --keep-last -1", "--keep-last is -1: want 1 or more"},
		{"threads prune a --max-age soon", `invalid argument "soon" for "--max-age" flag: want an age such as 36h, 30d or 8w`},
		{"threads prune a --max-age -3d", `invalid argument "-3d" for "--max-age" flag: want an age such as 36h, 30d or 8w`},
		{"threads rm a", "rm would ask whether you are sure, but there is no terminal: say so with --yes"},
		{"version 2", `unknown command "2" for "treadle version"`},
		{"help nosuch", `unknown command "nosuch" for "treadle"`},
		{"help draw essay", `unknown command "essay" for "treadle draw"`},
	} {
		t.Run(test.args, func(t *testing.T) {
			got := call(t.Context(), strings.Fields(test.args)...)
			diff(t, got, result{"", "treadle: " + test.want + "\nRun 'treadle --help' for usage.\n", 2})
		})
	}
}

func TestHelpShowsCommandsAndExamples(t *testing.T) {
	const want = `Treadle runs agents as graphs: nodes are plain functions, the state is typed,
and every step is kept in a checkpoint.

Usage:
  treadle [command]

Examples:
  treadle demo                          chat with an agent
  treadle jokes                         watch a graph run
  treadle jokes --topic owls | cat      the same for a log: plain lines
  treadle threads list                  see what they have kept
  treadle draw                          draw the graph of the jokes in the terminal
  treadle draw essay --depth 1 -o essay.svg

Available Commands:
  completion  Generate the autocompletion script for the specified shell
  demo        Chat with an agent that has tools, asks first, and remembers
  draw        Draw a graph
  help        Say more about a command
  jokes       Watch a joke writer: a graph that fans out and asks
  threads     Look into a file of threads
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

func TestHelpOfACommandIsTheSameBothWays(t *testing.T) {
	const want = `Draw a graph as text, as a picture, or as source for another tool. Nothing is
sent anywhere.

Graphs:
  demo     a joke writer: fan out with Send, pick the best, ask (what treadle jokes runs)
  essay    a writer with a researcher inside (a subgraph) and a reviewer (a branch)

Usage:
  treadle draw [graph] [flags]

Examples:
  treadle draw
  treadle draw essay --depth 1          with the subgraph opened
  treadle draw essay --format mermaid   to paste into a README
  treadle draw essay -o essay.svg       the format is taken from the name

Flags:
  -d, --depth int                                how many levels of subgraphs to open; -1 opens all
  -f, --format text|ascii|mermaid|dot|svg|json   how to draw (default text)
  -h, --help                                     help for draw
  -o, --output string                            the file to write instead of standard output
`
	diff(t, call(t.Context(), "draw", "--help"), result{Stdout: want})
	diff(t, call(t.Context(), "help", "draw"), result{Stdout: want})
}

func TestVersionSaysWhatWasBuilt(t *testing.T) {
	on := ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	for _, test := range []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"installed", &debug.BuildInfo{GoVersion: "go1.99", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{revision}}, "v1.2.3 (go1.99" + on},
		{"a checkout", &debug.BuildInfo{GoVersion: "go1.99", Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{revision}}, "devel-0123456789ab (go1.99" + on},
		{"a changed checkout", &debug.BuildInfo{GoVersion: "go1.99", Settings: []debug.BuildSetting{revision, {Key: "vcs.modified", Value: "true"}}}, "devel-0123456789ab-dirty (go1.99" + on},
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

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("the pipe is broken") }

func TestOutputThatCannotBeWrittenExitsWith1(t *testing.T) {
	for _, args := range []string{"demo", "jokes", "draw", "version", "--help"} {
		t.Run(args, func(t *testing.T) {
			var stderr bytes.Buffer
			code := run(t.Context(), []string{args}, strings.NewReader(""), brokenPipe{}, &stderr)
			diff(t, result{"", stderr.String(), code}, result{"", "treadle: the pipe is broken\n", 1})
		})
	}
}

func TestDrawFormats(t *testing.T) {
	for _, name := range []string{"demo", "essay"} {
		entry, err := lookUp(name)
		if err != nil {
			t.Fatal(err)
		}
		g, err := entry.build(nil)
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

func TestDrawDefaultsToTheDemoAsText(t *testing.T) {
	diff(t, call(t.Context(), "draw"), result{Stdout: demoGraph})
}

func TestDrawDepthOpensSubgraphs(t *testing.T) {
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

func TestDrawWritesAFileInTheFormatOfItsName(t *testing.T) {
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

func TestDrawFailsWhereItCannotWrite(t *testing.T) {
	got := call(t.Context(), "draw", "-o", filepath.Join(t.TempDir(), "nosuch", "g.svg"))
	if got.Code != 1 || got.Stdout != "" || !strings.HasPrefix(got.Stderr, "treadle: open ") {
		t.Errorf("got %+v, want exit code 1 and what went wrong", got)
	}
}

// The graphs are drawn to be believed, so they run.
func TestBuiltinGraphsRun(t *testing.T) {
	for _, test := range []struct{ name, answer, want string }{
		{"demo", `{"decision":"no"}`, `{"topic":"owls","subjects":["owls at work","owls in love","owls on holiday","owls in production"],"jokes":[` +
			`{"subject":"owls at work","text":"We put owls in charge of the stand-up. It ended early, and nobody knew what to do with the time.","laughs":2},` +
			`{"subject":"owls in love","text":"I told my date that I write Go and think about owls. She returned an error. I did not check it.","laughs":10},` +
			`{"subject":"owls on holiday","text":"I booked a quiet week without owls. On day two I paid extra for the upgrade.","laughs":7},` +
			`{"subject":"owls in production","text":"We shipped owls on a Friday. The dashboard is green. The dashboard is always green.","laughs":10}],` +
			`"loudest":10,"winner":{"subject":"owls in love","text":"I told my date that I write Go and think about owls. She returned an error. I did not check it.","laughs":10},` +
			`"decision":"no","notes":[]}`},
		{"essay", "", `{"topic":"owls","notes":["found: owls, page 1","read: owls, page 1","found: owls, page 2","read: owls, page 2"],` +
			`"draft":"Published: On owls, with 4 notes, draft 2.","round":2,"lines":["revise","accept"]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			entry, err := lookUp(test.name)
			if err != nil {
				t.Fatal(err)
			}
			g, err := entry.build(checkpoint.NewMemory())
			if err != nil {
				t.Fatal(err)
			}
			if w, ok := g.(interface{ Warnings() []string }); !ok || len(w.Warnings()) > 0 {
				t.Errorf("compiling warns of %v", w)
			}
			thread := g.Open("t")
			out, err := thread.RunJSON(t.Context(), []byte(`{"topic":"owls"}`))
			if _, asks := errors.AsType[*treadle.InterruptError](err); asks && test.answer != "" {
				out, err = resumed(thread.CommandJSON(t.Context(), []byte(`{"resume":`+test.answer+`}`)))
			}
			if err != nil {
				t.Fatal(err)
			}
			diff(t, string(out), test.want)
		})
	}
}

// resumed is the output at the end of a stream.
func resumed(events iter.Seq2[treadle.Event, error]) (out json.RawMessage, err error) {
	for ev, err := range events {
		if err != nil {
			return nil, err
		}
		if done, ok := ev.(treadle.Finished[json.RawMessage]); ok {
			out = done.Output
		}
	}
	return out, nil
}

// What has another type is refused before anything runs; a word that the node
// does not know makes it ask again.
func TestDemoAsksAgainAfterAnAnswerItDoesNotKnow(t *testing.T) {
	g, err := newJokes(model{}, checkpoint.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	thread := g.Open("t")
	_, err = thread.RunJSON(t.Context(), []byte(`{"topic":"owls"}`))
	questions := []string{asked(err)}
	_, err = resumed(thread.CommandJSON(t.Context(), []byte(`{"resume":"yes"}`)))
	if ae, ok := errors.AsType[*treadletype.AnswerError](err); !ok || ae.Pause.Node != "approve" {
		t.Errorf("an answer of another type: %v", err)
	}
	_, err = resumed(thread.CommandJSON(t.Context(), []byte(`{"resume":{"decision":"perhaps"}}`)))
	diff(t, append(questions, asked(err)), []string{"Publish this joke?", `Publish this joke? It can be yes, no or another, not "perhaps".`})
	out, err := resumed(thread.CommandJSON(t.Context(), []byte(`{"resume":{"decision":"yes"}}`)))
	if err != nil || !strings.Contains(string(out), `"published":{"subject":"owls in love",`) {
		t.Errorf("got %s, %v", out, err)
	}
}

// asked is the question that a run has stopped with.
func asked(err error) string {
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok || len(stop.Pauses) != 1 {
		return fmt.Sprintf("no question, but %v", err)
	}
	var p proposal
	if err := stop.Pauses[0].Decode(&p); err != nil {
		return err.Error()
	}
	return p.Question
}

func TestBuiltinsHaveTheNamesOfTheirEntries(t *testing.T) {
	want := map[string]string{"demo": "jokes", "essay": "essay"}
	got := map[string]string{}
	for _, b := range builtins() {
		g, err := b.build(nil)
		if err != nil {
			t.Fatal(err)
		}
		got[b.name] = g.Name()
	}
	diff(t, got, want)
}
