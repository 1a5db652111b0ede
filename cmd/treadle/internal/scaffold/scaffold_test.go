package scaffold_test

import (
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/cmd/treadle/internal/scaffold"
)

func TestCheckRejectsInvalidModulePaths(t *testing.T) {
	for module, want := range map[string]string{
		"":                              ": empty",
		"../shop":                       "file path",
		"/tmp/shop":                     "file path",
		`a\b`:                           "file path",
		"my shop":                       `"my shop" contains characters`,
		"shöp":                          `"shöp" contains characters`,
		"a//b":                          "empty element",
		"a/":                            "empty element",
		"shop.":                         `"shop." ends with a dot`,
		"-shop":                         "starts with a dash",
		"net/shop":                      "conflicts with the standard library",
		"github.com/treadle-go/treadle": "reserved for Treadle",
	} {
		if err := scaffold.Check(module); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "use a name such as shop") {
			t.Errorf("%q: %v, want %s", module, err, want)
		}
	}
	for module, name := range map[string]string{"shop": "shop", "example.com/team/shop": "shop", "example.com/shop/v2": "shop", "my-shop_2": "my-shop_2", "v2": "v2"} {
		if err := scaffold.Check(module); err != nil || scaffold.Name(module) != name {
			t.Errorf("%q: %v, name %q", module, err, scaffold.Name(module))
		}
	}
}

func TestWriteFillsInNames(t *testing.T) {
	for deep, own := range map[bool][]string{false: {"agents/support.go", "agents/support_test.go"}, true: {"agents/researcher.go", "agents/researcher_test.go", "agents/skills/report/SKILL.md"}} {
		t.Run(fmt.Sprint("deep ", deep), func(t *testing.T) { fillsInNames(t, deep, own) })
	}
}

func fillsInNames(t *testing.T, deep bool, own []string) {
	dir := filepath.Join(t.TempDir(), "shop")
	files, err := scaffold.Write(scaffold.Options{Module: "example.com/shop", Dir: dir, Version: "v1.2.3", Deep: deep})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(own, "go.mod", "main.go", "agents/model.go", "Dockerfile", "treadle.json", ".gitignore", ".dockerignore", ".env.example", "README.md") {
		if !slices.Contains(files, name) {
			t.Errorf("missing %s", name)
		}
	}
	for _, name := range files {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if text := string(raw); strings.Contains(text, "MODULE") || strings.Contains(text, "NAME") {
			t.Errorf("%s contains a placeholder:\n%s", name, text)
		}
		if strings.HasSuffix(name, ".go") {
			if formatted, err := format.Source(raw); err != nil || string(formatted) != string(raw) {
				t.Errorf("%s is not formatted: %v", name, err)
			}
		}
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !strings.HasPrefix(string(mod), "module example.com/shop\n") || !strings.HasSuffix(string(mod), "\nrequire (\n\tgithub.com/treadle-go/treadle v1.2.3\n\tgithub.com/treadle-go/treadle/server v1.2.3\n)\n") {
		t.Errorf("go.mod: %s, %v", mod, err)
	}
}

func TestWriteUsesSurroundingCheckout(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module github.com/treadle-go/treadle\n\ngo 1.26.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := scaffold.Checkout(below); got != root {
		t.Errorf("checkout %q, want %q", got, root)
	}
	if got := scaffold.Checkout(t.TempDir()); got != "" {
		t.Errorf("outside of a checkout: %q", got)
	}
	dir := filepath.Join(below, "shop")
	if _, err := scaffold.Write(scaffold.Options{Module: "shop", Dir: dir, Replace: root}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"go.mod":  "\tgithub.com/treadle-go/treadle/server => " + filepath.Join(root, "server") + "\n",
		"go.work": "use .\n",
	} {
		if raw, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(raw), want) {
			t.Errorf("%s: %s, %v, want it to contain %q", name, raw, err, want)
		}
	}
}

func TestWriteKeepsExistingDirectory(t *testing.T) {
	dir := t.TempDir()
	if _, err := scaffold.Write(scaffold.Options{Module: "shop", Dir: dir}); err == nil || err.Error() != dir+" already exists: choose another name, or remove it" {
		t.Errorf("existing directory: %v", err)
	}
	if _, err := scaffold.Write(scaffold.Options{Module: "shop", Dir: filepath.Join(dir, "a", "b")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no parent: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
