package treadle_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
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

const modulePath = "github.com/treadle-go/treadle"

// Documentation shows a declaration verbatim. If a declaration names an internal package,
// readers cannot see the fields, methods, or value behind the name.
func TestExportedAPIHidesInternals(t *testing.T) {
	checked := 0
	for _, dir := range publicPackages(t) {
		problems, names := internalNames(t, dir)
		checked += names
		for _, p := range problems {
			t.Error(p)
		}
	}
	if checked < 500 {
		t.Errorf("only %d exported names were checked", checked)
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

// Documentation shows a promoted method on the exported type, but without its type
// parameters.
func TestDocsShowMethodsOnTheirTypes(t *testing.T) {
	for _, typ := range docOf(t, ".").Types {
		for _, m := range typ.Methods {
			if m.Level > 0 && !ast.IsExported(strings.TrimPrefix(m.Orig, "*")) {
				t.Errorf("%s.%s is promoted from %s: give %s its own method", typ.Name, m.Name, m.Orig, typ.Name)
			}
		}
	}
}

// Documentation shows no fields for an alias, so its comment names them. The first sentence
// is the same as in package treadletype.
func TestAliasCommentsShowFields(t *testing.T) {
	root, defined, seen := docOf(t, "."), docOf(t, "treadletype"), 0
	for _, def := range defined.Types {
		i := slices.IndexFunc(root.Types, func(a *doc.Type) bool { return a.Name == def.Name })
		if i < 0 {
			t.Errorf("package treadle has no alias of treadletype.%s", def.Name)
			continue
		}
		seen++
		comment := root.Types[i].Doc
		if got, want := root.Synopsis(comment), defined.Synopsis(def.Doc); got != want {
			t.Errorf("comment of %s begins with\n%s\nwant as in package treadletype\n%s", def.Name, got, want)
		}
		if link := "[treadletype." + def.Name + "]"; !strings.Contains(strings.ReplaceAll(comment, "\n", " "), link) {
			t.Errorf("comment of %s lacks the link %s", def.Name, link)
		}
		if shape := shapeOf(t, def); !strings.Contains(comment, shape) {
			t.Errorf("comment of %s lacks its fields and methods:\n%s", def.Name, shape)
		}
	}
	if seen < 20 {
		t.Errorf("only %d aliases were checked", seen)
	}
}

// shapeOf returns the fields and methods of a type as a block of code in a comment.
func shapeOf(t *testing.T, def *doc.Type) string {
	var b strings.Builder
	if fields, ok := def.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType); ok {
		for _, f := range fields.Fields.List {
			f.Tag, f.Doc, f.Comment = nil, nil, nil
		}
		if err := format.Node(&b, token.NewFileSet(), &ast.StructType{Fields: &ast.FieldList{List: fields.Fields.List}}); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(b.String(), "\n")
	if len(lines) > 2 {
		lines = lines[1 : len(lines)-1] // without the braces
	}
	for _, m := range def.Methods {
		if m.Name == "Error" || m.Name == "Unwrap" || m.Name == "UnmarshalJSON" || m.Name == "String" {
			continue
		}
		var f strings.Builder
		m.Decl.Doc, m.Decl.Body = nil, nil
		if err := format.Node(&f, token.NewFileSet(), m.Decl); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, f.String())
	}
	var out string
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			out += "\t" + line + "\n"
		}
	}
	return out
}

// Package treadle defines every sentinel error of package treadletype.
func TestRootDefinesSentinelErrors(t *testing.T) {
	var have []string
	for _, group := range docOf(t, ".").Vars {
		have = append(have, group.Names...)
	}
	for _, group := range docOf(t, "treadletype").Vars {
		for _, name := range group.Names {
			if !slices.Contains(have, name) {
				t.Errorf("package treadle does not define %s", name)
			}
		}
	}
}

// docOf returns the documentation of a package.
func docOf(t *testing.T, dir string) *doc.Package {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	pkg, err := doc.NewFromFiles(fset, parsed, path.Join(modulePath, filepath.ToSlash(dir)))
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

// publicPackages returns the directories of the packages that users import.
func publicPackages(t *testing.T) []string {
	var dirs []string
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("the root package was not found:", err)
	}
	modules, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"list", "-f", "{{if .GoFiles}}{{.ImportPath}}{{end}}"}, strings.Fields(string(modules))...)
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for p := range strings.Lines(string(out)) {
		rel, ours := strings.CutPrefix(strings.TrimSpace(p), modulePath)
		if !ours {
			continue // the module of internal/test/thirdparty
		}
		rel = strings.TrimPrefix(rel, "/")
		top, _, _ := strings.Cut(rel, "/")
		if slices.Contains([]string{"internal", "cmd", "examples", "bench"}, top) || strings.Contains(rel, "/internal/") {
			continue
		}
		dirs = append(dirs, path.Clean("./"+rel))
	}
	return dirs
}

// internalNames returns the exported declarations of a package that name an internal
// package, and the number of declarations.
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
