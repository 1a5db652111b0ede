package treadle_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Documentation shows a declaration as it is written. One that names an internal
// package leaves its reader without the fields, methods or value behind the name.
func TestTheExportedAPIShowsNothingInternal(t *testing.T) {
	checked := 0
	for _, dir := range publicPackages(t) {
		problems, names := internalNames(t, dir)
		checked += names
		for _, p := range problems {
			t.Error(p)
		}
	}
	if checked < 500 {
		t.Errorf("only %d exported names were looked at", checked)
	}
}

// Package testing registers flags and adds to every binary; only the suites and
// helpers for tests import it.
func TestProgramsDoNotLinkPackageTesting(t *testing.T) {
	for _, dir := range publicPackages(t) {
		if strings.HasSuffix(dir, "test") || dir == "llm/gemini" || dir == "llm/models" { // Google's client imports it
			continue
		}
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+dir).Output()
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(strings.Fields(string(out)), "testing") {
			t.Errorf("package %s links package testing into programs", dir)
		}
	}
}

// publicPackages are the directories of the packages that users import.
func publicPackages(t *testing.T) []string {
	var dirs []string
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("the root package was not found:", err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{if .GoFiles}}{{.ImportPath}}{{end}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for p := range strings.Lines(string(out)) {
		rel := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(p), modulePath), "/")
		top, _, _ := strings.Cut(rel, "/")
		if slices.Contains([]string{"internal", "cmd", "examples", "parity"}, top) || strings.Contains(rel, "/internal/") {
			continue
		}
		dirs = append(dirs, path.Clean("./"+rel))
	}
	return dirs
}

// internalNames says where the exported declarations of a package name an
// internal package, and counts the declarations.
func internalNames(t *testing.T, dir string) (problems []string, names int) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		internal := map[string]bool{}
		for _, imp := range f.Imports {
			p, _ := strconv.Unquote(imp.Path.Value)
			if strings.Contains(p, "/internal/") {
				name := path.Base(p)
				if imp.Name != nil {
					name = imp.Name.Name
				}
				internal[name] = true
			}
		}
		look := func(what string, shown ast.Node) {
			names++
			ast.Inspect(shown, func(n ast.Node) bool {
				if st, ok := n.(*ast.StructType); ok {
					for _, field := range st.Fields.List {
						if visible(field) {
							ast.Inspect(field.Type, func(n ast.Node) bool { return note(&problems, fset, internal, what, n) })
						}
					}
					return false
				}
				if it, ok := n.(*ast.InterfaceType); ok {
					for _, m := range it.Methods.List {
						if visible(m) {
							ast.Inspect(m.Type, func(n ast.Node) bool { return note(&problems, fset, internal, what, n) })
						}
					}
					return false
				}
				return note(&problems, fset, internal, what, n)
			})
		}
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() {
					look(d.Name.Name, d.Type)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() {
							look(s.Name.Name, s.Type)
						}
					case *ast.ValueSpec:
						if !s.Names[0].IsExported() {
							continue
						}
						if s.Type != nil {
							look(s.Names[0].Name, s.Type)
						}
						if d.Tok == token.CONST {
							for _, v := range s.Values {
								look(s.Names[0].Name, v)
							}
						}
					}
				}
			}
		}
	}
	return problems, names
}

// visible reports a field or method that documentation shows.
func visible(f *ast.Field) bool {
	if len(f.Names) > 0 {
		return slices.ContainsFunc(f.Names, (*ast.Ident).IsExported)
	}
	name := f.Type
	for {
		switch n := name.(type) {
		case *ast.StarExpr:
			name = n.X
			continue
		case *ast.SelectorExpr:
			return n.Sel.IsExported()
		case *ast.Ident:
			return n.IsExported()
		}
		return true
	}
}

// note adds a problem if n is a name of an internal package.
func note(problems *[]string, fset *token.FileSet, internal map[string]bool, what string, n ast.Node) bool {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return true
	}
	if pkg, ok := sel.X.(*ast.Ident); ok && internal[pkg.Name] {
		*problems = append(*problems, fmt.Sprintf("%s: %s shows %s.%s, which users cannot read: declare it in a public package",
			fset.Position(sel.Pos()), what, pkg.Name, sel.Sel.Name))
	}
	return false
}
