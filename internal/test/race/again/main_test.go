package main

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A package whose tests do less under the race detector runs again without it.
func TestAgainListsRaceDependentPackages(t *testing.T) {
	module := os.DirFS("../../../..")
	makefile, err := fs.ReadFile(module, "Makefile")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^WITHOUT_RACE := (.*)$`).FindSubmatch(makefile)
	if line == nil {
		t.Fatal("no WITHOUT_RACE in the Makefile")
	}
	listed := strings.Fields(string(line[1]))
	for i, dir := range listed {
		listed[i] = path.Clean(dir)
	}
	found := 0
	err = fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/test/race/") {
			return nil
		}
		text, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		for _, asks := range asks {
			if strings.Contains(string(text), asks) {
				found++
				if dir := path.Dir(name); !slices.Contains(listed, dir) {
					t.Errorf("%s uses %s, and %s is not in WITHOUT_RACE of the Makefile", name, asks, dir)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no test asks whether the race detector is on: the search is wrong")
	}
}

// A word of SLOW that matches no test was left behind by a rename.
func TestSlowPatternMatchesTests(t *testing.T) {
	makefile, err := os.ReadFile("../../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^SLOW := (.*)$`).FindSubmatch(makefile)
	if line == nil {
		t.Fatal("no SLOW in the Makefile")
	}
	unused := map[string]bool{}
	for word := range strings.SplitSeq(string(line[1]), "|") {
		unused[word] = true
	}
	err = fs.WalkDir(os.DirFS("../../../.."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join("../../../..", name))
		for line := range strings.Lines(string(text)) {
			f, _, isFunc := strings.Cut(line, "(")
			if isFunc && strings.HasPrefix(f, "func Test") {
				maps.DeleteFunc(unused, func(word string, _ bool) bool { return strings.Contains(f, word) })
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for word := range unused {
		t.Errorf("no test matches %q: change SLOW in the Makefile", word)
	}
}

func TestAgainFindsIndirectUses(t *testing.T) {
	dir := t.TempDir()
	err := os.WriteFile(filepath.Join(dir, "x_test.go"), []byte(`package x
var seeds = count()
func count() int { if race.Enabled { return 1 }; return 9 }
type suite struct{}
func (suite) rounds() int { return seeds }
func TestMain(m *testing.M) { count() }
func TestByAVariable(t *testing.T) { _ = seeds }
func TestByAMethod(t *testing.T) { suite{}.rounds() }
func TestByASuite(t *testing.T) { storetest.Differential(t, nil) }
func TestOfAnother(t *testing.T) { storetest.Run(t, nil) }
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	got, err := again(dir)
	if want := "^(TestByAMethod|TestByASuite|TestByAVariable)$"; got != want || err != nil {
		t.Errorf("pattern: %s, %v; want %s", got, err, want)
	}
	if _, err := again(t.TempDir()); err == nil {
		t.Error("directory without such tests was accepted")
	}
}
