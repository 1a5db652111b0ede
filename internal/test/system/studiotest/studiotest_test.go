package studiotest_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/test/browsertest"
	"github.com/treadle-go/treadle/internal/test/system/servertest"
	"github.com/treadle-go/treadle/internal/test/system/studiotest"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/store"
)

// serve starts a server with the studio. The one of the store finds items by meaning.
func serve(t *testing.T, view string) string {
	t.Helper()
	o := &server.Options{Studio: true, Spans: &server.SpanOptions{}}
	if view == "store" {
		o.Store = &store.Options{Embedder: meanings{}, Fields: []string{"text"}}
	}
	return servertest.Start(t, o, treadle.Must(studiotest.Graphs()))
}

// meanings is an embedder that knows which words mean the same.
type meanings struct{}

var sameMeaning = [][]string{{"lion", "feline", "cat"}, {"sun", "day", "warm"}, {"night", "dark", "owl"}}

func (meanings) Model() string  { return "meanings" }
func (meanings) Dimension() int { return len(sameMeaning) + 1 }

// Embed implements [store.Embedder].
func (m meanings) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = make([]float32, m.Dimension())
		out[i][len(sameMeaning)] = 0.1 // every text means something
		for word := range strings.FieldsSeq(text) {
			for k, group := range sameMeaning {
				if slices.Contains(group, word) {
					out[i][k]++
				}
			}
		}
	}
	return out, nil
}

// flows returns the paths of the scripts.
func flows(t *testing.T) []string {
	t.Helper()
	scripts, err := filepath.Glob("flows/*.mjs")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	return scripts
}

func TestFlows(t *testing.T) {
	t.Parallel()
	for _, script := range flows(t) {
		view := strings.TrimSuffix(filepath.Base(script), ".mjs")
		t.Run(view, func(t *testing.T) {
			t.Parallel() // as many at a time as there are processors
			browsertest.Run(t, script, serve(t, view))
		})
		// Each test run checks the accessibility of every view in both color schemes. The
		// flows take a minute and a half a second time.
		if os.Getenv("TREADLE_SOAK") == "" || slices.Contains([]string{"looks", "figures", "chatspeed", "prompt"}, view) {
			continue // these have both, or are about times
		}
		t.Run("dark "+view, func(t *testing.T) {
			t.Parallel()
			browsertest.RunDark(t, script, serve(t, view))
		})
	}
}

// The first minutes: the command, and no program yet.
func TestStudioDemoFlow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command := filepath.Join(dir, "treadle")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", command, "../../../../cmd/treadle").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, command, "dev", "--port", "0", "--", "--db", ":memory:")
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")} // no key of a provider
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = cmd.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was interrupted
	})
	address := make(chan string, 1)
	go func() {
		found := regexp.MustCompile(`http://[0-9.:]+`)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if at := found.FindString(lines.Text()); at != "" {
				select {
				case address <- at:
				default:
				}
			}
		}
		close(address)
	}()
	at, ok := <-address
	if !ok {
		t.Fatal("command ended without printing an address")
	}
	browsertest.Run(t, "demo.mjs", at)
}
