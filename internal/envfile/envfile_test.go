package envfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/internal/envfile"
)

func TestParseReadsEveryForm(t *testing.T) {
	got, err := envfile.Parse("\ufeff# a comment\n\nA=1\nexport B = two words # comment\nC=\"a \\\"b\\\"\\n\\\\n\" # c\r\nD='as $it \\n is'\nE=\nF=a#b\nG=#c\nH=x=y")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"A": "1", "B": "two words", "C": "a \"b\"\n\\n", "D": `as $it \n is`, "E": "", "F": "a#b", "G": "", "H": "x=y"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseNamesInvalidLine(t *testing.T) {
	for text, want := range map[string]string{
		"A=1\nnonsense": "line 2: want NAME=value",
		"=1":            "line 1: want NAME=value",
		"A B=1":         "line 1: want NAME=value",
		"\nA=\"x":       "line 2: A: unclosed quote",
		"A='x' y":       `line 1: A: unexpected "y" after the quote`,
	} {
		if _, err := envfile.Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestEnvIsFileOrObject(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	load := func(config string) (map[string]string, error) {
		env, err := envfile.Of(write("treadle.json", config))
		if err != nil {
			return nil, err
		}
		return env.Load(dir)
	}
	if _, err := load(`{"env":".env","graphs":{}}`); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	write(".env", "KEY=from the file")
	for config, want := range map[string]string{`{"env":".env"}`: "from the file", `{"env":{"KEY":"v"}}`: "v", `{}`: ""} {
		if vars, err := load(config); err != nil || vars["KEY"] != want {
			t.Errorf("%s: %v, %v", config, vars, err)
		}
	}
	if _, err := load(`{"env":1}`); err == nil {
		t.Error("a number was accepted")
	}
	if got := envfile.Find(dir); got != filepath.Join(dir, "treadle.json") {
		t.Errorf("found %s", got)
	}
	if got := envfile.Find(t.TempDir()); got != "" {
		t.Errorf("found %s in an empty directory", got)
	}
	if env, err := envfile.Of(filepath.Join(dir, "nosuch.json")); err != nil || env.File != "" {
		t.Errorf("no configuration: %v, %v", env, err)
	}
}
