package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// The file and the answer of a process that is to be killed. Its papers are next to the file.
const (
	fileEnv   = "TREADLE_EXAMPLE_DEEP_FILE"
	answerEnv = "TREADLE_EXAMPLE_DEEP_ANSWER"
)

// No run may leak a goroutine.
func TestMain(m *testing.M) {
	if file := os.Getenv(fileEnv); file != "" {
		before(func() { fmt.Println("model") }) //nolint:forbidigo // the test counts the lines
		if err := run(context.Background(), filepath.Join(filepath.Dir(file), "papers"), file, strings.Fields(os.Getenv(answerEnv)), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		killtest.EndWithParent()
	}
	goleak.VerifyTestMain(m)
}

// before makes the model call fn before each response. It returns a function that undoes that.
func before(fn func()) (undo func()) {
	model := offline
	offline = llmtest.Func(func(ctx context.Context, r *llm.Request) (llm.Message, error) {
		fn()
		return model(ctx, r)
	})
	return func() { offline = model }
}

const (
	reportText = "- Bees tell each other where flowers are by dancing.\n- Owls hear a mouse under half a meter of snow.\n"
	readCalls  = 7 // of the model, until it asks
)

// A process is killed before each response of the model, and after it has asked. Started
// again, the program continues there.
func TestDeepAgentContinuesAfterKill(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	var calls atomic.Int32
	defer before(func() { calls.Add(1) })()
	for lines := 1; lines <= readCalls+1; lines++ {
		dir := t.TempDir()
		folder, file := filepath.Join(dir, "papers"), filepath.Join(dir, "deep.db")
		if err := os.CopyFS(folder, os.DirFS("papers")); err != nil {
			t.Fatal(err)
		}
		// says starts the program, and returns what it prints.
		says := func(calling int, answer ...string) string {
			t.Helper()
			calls.Store(0)
			var out bytes.Buffer
			if err := run(t.Context(), folder, file, answer, &out); err != nil {
				t.Fatalf("killed after %d lines: %v", lines, err)
			}
			if n := int(calls.Load()); n > calling {
				t.Errorf("killed after %d lines: %d calls of the model, want at most %d", lines, n, calling)
			}
			return out.String()
		}
		t.Setenv(answerEnv, "")
		killtest.Lines(t, fileEnv+"="+file, lines)
		// Two sub-agents work at the same time, so that two calls may have been lost.
		asked := says(readCalls - lines + 2)
		if !strings.Contains(asked, "+- Owls hear a mouse under half a meter of snow.\n") {
			t.Errorf("it asked %q", asked)
		}
		if again := says(0); again != asked {
			t.Errorf("first it asked %q, then %q", asked, again)
		}
		t.Setenv(answerEnv, "approve")
		killtest.Lines(t, fileEnv+"="+file, 1)
		for _, answer := range [][]string{{"approve"}, {"approve"}, nil} {
			if said := says(1, answer...); !strings.Contains(said, "Updated /report.md") {
				t.Errorf("after %v it said %q", answer, said)
			}
		}
		if raw, err := os.ReadFile(filepath.Join(folder, "report.md")); string(raw) != reportText {
			t.Errorf("report is %q, %v", raw, err)
		}
	}
}

func TestDeepAgentWritesReportAfterApproval(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	for _, test := range []struct {
		answer []string
		said   string
		report string
	}{
		{[]string{"approve"}, "Updated /report.md", reportText},
		{[]string{"reject", "too short"}, "too short", ""},
	} {
		folder, file := t.TempDir(), filepath.Join(t.TempDir(), "deep.db")
		if err := os.CopyFS(folder, os.DirFS("papers")); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := run(t.Context(), folder, file, nil, &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "+- Owls hear a mouse under half a meter of snow.\n") {
			t.Errorf("it asked %q", out.String())
		}
		out.Reset()
		if err := run(t.Context(), folder, file, test.answer, &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), test.said) {
			t.Errorf("after %v it said %q", test.answer, out.String())
		}
		raw, err := os.ReadFile(filepath.Join(folder, "report.md"))
		if string(raw) != test.report || (err == nil) != (test.report != "") {
			t.Errorf("report is %q, %v", raw, err)
		}
	}
}
