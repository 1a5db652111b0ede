package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// The texts are those of the guide.
const (
	question = "write_file changes /report.md:\n\n--- /report.md\n+++ /report.md\n@@ -1,0 +1,2 @@\n+- Bees dance to tell where flowers are.\n+- Owls hear a mouse under half a meter of snow.\n\n"
	result   = "Result: Updated /report.md\n"
)

// newPapers returns a folder with the guide's papers.
func newPapers(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"owls.txt": "Owls hear a mouse under half a meter of snow.\n", "bees.txt": "Bees dance to tell where flowers are.\n", "private/diary.txt": "Dear diary.\n",
	} {
		p := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestGuideRuns(t *testing.T) {
	folder, file := newPapers(t), filepath.Join(t.TempDir(), "library.db")
	for i, want := range []string{question, question, result, result, result} {
		var out bytes.Buffer
		if err := run(t.Context(), folder, file, i == 2 || i == 3, &out); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("run %d prints %q, want %q", i, out.String(), want)
		}
	}
	raw, err := os.ReadFile(filepath.Join(folder, "report.md"))
	if err != nil || len(raw) == 0 {
		t.Errorf("report %q, %v", raw, err)
	}
}

// The program ends during a model call. Started again, it continues there.
func TestRestartContinues(t *testing.T) {
	const needed = 7 // model calls until the question
	model := offline
	t.Cleanup(func() { offline = model })
	for last := range int32(needed) {
		folder, file := newPapers(t), filepath.Join(t.TempDir(), "library.db")
		ctx, end := context.WithCancel(t.Context())
		var calls atomic.Int32
		offline = llmtest.Func(func(ctx context.Context, r *llm.Request) (llm.Message, error) {
			if calls.Add(1) == last+1 {
				end()
				return llm.Message{}, ctx.Err()
			}
			return model(ctx, r)
		})
		if err := run(ctx, folder, file, false, &bytes.Buffer{}); err == nil {
			t.Fatalf("the program survived model call %d", last+1)
		}
		var out bytes.Buffer
		if err := run(t.Context(), folder, file, false, &out); err != nil || out.String() != question {
			t.Errorf("after model call %d, the program prints %q, %v", last+1, out.String(), err)
		}
		if n := calls.Load(); n > needed+2 { // two sub-agents work at the same time
			t.Errorf("after model call %d, the model was called %d times in total", last+1, n)
		}
	}
}
