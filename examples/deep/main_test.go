package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDeepAgentWritesReportAfterApproval(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	for _, test := range []struct {
		answer []string
		said   string
		report string
	}{
		{[]string{"approve"}, "Updated /report.md", "- Bees tell each other where flowers are by dancing.\n- Owls hear a mouse under half a meter of snow.\n"},
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
