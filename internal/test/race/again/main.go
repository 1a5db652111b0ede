// Command again prints a go test -run pattern that matches the tests that do less under
// the race detector, in the given packages. The Makefile runs these tests a second time,
// without the detector. All other tests would only be repeated.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	pattern, err := again(os.Args[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "again:", err)
		os.Exit(1)
	}
	fmt.Println(pattern)
}

// asks lists the expressions that make a test do less under the race detector. The test
// suites do so on behalf of their callers.
var asks = []string{"race.Enabled", "race.Runs", "checkpointtest.Differential", "storetest.Differential", "ledgertest.Differential", "databasetest.SuiteModes"}

// again returns a go test -run pattern for the tests in dirs that do less under the race
// detector, themselves or in functions that they call. It compares names only, so it may
// include too many tests.
func again(dirs ...string) (string, error) {
	var tests []string
	for _, dir := range dirs {
		found, err := testsThatAsk(dir)
		if err != nil {
			return "", err
		}
		if len(found) == 0 {
			return "", fmt.Errorf("no test in %s does less under the race detector: take it out of the list", dir)
		}
		tests = append(tests, found...)
	}
	if len(tests) == 0 {
		return "", errors.New("no directories")
	}
	slices.Sort(tests)
	return "^(" + strings.Join(slices.Compact(tests), "|") + ")$", nil
}

func testsThatAsk(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	mentions := map[string]map[string]bool{} // the names that each declaration mentions
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			for _, name := range declared(d) {
				if mentions[name] == nil {
					mentions[name] = map[string]bool{}
				}
				collect(d, mentions[name])
			}
		}
	}
	asking := map[string]bool{}
	for _, a := range asks {
		asking[a] = true
	}
	for grown := true; grown; {
		grown = false
		for name, of := range mentions {
			if asking[name] {
				continue
			}
			for m := range of {
				if asking[m] {
					asking[name], grown = true, true
					break
				}
			}
		}
	}
	var tests []string
	for name := range mentions {
		if asking[name] && strings.HasPrefix(name, "Test") && name != "TestMain" {
			tests = append(tests, name)
		}
	}
	return tests, nil
}

// declared returns the names that a declaration declares.
func declared(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []string{d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				for _, n := range v.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// collect adds the names in a declaration, both alone and with their qualifier.
func collect(d ast.Decl, to map[string]bool) {
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			to[n.Name] = true
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				to[x.Name+"."+n.Sel.Name] = true
			}
		}
		return true
	})
}
