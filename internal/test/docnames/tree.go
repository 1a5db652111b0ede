package docnames

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// modulePath is the import path of the root. Every module below it is in the directory that
// its path names.
const modulePath = "github.com/treadle-go/treadle"

// A Tree is an index of what the repository declares.
type Tree struct {
	root        string
	files       map[string]bool            // all files and directories, relative to root, with slashes
	bases       map[string][]string        // the files with a base name
	packages    map[string]*pkg            // by directory
	byName      map[string][]*pkg          // by package name, and by directory base name
	members     map[string]bool            // every field and method of every type
	imported    map[string]bool            // base names of imported packages of other modules
	literals    map[string]bool            // string literals of Go code that is not a test
	asserted    map[string]bool            // string literals of tests
	conventions map[string]bool            // of OpenTelemetry's attributes in use, such as "genaiagentname"
	scripts     map[string]bool            // words and flags of TypeScript, JavaScript, and Python files
	words       map[string]bool            // words in capitals in Go, in the Makefile, and in scripts
	targets     map[string]bool            // of the Makefile
	routes      []endpoint                 // of the server
	commands    map[string]*command        // of treadle, by path, such as "threads list"
	programs    map[string]map[string]bool // the flags of each package main, by directory
	flags       map[string]bool            // of treadle, a server program, and bench
	source      map[string]*goFile         // the Go files
}

// pkg holds the declarations of the Go files in one directory.
type pkg struct {
	dir, name string
	decls     map[string]*decl
	tests     map[string]bool // Test, Benchmark, Fuzz, and Example functions
}

// decl is a top-level declaration. Only types have members.
type decl struct {
	members  map[string]bool
	embedded []ref // embedded types, and the target of an alias or definition
}

// ref names a type: in the package of dir, if dir is known.
type ref struct{ dir, name string }

type endpoint struct{ method, path string }

// goFile is a parsed Go file.
type goFile struct {
	path string
	ast  *ast.File
	fset *token.FileSet
	text []byte
}

// mentions reports whether name is an identifier in f.
func (f *goFile) mentions(name string) bool {
	found := false
	ast.Inspect(f.ast, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}

// Load indexes the repository at root.
func Load(root string) (*Tree, error) {
	t := &Tree{
		root:        root,
		files:       map[string]bool{},
		bases:       map[string][]string{},
		packages:    map[string]*pkg{},
		byName:      map[string][]*pkg{},
		members:     map[string]bool{},
		imported:    map[string]bool{},
		literals:    map[string]bool{},
		asserted:    map[string]bool{},
		conventions: map[string]bool{},
		scripts:     map[string]bool{},
		words:       map[string]bool{},
		targets:     map[string]bool{},
		commands:    map[string]*command{},
		programs:    map[string]map[string]bool{},
		flags:       map[string]bool{},
		source:      map[string]*goFile{},
	}
	var paths []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && slices.Contains([]string{".git", "node_modules", ".venv"}, d.Name()) {
			return fs.SkipDir
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		t.files[rel] = true
		if !d.IsDir() {
			t.bases[d.Name()] = append(t.bases[d.Name()], rel)
			if strings.HasSuffix(rel, ".go") {
				paths = append(paths, rel)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	parsed, err := parseAll(root, paths)
	if err != nil {
		return nil, err
	}
	for _, f := range parsed {
		t.addPackageOf(f)
	}
	for _, f := range parsed {
		t.addFile(f)
	}
	if err := t.addScripts(); err != nil {
		return nil, err
	}
	t.addRoutes()
	t.addCommands()
	return t, nil
}

// parseAll parses files on all processors.
func parseAll(root string, paths []string) ([]*goFile, error) {
	parsed, errs := make([]*goFile, len(paths)), make([]error, len(paths))
	next := make(chan int)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				parsed[i], errs[i] = parse(root, paths[i])
			}
		})
	}
	for i := range paths {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(parsed, func(f *goFile) bool { return f == nil }), nil
}

// parse parses one file. It returns nil for a file in testdata that is not Go.
func parse(root, rel string) (*goFile, error) {
	text, err := os.ReadFile(filepath.Join(root, rel))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, rel, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		if strings.Contains(rel, "testdata/") {
			return nil, nil
		}
		return nil, err
	}
	return &goFile{path: rel, ast: parsed, fset: fset, text: text}, nil
}

func (t *Tree) addPackageOf(f *goFile) {
	t.source[f.path] = f
	dir := path.Dir(f.path)
	if t.packages[dir] != nil || strings.Contains(f.path, "testdata/") {
		return
	}
	name := strings.TrimSuffix(f.ast.Name.Name, "_test")
	p := &pkg{dir: dir, name: name, decls: map[string]*decl{}, tests: map[string]bool{}}
	t.packages[dir] = p
	if strings.HasPrefix(dir, "examples/") {
		return // users' packages, which pages name with their path
	}
	t.byName[name] = append(t.byName[name], p)
}

func (t *Tree) addFile(f *goFile) {
	p := t.packages[path.Dir(f.path)]
	test := strings.HasSuffix(f.path, "_test.go")
	if p == nil {
		return
	}
	imports := t.importsOf(f)
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			t.addFunc(p, d, test)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				t.addSpec(p, s, imports)
			}
		}
	}
	if p.dir == "internal/test/docnames" {
		return // its strings are names of other software, and false names
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.SelectorExpr:
			if id, ok := n.X.(*ast.Ident); ok && id.Name == "semconv" && !test {
				t.conventions[strings.ToLower(strings.TrimSuffix(n.Sel.Name, "Key"))] = true
			}
		case *ast.BasicLit:
			if s, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				if test {
					t.asserted[s] = true
				} else {
					t.literals[s] = true
				}
			}
		}
		return true
	})
	t.addWords(f.text)
}

// addWords adds the words of a text that are in capitals. A regular expression would take
// most of the time of Load.
func (t *Tree) addWords(text []byte) {
	for i := 0; i < len(text); i++ {
		if !isWordByte(text[i]) {
			continue
		}
		from, capital := i, text[i] >= 'A' && text[i] <= 'Z'
		for ; i < len(text) && isWordByte(text[i]); i++ {
			capital = capital && (text[i] < 'a' || text[i] > 'z')
		}
		if capital {
			t.words[string(text[from:i])] = true
		}
	}
}

func isWordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
}

// importsOf returns the directories of the packages of ours that f imports, by local name.
func (t *Tree) importsOf(f *goFile) map[string]string {
	dirs := map[string]string{}
	for _, s := range f.ast.Imports {
		target, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			continue
		}
		dir, ours := dirOf(target)
		if !ours {
			t.imported[path.Base(target)] = true
			if s.Name != nil {
				t.imported[s.Name.Name] = true
			}
			continue
		}
		switch p := t.packages[dir]; {
		case s.Name != nil:
			dirs[s.Name.Name] = dir
		case p != nil:
			dirs[p.name] = dir
		}
	}
	return dirs
}

// dirOf returns the directory of a package of ours.
func dirOf(importPath string) (dir string, ours bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

func (t *Tree) addFunc(p *pkg, d *ast.FuncDecl, test bool) {
	name := d.Name.Name
	if d.Recv == nil {
		if test && isTest.MatchString(name) {
			p.tests[name] = true
		} else {
			p.declare(name)
		}
		return
	}
	if receiver := p.refOf(d.Recv.List[0].Type, nil); receiver.name != "" {
		p.declare(receiver.name).members[name] = true
		t.members[name] = true
	}
}

var isTest = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)([^a-z]|$)`)

func (p *pkg) declare(name string) *decl {
	d := p.decls[name]
	if d == nil {
		d = &decl{members: map[string]bool{}}
		p.decls[name] = d
	}
	return d
}

func (t *Tree) addSpec(p *pkg, s ast.Spec, imports map[string]string) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			p.declare(n.Name)
		}
	case *ast.TypeSpec:
		d := p.declare(s.Name.Name)
		if r := p.refOf(s.Type, imports); r.name != "" {
			d.embedded = append(d.embedded, r)
		}
		var fields *ast.FieldList
		switch u := s.Type.(type) {
		case *ast.StructType:
			fields = u.Fields
		case *ast.InterfaceType:
			fields = u.Methods
		default:
			return
		}
		for _, f := range fields.List {
			for _, n := range f.Names {
				d.members[n.Name] = true
				t.members[n.Name] = true
			}
			if r := p.refOf(f.Type, imports); len(f.Names) == 0 && r.name != "" {
				d.members[r.name] = true
				d.embedded = append(d.embedded, r)
			}
		}
	}
}

// refOf returns the named type of an expression such as *T, T[int], or pkg.T.
func (p *pkg) refOf(x ast.Expr, imports map[string]string) ref {
	switch x := x.(type) {
	case *ast.StarExpr:
		return p.refOf(x.X, imports)
	case *ast.IndexExpr:
		return p.refOf(x.X, imports)
	case *ast.IndexListExpr:
		return p.refOf(x.X, imports)
	case *ast.Ident:
		return ref{p.dir, x.Name}
	case *ast.SelectorExpr:
		if id, ok := x.X.(*ast.Ident); ok {
			return ref{imports[id.Name], x.Sel.Name}
		}
	}
	return ref{}
}

// has reports whether the type that r names has a member, its own or promoted.
func (t *Tree) has(r ref, member string) bool {
	return t.search(r, member, map[ref]bool{})
}

func (t *Tree) search(r ref, member string, seen map[ref]bool) bool {
	p := t.packages[r.dir]
	if p == nil || seen[r] {
		return false
	}
	seen[r] = true
	d := p.decls[r.name]
	if d == nil {
		return false
	}
	return d.members[member] || slices.ContainsFunc(d.embedded, func(e ref) bool { return t.search(e, member, seen) })
}

// membersOf returns the members of a type, its own and promoted.
func (t *Tree) membersOf(r ref) []string {
	var names []string
	seen := map[ref]bool{}
	var add func(ref)
	add = func(r ref) {
		p := t.packages[r.dir]
		if p == nil || seen[r] || p.decls[r.name] == nil {
			return
		}
		seen[r] = true
		for n := range p.decls[r.name].members {
			names = append(names, n)
		}
		for _, e := range p.decls[r.name].embedded {
			add(e)
		}
	}
	add(r)
	return names
}

// addScripts reads the Makefile, the scripts of .ci, and sources in other languages.
func (t *Tree) addScripts() error {
	for _, name := range slices.Concat(slices.Collect(maps.Values(t.bases))...) {
		source := slices.Contains([]string{".py", ".ts", ".tsx", ".mjs", ".js"}, path.Ext(name)) && !strings.Contains(name, "/dist/")
		if !source && name != "Makefile" && !strings.HasPrefix(name, ".ci/") && !strings.HasPrefix(name, "deploy/") {
			continue
		}
		text, err := t.read(name)
		if err != nil {
			return err
		}
		t.addWords(text)
		if source {
			for _, w := range scriptWord.FindAll(text, -1) {
				t.scripts[string(w)] = true
			}
			for _, m := range scriptFlag.FindAllSubmatch(text, -1) {
				t.scripts["--"+string(m[1])+string(m[2])] = true
			}
		}
		if name == "Makefile" {
			for _, m := range target.FindAllSubmatch(text, -1) {
				t.targets[string(m[1])] = true
			}
		}
	}
	if len(t.targets) == 0 {
		return fmt.Errorf("%s: found no targets", filepath.Join(t.root, "Makefile"))
	}
	return nil
}

var (
	scriptWord = regexp.MustCompile(`\b[a-z]+[0-9]*[A-Z][A-Za-z0-9]*\b`)
	scriptFlag = regexp.MustCompile(`"--([a-z-]+)"|(?m:^\s*([a-z]+): \{ type: )`)
)

var target = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)

// addRoutes reads the endpoints of the server: the table of package server, which lists routes as
// literals of a method and a path, and the patterns in the mux of package ui.
func (t *Tree) addRoutes() {
	for name, f := range t.source {
		if !strings.HasPrefix(name, "server/") && !strings.HasPrefix(name, "ui/") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			var method, path string
			switch n := n.(type) {
			case *ast.CompositeLit:
				if len(n.Elts) >= 2 {
					method, path = literal(n.Elts[0]), literal(n.Elts[1])
				}
			case *ast.CallExpr:
				if len(n.Args) > 0 {
					method, path, _ = strings.Cut(literal(n.Args[0]), " ")
				}
			}
			if slices.Contains(methods, method) && strings.HasPrefix(path, "/") {
				t.routes = append(t.routes, endpoint{method, path})
			}
			return true
		})
	}
}

var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}

// literal returns the value of a string literal, or "".
func literal(x ast.Expr) string {
	if b, ok := x.(*ast.BasicLit); ok && b.Kind == token.STRING {
		s, _ := strconv.Unquote(b.Value)
		return s
	}
	return ""
}

// command is a subcommand of treadle.
type command struct{ flags map[string]bool }

// addCommands reads the subcommands of cmd/treadle and the flags of our programs. A
// subcommand is a function with a literal of cobra.Command. Its flags are those that the
// function and its callees define; a callee with another literal is a subcommand of it.
func (t *Tree) addCommands() {
	funcs := map[string]*ast.FuncDecl{}
	for name, f := range t.source {
		dir := path.Dir(name)
		if dir == "server/standalone" || f.ast.Name.Name == "main" || strings.HasSuffix(name, "_test.go") {
			for n := range flagsIn(f.ast) {
				t.flags[n] = true
				if strings.HasSuffix(name, "_test.go") {
					continue // of go test, not of a program
				}
				if t.programs[dir] == nil {
					t.programs[dir] = map[string]bool{}
				}
				t.programs[dir][n] = true
			}
		}
		if dir == "cmd/treadle" && !strings.HasSuffix(name, "_test.go") {
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
					funcs[fn.Name.Name] = fn
				}
			}
		}
	}
	if root := funcs["newRoot"]; root != nil {
		t.addCommand(funcs, root, "", nil)
	}
}

func (t *Tree) addCommand(funcs map[string]*ast.FuncDecl, fn *ast.FuncDecl, parent string, inherited map[string]bool) {
	name := parent
	if use := useOf(fn); use != "treadle" {
		name = strings.TrimSpace(parent + " " + use)
	}
	c := &command{flags: map[string]bool{"help": true, "h": true}}
	for n := range inherited {
		c.flags[n] = true
	}
	t.commands[name] = c
	var subs []*ast.FuncDecl
	seen := map[string]bool{fn.Name.Name: true, "newRoot": true}
	var visit func(*ast.FuncDecl)
	visit = func(fn *ast.FuncDecl) {
		for n := range flagsIn(fn) {
			c.flags[n] = true
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			id, ok := call.Fun.(*ast.Ident)
			if !ok || seen[id.Name] || funcs[id.Name] == nil {
				return true
			}
			seen[id.Name] = true
			if callee := funcs[id.Name]; useOf(callee) != "" {
				subs = append(subs, callee)
			} else {
				visit(callee)
			}
			return true
		})
	}
	visit(fn)
	for _, sub := range subs {
		t.addCommand(funcs, sub, name, c.flags)
	}
}

// useOf returns the name of the cobra.Command that fn builds, or "".
func useOf(fn *ast.FuncDecl) string {
	use := ""
	ast.Inspect(fn, func(n ast.Node) bool {
		if kv, ok := n.(*ast.KeyValueExpr); ok && use == "" {
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Use" {
				use, _, _ = strings.Cut(leftmost(kv.Value), " ")
			}
		}
		return true
	})
	return use
}

// leftmost returns the first string literal of a concatenation.
func leftmost(x ast.Expr) string {
	for {
		b, ok := x.(*ast.BinaryExpr)
		if !ok {
			return literal(x)
		}
		x = b.X
	}
}

// flagsIn returns the names of the flags that n defines by calls such as
// flags.StringVar(&x, "name", ...) and flags.BoolVarP(&x, "name", "n", ...).
func flagsIn(n ast.Node) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !definesFlag.MatchString(sel.Sel.Name) || len(call.Args) < 3 {
			return true
		}
		at := 0
		if strings.Contains(sel.Sel.Name, "Var") || sel.Sel.Name == "Func" {
			at = 1
		}
		names[literal(call.Args[at])] = true
		if strings.HasSuffix(sel.Sel.Name, "P") {
			names[literal(call.Args[at+1])] = true
		}
		return true
	})
	delete(names, "")
	return names
}

var definesFlag = regexp.MustCompile(`^(String|Bool|Int|Int64|Uint|Float64|Duration|StringArray|StringSlice|Text)?(Var)?P?$|^(String|Bool|Int|Int64|Duration)$`)

// read returns the text of a file of the repository.
func (t *Tree) read(name string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(t.root, name))
	return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), err
}
