package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The texts are those of the guide.
func TestGuideRuns(t *testing.T) {
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "library.db")
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
	for i, want := range []string{
		"write_file changes /report.md:\n\n--- /report.md\n+++ /report.md\n@@ -1,0 +1,2 @@\n+- Bees dance to tell where flowers are.\n+- Owls hear a mouse under half a meter of snow.\n\n",
		"Result: Updated /report.md\n",
	} {
		var out bytes.Buffer
		if err := run(t.Context(), folder, file, i == 1, &out); err != nil {
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
