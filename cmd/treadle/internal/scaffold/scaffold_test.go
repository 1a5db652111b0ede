package scaffold_test

import (
	"errors"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/cmd/treadle/internal/scaffold"
)

func TestCheckRefusesPathsThatNoModuleCanHave(t *testing.T) {
	for module, want := range map[string]string{
		"":                              "it is empty",
		"../shop":                       "it is a path of a file",
		"/tmp/shop":                     "it is a path of a file",
		`a\b`:                           "it is a path of a file",
		"my shop":                       `"my shop" has other characters`,
		"shöp":                          `"shöp" has other characters`,
		"a//b":                          "a part of it is empty",
		"a/":                            "a part of it is empty",
		"shop.":                         `"shop." ends with a dot`,
		"-shop":                         "it begins with a dash",
		"net/shop":                      "the standard library has that package",
		"github.com/treadle-go/treadle": "it is Treadle's",
	} {
		if err := scaffold.Check(module); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "use a name such as shop") {
			t.Errorf("%q: %v, want %s", module, err, want)
		}
	}
	for module, name := range map[string]string{"shop": "shop", "example.com/team/shop": "shop", "example.com/shop/v2": "shop", "my-shop_2": "my-shop_2", "v2": "v2"} {
		if err := scaffold.Check(module); err != nil || scaffold.Name(module) != name {
			t.Errorf("%q: %v, its name is %q", module, err, scaffold.Name(module))
		}
	}
}

func TestWriteFillsInTheNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop")
	files, err := scaffold.Write(scaffold.Options{Module: "example.com/shop", Dir: dir, Version: "v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "main.go", "agents/support.go", "agents/support_test.go", "Dockerfile", "treadle.json", ".gitignore", ".dockerignore", ".env.example", "README.md"} {
		if !slices.Contains(files, name) {
			t.Errorf("there is no %s", name)
		}
	}
	for _, name := range files {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if text := string(raw); strings.Contains(text, "MODULE") || strings.Contains(text, "NAME") {
			t.Errorf("%s has a name that is not filled in:\n%s", name, text)
		}
		if strings.HasSuffix(name, ".go") {
			if formatted, err := format.Source(raw); err != nil || string(formatted) != string(raw) {
				t.Errorf("%s is not formatted: %v", name, err)
			}
		}
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !strings.HasPrefix(string(mod), "module example.com/shop\n") || !strings.HasSuffix(string(mod), "\nrequire github.com/treadle-go/treadle v1.2.3\n") {
		t.Errorf("go.mod is %s, %v", mod, err)
	}
}

func TestWriteLeavesWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	if _, err := scaffold.Write(scaffold.Options{Module: "shop", Dir: dir}); err == nil || err.Error() != dir+" exists already: choose another name, or remove it" {
		t.Errorf("an existing directory: %v", err)
	}
	if _, err := scaffold.Write(scaffold.Options{Module: "shop", Dir: filepath.Join(dir, "a", "b")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no parent: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
