// Package docnames checks that the names in the documentation exist.
//
// It reads the code spans and code blocks of README.md, CONTRIBUTING.md, and docs, the package
// comments in doc.go files, and the doc links of all other comments, and resolves what they name
// in the source of all modules: identifiers, files and folders, flags and subcommands, make
// targets, environment variables, metrics, and HTTP endpoints.
//
// Names of other software are recognized by their place, in this order: the language of a block
// (Python, JavaScript), the column of a table whose header names other software, a phrase such
// as "LangGraph's" before a span, the package of an identifier, and finally the list in
// allow.go, which gives a reason for each name. A name on that list that no page uses is
// an error too.
package docnames

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/internal/near"
)

// A Problem is a name that does not exist.
type Problem struct {
	File string
	Line int
	Text string
}

func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text) }

// Check returns the names in the documentation that the tree does not declare, in order.
func (t *Tree) Check() ([]Problem, error) {
	c := &checker{Tree: t, used: map[string]bool{}}
	for name := range t.files {
		switch f := t.source[name]; {
		case isPage(name):
			text, err := t.read(name)
			if err != nil {
				return nil, err
			}
			c.check(markdown(name, text))
		case f == nil || strings.HasSuffix(name, "_test.go") || t.packages[path.Dir(name)] == nil:
		case path.Base(name) == "doc.go":
			c.check(packageComment(f))
			c.checkFileList(f)
		default:
			c.check(docLinks(f))
		}
	}
	for name := range allowed {
		if !c.used[name] {
			c.found = append(c.found, Problem{"internal/test/docnames/allow.go", 1, fmt.Sprintf("%q is allowed, but no page uses it: remove it", name)})
		}
	}
	return c.problems(), nil
}

// isPage reports whether a file is a checked Markdown page.
func isPage(name string) bool {
	return slices.Contains([]string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"}, name) || strings.HasPrefix(name, "docs/") && path.Ext(name) == ".md"
}

// problems returns the problems found, in order and without duplicates.
func (c *checker) problems() []Problem {
	slices.SortFunc(c.found, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(c.found)
}

type checker struct {
	*Tree
	found []Problem
	used  map[string]bool // names of the allow list
}

func (c *checker) check(mentions []mention) {
	dir := "" // where the commands of a block run
	for _, m := range mentions {
		for _, v := range variable.FindAllString(m.text, -1) {
			if !c.words[v] {
				c.report(m, "environment variable", v, keys(c.words))
			}
		}
		if foreign(m) {
			continue
		}
		switch m.kind {
		case prose:
			if strings.HasSuffix(m.file, ".go") {
				c.checkFileNames(m)
			}
		case link:
			c.checkLink(m)
		case block:
			m.dir = cmp.Or(dir, guides[m.file])
			dir = c.checkBlock(m)
			continue
		case span:
			c.checkSpan(m)
			c.checkItem(m)
		}
		dir = ""
	}
}

var variable = regexp.MustCompile(`\bTREADLE_[A-Z_]*[A-Z]`)

// report adds a problem unless the name is allowed.
func (c *checker) report(m mention, what, name string, known []string) {
	if _, ok := allowed[name]; ok {
		c.used[name] = true
		return
	}
	slices.Sort(known)
	hint := near.Hint(name, known)
	if i := slices.IndexFunc(known, func(k string) bool { return strings.HasSuffix(k, "/"+name) }); i >= 0 { // a moved file
		hint = fmt.Sprintf(": did you mean %q?", known[i])
	}
	c.found = append(c.found, Problem{m.file, m.line, fmt.Sprintf("unknown %s %q%s", what, name, hint)})
}

// foreign reports whether m is in a place for names of other software.
func foreign(m mention) bool {
	switch m.kind {
	case block:
		return m.lang == "python" || m.lang == "nginx"
	case span:
		return foreignColumns[m.column] || foreignColumns[m.file+": "+m.column] || foreignPhrase.MatchString(m.before) || strings.Contains(m.row, "not supported: ")
	}
	return false
}

// foreignPhrase matches prose before a span that names another program's part.
var foreignPhrase = regexp.MustCompile(`(?:LangGraph|LangGraph\.js|LangChain|LangMem|LangSmith|eino|Python|JavaScript|npm|PyPI|mem0|Letta|upstream)(?:'s|’s)?(?: [a-z]+){0,2} \(?$`)

func (c *checker) checkSpan(m mention) {
	text := strings.TrimSpace(m.text)
	switch {
	case c.files[text], strings.HasPrefix(text, "//"):
	case isCommand.MatchString(text):
		c.checkShell(m, text)
	case isEndpoint.MatchString(text):
		method, rest, _ := strings.Cut(text, " ")
		c.checkRoute(m, method, strings.TrimSpace(rest))
	case strings.HasPrefix(text, "/"):
		c.checkRoute(m, "", text)
	case isFlag.MatchString(text):
		found := isFlag.FindStringSubmatch(text)
		c.checkFlag(m, found[1], found[2])
	case isPath(text):
		c.checkPath(m, text)
	case isCapitals.MatchString(text):
		if !c.words[text] {
			c.report(m, "name in capitals", text, keys(c.words))
		}
	case isMetric.MatchString(text):
		c.checkMetric(m, text)
	default:
		c.checkIdentifiers(m, text)
	}
}

var (
	isCommand  = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*(?:treadle|make|\./[a-z]+|go (?:test|run|vet|build|install)|cd|\.ci/\w+)(?: |$)`)
	isEndpoint = regexp.MustCompile(`^(?:GET|POST|PUT|PATCH|DELETE) /`)
	isFlag     = regexp.MustCompile(`^(--?)([a-z][a-z-]*)(?:[ =].*)?$`)
	isCapitals = regexp.MustCompile(`^[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)*$`)
	isMetric   = regexp.MustCompile(`^(?:treadle\.[a-z]|treadle_[a-z]|gen_ai\.)[\w.*]*$`)
)

// checkBlock checks a line of a block and returns the folder where the next line runs.
func (c *checker) checkBlock(m mention) string {
	line := strings.TrimSpace(m.text)
	switch m.lang {
	case "sh":
		line, _, _ = strings.Cut(line, " # ")
		return c.checkShell(m, line)
	case "go":
		if isCommand.MatchString(line) {
			c.checkCommand(m, line)
			break
		}
		c.checkQualified(m, line)
	}
	return ""
}

// checkShell checks the commands of a line and returns the folder where it ends.
func (c *checker) checkShell(m mention, line string) string {
	if inner, ok := strings.CutPrefix(line, "("); ok { // a subshell, whose folder ends with it
		c.checkShell(m, strings.TrimSuffix(inner, ")"))
		return m.dir
	}
	for _, part := range shellBreak.Split(line, -1) {
		part = strings.TrimSpace(part)
		if dir, ok := strings.CutPrefix(part, "cd "); ok && c.files[path.Clean(dir)] {
			m.dir = path.Clean(dir)
		}
		if isCommand.MatchString(part) {
			c.checkCommand(m, part)
		}
	}
	return m.dir
}

var shellBreak = regexp.MustCompile(`&&|;| \| | > `)

// checkCommand checks a shell command: variables, paths, patterns of tests, make targets, and
// the subcommands and flags of treadle.
func (c *checker) checkCommand(m mention, text string) {
	words := strings.Fields(text)
	for len(words) > 0 && strings.Contains(words[0], "=") {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	switch name, args := words[0], words[1:]; {
	case name == "make":
		for _, a := range args {
			v, _, assigns := strings.Cut(a, "=")
			if assigns && !c.words[v] || !assigns && isWord.MatchString(a) && !c.targets[a] {
				c.report(m, "make target", a, keys(c.targets))
			}
		}
	case name == "treadle":
		c.checkTreadle(m, args)
	case name == "go" && len(args) > 0 && args[0] == "test":
		c.checkGoTest(m, args[1:])
	case name == "go" && len(args) > 1 && args[0] == "run" && args[1] == "./cmd/treadle":
		c.checkTreadle(m, args[2:])
	case name == "go" && len(args) > 1:
		program := ""
		for _, a := range args[1:] {
			if a == "." || strings.HasPrefix(a, "./") || strings.HasPrefix(a, modulePath) {
				program = strings.Join(c.checkPackage(m, a), " ")
			} else if f := anyFlag.FindStringSubmatch(a); f != nil && c.programs[program] != nil && !c.programs[program][f[1]] {
				c.report(m, "flag of "+program, a, prefixed("-", c.programs[program]))
			}
		}
	case strings.HasPrefix(name, ".ci/"):
		c.checkPath(m, name)
	case strings.HasPrefix(name, "./") && guides[m.file] != "": // a server that the guide builds
		for _, a := range args {
			if f := anyFlag.FindStringSubmatch(a); f != nil && f[1] != "help" && !c.flags[f[1]] {
				c.report(m, "flag of "+name, a, prefixed("--", c.flags))
			}
		}
	}
}

var isWord = regexp.MustCompile(`^[a-z][a-z-]*$`)

func (c *checker) checkTreadle(m mention, args []string) {
	name := ""
	for len(args) > 0 && isWord.MatchString(args[0]) && c.commands[strings.TrimSpace(name+" "+args[0])] != nil {
		name, args = strings.TrimSpace(name+" "+args[0]), args[1:]
	}
	if name == "" && len(args) > 0 && isWord.MatchString(args[0]) && args[0] != "help" {
		c.report(m, "subcommand of treadle", args[0], keys(c.commands))
		return
	}
	for _, a := range args {
		if a == "--" { // the rest is for the server program
			name = "dev"
			continue
		}
		f := anyFlag.FindStringSubmatch(a)
		if f == nil {
			continue
		}
		cmd := c.commands[name]
		if !cmd.flags[f[1]] && (name != "dev" || !c.flags[f[1]]) && (name != "" || f[1] != "version") {
			c.report(m, "flag of treadle "+name, "--"+f[1], prefixed("--", cmd.flags))
		}
	}
}

var anyFlag = regexp.MustCompile(`^--?([a-z][a-z-]*)`)

// checkGoTest checks the packages of a go test command, and that the patterns of -run and
// -bench match a test in one of them.
func (c *checker) checkGoTest(m mention, args []string) {
	var dirs []string
	patterns := map[string]string{}
	for i, a := range args {
		switch {
		case (a == "-run" || a == "-bench") && i+1 < len(args):
			patterns[a] = strings.Trim(args[i+1], `'"`)
		case a == ".", strings.HasPrefix(a, "./"):
			dirs = append(dirs, c.checkPackage(m, a)...)
		}
	}
	if len(dirs) == 0 {
		dirs = []string{path.Clean(m.dir)}
	}
	for flag, pattern := range patterns {
		first, _, _ := strings.Cut(pattern, "/")
		re, err := regexp.Compile(first)
		if err != nil || first == "." || first == "^$" || patterns["-bench"] != "" && flag == "-run" {
			continue // matches all tests, or none on purpose
		}
		var names []string
		for _, dir := range dirs {
			if p := c.packages[dir]; p != nil {
				names = append(names, keys(p.tests)...)
			}
		}
		if len(names) > 0 && !slices.ContainsFunc(names, re.MatchString) {
			c.report(m, "test in "+strings.Join(dirs, " "), first, names)
		}
	}
}

// checkPackage checks a package pattern and returns its directories.
func (c *checker) checkPackage(m mention, pattern string) []string {
	pattern, _, _ = strings.Cut(pattern, "@")
	dir := strings.TrimPrefix(strings.TrimPrefix(pattern, modulePath), "/")
	if dir = strings.TrimPrefix(dir, "./"); guides[m.file] != m.dir || c.packages[dir] == nil { // a guide also runs our commands
		dir = path.Join(m.dir, dir)
	}
	prefix, all := strings.CutSuffix(dir, "...")
	if !all {
		if c.packages[dir] == nil && !c.files[dir] {
			c.report(m, "package", pattern, prefixed("./", c.packages))
		}
		return []string{dir}
	}
	var dirs []string
	for d := range c.packages {
		if strings.HasPrefix(d+"/", prefix) {
			dirs = append(dirs, d)
		}
	}
	if len(dirs) == 0 {
		c.report(m, "package", pattern, prefixed("./", c.packages))
	}
	return dirs
}

func (c *checker) checkFlag(m mention, dashes, name string) {
	if c.flags[name] || c.scripts["--"+name] || dashes == "-" && goFlags[name] {
		return
	}
	for _, cmd := range c.commands {
		if cmd.flags[name] {
			return
		}
	}
	known := prefixed("--", c.flags)
	for _, cmd := range c.commands {
		known = append(known, prefixed("--", cmd.flags)...)
	}
	c.report(m, "flag", dashes+name, known)
}

// checkItem checks an identifier in a list item of docs/extending.md: one of the Go files that
// the item names must contain it.
func (c *checker) checkItem(m mention) {
	name := oneName.FindStringSubmatch(m.text)
	if m.item == "" || name == nil || c.files[m.text] || c.byName[name[1]] != nil || c.imported[name[1]] {
		return
	}
	var named []string
	for _, s := range codeSpan.FindAllStringSubmatch(m.item, -1) {
		file := strings.TrimSuffix(s[1], "/")
		if f := c.source[file]; f != nil {
			named = append(named, file)
			if f.mentions(name[1]) {
				return
			}
		}
	}
	if len(named) > 0 && !c.literals[name[1]] {
		c.report(m, "name in "+strings.Join(named, " or "), name[1], nil)
	}
}

func (c *checker) checkRoute(m mention, method, text string) {
	text, _, _ = strings.Cut(text, "?")
	text = strings.TrimSuffix(text, "…")
	if method == "" && c.literals[text] {
		return // a path that the server handles outside its table
	}
	known := make([]string, 0, len(c.routes))
	for _, r := range c.routes {
		if method == "" && strings.HasPrefix(r.path, text+"/") || (method == "" || method == r.method) && samePath(r.path, text) {
			return
		}
		known = append(known, r.path)
	}
	what := "endpoint"
	if method != "" {
		what += " of " + method
	}
	c.report(m, what, text, known)
}

// samePath reports whether path is a route, or a prefix of one if it ends with a slash. A
// parameter matches any segment, so {id} and {thread_id} are the same.
func samePath(route, path string) bool {
	r, p := strings.Split(strings.Trim(route, "/"), "/"), strings.Split(strings.Trim(path, "/"), "/")
	if len(p) > len(r) || len(p) < len(r) && !strings.HasSuffix(path, "/") {
		return false
	}
	for i := range p {
		if r[i] != p[i] && !strings.HasPrefix(r[i], "{") {
			return false
		}
	}
	return true
}

func (c *checker) checkMetric(m mention, text string) {
	prefix, pattern := strings.CutSuffix(text, "*")
	if strings.HasSuffix(text, ".") {
		prefix, pattern = text, true
	}
	starts := func(l string) bool { return strings.HasPrefix(l, prefix) }
	convention := strings.NewReplacer(".", "", "_", "").Replace(text)
	if c.literals[text] || c.asserted[text] || c.conventions[convention] || pattern && (slices.ContainsFunc(keys(c.literals), starts) || slices.ContainsFunc(keys(c.asserted), starts)) {
		return
	}
	var known []string
	for l := range c.literals {
		if isMetric.MatchString(l) {
			known = append(known, l)
		}
	}
	c.report(m, "metric or attribute", text, known)
}

// isPath reports whether a span looks like a file or folder.
func isPath(text string) bool {
	return !strings.ContainsAny(text, " ()<>=:,'\"") && (strings.Contains(text, "/") || fileName.MatchString(text))
}

var fileName = regexp.MustCompile(`^[\w.-]+\.(?:go|md|mod|sum|work|json|ts|tsx|js|mjs|py|sh|yml|yaml|toml|txt|sql|db)$`)

// checkPath checks a path from the root, from the page's folder, or, for the name of a file
// alone, of any file.
func (c *checker) checkPath(m mention, text string) {
	name := strings.TrimSuffix(strings.TrimPrefix(text, "./"), "/")
	if strings.HasSuffix(name, "/...") {
		c.checkPackage(m, "./"+name)
		return
	}
	if dir, ours := dirOf(name); ours {
		name = dir
	}
	folder := path.Dir(m.file)
	for _, from := range []string{".", folder, cmp.Or(guides[m.file], ".")} {
		if at := path.Join(from, name); c.files[at] || strings.Contains(name, "*") && c.matches(at) {
			return
		}
	}
	first, _, deep := strings.Cut(name, "/")
	if !deep {
		if goFile := strings.HasSuffix(name, ".go"); !goFile && (c.literals[name] || c.asserted[name]) {
			return // a file of users
		}
		if len(c.bases[name]) == 0 || path.Base(m.file) == "doc.go" || strings.HasSuffix(name, ".go") && contributors[m.file] {
			c.report(m, "file", text, append(c.siblings(folder), keys(c.bases)...))
		}
		return
	}
	// pkg/sub.Name is an identifier with the path of its package.
	if dir, id, ok := strings.Cut(path.Base(name), "."); ok && c.packages[path.Join(path.Dir(name), dir)] != nil && !fileName.MatchString(path.Base(name)) {
		p := c.packages[path.Join(path.Dir(name), dir)]
		c.checkIn(m, []*pkg{p}, text, strings.Split(id, "."))
		return
	}
	if !c.files[first] && !fileName.MatchString(path.Base(name)) && !c.isFolder(first) {
		return // media types, module paths, and namespaces
	}
	known := slices.DeleteFunc(keys(c.files), func(f string) bool { return path.Base(f) != path.Base(name) })
	if len(known) == 0 {
		known = keys(c.files)
	}
	c.report(m, "path", text, known)
}

// contributors are pages that name files from the root only.
var contributors = map[string]bool{"docs/extending.md": true, "docs/testing.md": true, "CONTRIBUTING.md": true}

func (c *checker) isFolder(base string) bool {
	for dir := range c.packages {
		if path.Base(dir) == base {
			return true
		}
	}
	return false
}

func (c *checker) matches(pattern string) bool {
	for f := range c.files {
		if ok, _ := path.Match(pattern, f); ok {
			return true
		}
	}
	return false
}

func (c *checker) siblings(folder string) []string {
	var names []string
	for f := range c.files {
		if path.Dir(f) == folder {
			names = append(names, path.Base(f))
		}
	}
	return names
}

// checkFileNames checks the Go files that a package comment names.
func (c *checker) checkFileNames(m mention) {
	for _, name := range goFileName.FindAllString(m.text, -1) {
		if strings.Contains(m.text, "/"+name) && !strings.Contains(name, "/") {
			continue
		}
		c.checkPath(m, name)
	}
}

// checkFileList checks that the list under "# Files" of a package comment is complete.
func (c *checker) checkFileList(f *goFile) {
	_, list, ok := strings.Cut(string(f.text), "// # Files\n")
	if !ok {
		return
	}
	for _, name := range c.siblings(path.Dir(f.path)) {
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && name != "doc.go" && !strings.Contains(list, "\t"+name+" ") {
			c.found = append(c.found, Problem{f.path, f.fset.Position(f.ast.Package).Line, fmt.Sprintf("the list of files lacks %s: add it", name)})
		}
	}
}

var goFileName = regexp.MustCompile(`\b[a-z][\w/]*\.go\b`)
