package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestApprovalAsksAndContinues(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	for _, test := range []struct {
		answer []string
		want   string
	}{
		{[]string{"approve"}, "transferred 20 euros to Ada"},
		{[]string{"reject", "too much"}, "too much"},
	} {
		file := filepath.Join(t.TempDir(), "approval.db")
		var out bytes.Buffer
		if err := run(t.Context(), file, nil, &out); err != nil {
			t.Fatal(err)
		}
		if want := `May I transfer {"to":"Ada","euros":20}? Start again with approve or reject.` + "\n"; out.String() != want {
			t.Errorf("it asked %q, want %q", out.String(), want)
		}
		out.Reset()
		if err := run(t.Context(), file, test.answer, &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), test.want) || !strings.Contains(out.String(), "That is settled.") {
			t.Errorf("after %v it said %q", test.answer, out.String())
		}
	}
}
