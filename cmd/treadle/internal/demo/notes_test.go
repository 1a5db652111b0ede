package demo

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
)

func TestNotesStayInDirectory(t *testing.T) {
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
		if out, err := notes.write(t.Context(), note{name, "hello"}); err == nil { // fails before asking
			t.Errorf("%q: %s", name, out.Text())
		}
	}
	for _, name := range []string{"../secret", "/etc/passwd", "link"} {
		if out, err := notes.read(t.Context(), noteName{name}); err == nil {
			t.Errorf("%q: %s", name, out)
		}
	}
}

func TestAnswerDecodesObjectOrBool(t *testing.T) {
	for raw, want := range map[string]Answer{
		`true`:                                {Approved: true},
		`false`:                               {},
		`{"approved":true}`:                   {Approved: true},
		`{"approved":false,"reason":"later"}`: {Reason: "later"},
	} {
		got := Answer{Reason: "left over"}
		if err := json.Unmarshal([]byte(raw), &got); err != nil || got != want {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
	if err := json.Unmarshal([]byte(`"perhaps"`), new(Answer)); err == nil {
		t.Error("string accepted as an answer")
	}
}

func TestNoteRequiresApproval(t *testing.T) {
	for answer, want := range map[string]string{
		`true`:                                `"Written to a.md."`,
		`{"approved":true}`:                   `"Written to a.md."`,
		`false`:                               `"The user refused"`,
		`{"approved":false,"reason":"later"}`: `"The user refused: later"`,
		`"yes"`:                               "invalid answer",
		`{"approve":true}`:                    "invalid answer",
	} {
		notes := &noteDir{path: t.TempDir()}
		g, err := treadle.NewWorkflow("note", func(ctx context.Context, in note) (string, error) {
			m, err := notes.write(ctx, in)
			return m.Text(), err
		}, &treadle.Options{Saver: checkpoint.NewMemory()})
		if err != nil {
			t.Fatal(err)
		}
		thread := dynamic.Open(g, "t")
		if _, err := thread.RunJSON(t.Context(), []byte(`{"file":"a.md","text":"milk"}`)); !errors.As(err, new(*treadle.InterruptError)) {
			t.Fatalf("no question, but %v", err)
		}
		got, err := resumed(thread.CommandJSON(t.Context(), []byte(`{"resume":`+answer+`}`)))
		if err != nil {
			got = []byte(err.Error())
		}
		if !strings.Contains(string(got), want) {
			t.Errorf("%s: %s, want %s", answer, got, want)
		}
	}
}
