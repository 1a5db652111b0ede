package demo

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func TestNotesStayInTheirDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("xyzzy"), 0o600); err != nil {
		t.Fatal(err)
	}
	notes := &noteDir{path: filepath.Join(dir, "notes")}
	if err := os.Mkdir(notes.path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../secret", filepath.Join(notes.path, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../secret", "/etc/passwd", "a/../../secret", "", ".", "\x1b[31m"} {
		if out, err := notes.write(t.Context(), note{name, "hello"}); err == nil { // it fails before it asks
			t.Errorf("%q: %s", name, out.Text())
		}
	}
	for _, name := range []string{"../secret", "/etc/passwd", "link"} {
		if out, err := notes.read(t.Context(), noteName{name}); err == nil {
			t.Errorf("%q: %s", name, out)
		}
	}
}

func TestAQuestionIsAnsweredByAnObjectOrYesOrNo(t *testing.T) {
	for raw, want := range map[string]Answer{
		`true`:                                {Approved: true},
		`false`:                               {},
		`{"approved":true}`:                   {Approved: true},
		`{"approved":false,"reason":"later"}`: {Reason: "later"},
	} {
		got := Answer{Reason: "left over"}
		if err := json.Unmarshal([]byte(raw), &got); err != nil || got != want {
			t.Errorf("%s is %+v, %v", raw, got, err)
		}
	}
	if err := json.Unmarshal([]byte(`"perhaps"`), new(Answer)); err == nil {
		t.Error("a text is an answer")
	}
}
