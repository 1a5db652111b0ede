package docnames

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// A mention is a piece of code in a page.
type mention struct {
	file   string
	line   int
	text   string
	kind   kind
	lang   string          // of a block
	column string          // the header of the table column, or ""
	row    string          // the whole table row, or ""
	before string          // the prose before a span, in its line
	item   string          // the list item in docs/extending.md, or ""
	dir    string          // the folder where a command runs
	locals map[string]bool // the variables of a Go block
}

type kind int

const (
	span  kind = iota // between backticks
	block             // a line of a fenced or indented block
	link              // a doc link of a Go comment, with a name in brackets
	prose             // a line of prose, which is searched for file and variable names
)

// markdown returns the mentions of a Markdown page.
func markdown(file string, text []byte) []mention {
	var found []mention
	var header []string
	fence, lang := "", ""
	var locals map[string]bool
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		at := mention{file: file, line: i + 1}
		if file == "docs/extending.md" {
			at.item = itemAt(lines, i)
		}
		if m := fenceLine.FindStringSubmatch(line); m != nil && (fence == "" || strings.HasPrefix(m[1], fence) && m[2] == "") {
			if fence == "" {
				fence, lang = m[1], m[2]
				locals = map[string]bool{}
			} else {
				fence = ""
			}
			continue
		}
		if fence != "" {
			at.kind = block
			at.lang = lang
			at.text = line
			at.locals = locals
			addLocals(locals, line)
			found = append(found, at)
			continue
		}
		at.kind, at.text = prose, line
		found = append(found, at)
		if !strings.HasPrefix(line, "|") {
			header = nil
			found = append(found, spans(at, line)...)
			continue
		}
		row := cells(line)
		if header == nil {
			header = row
		}
		for c, cell := range row {
			at.row = line
			if c < len(header) {
				at.column = header[c]
			}
			found = append(found, spans(at, cell)...)
		}
	}
	return found
}

// itemAt returns the numbered item of which line i is a part, or "".
func itemAt(lines []string, i int) string {
	from := i
	for from >= 0 && !itemStart.MatchString(lines[from]) {
		if !strings.HasPrefix(lines[from], "   ") {
			return ""
		}
		from--
	}
	if from < 0 {
		return ""
	}
	to := i + 1
	for to < len(lines) && strings.HasPrefix(lines[to], "   ") {
		to++
	}
	return strings.Join(lines[from:to], "\n")
}

var itemStart = regexp.MustCompile(`^[0-9]+\. `)

// addLocals adds the variables and parameters that a line of Go declares.
func addLocals(locals map[string]bool, line string) {
	for _, m := range assigned.FindAllStringSubmatch(line, -1) {
		for name := range strings.SplitSeq(m[1]+m[2]+m[3], ",") {
			locals[strings.TrimSpace(name)] = true
		}
	}
}

var assigned = regexp.MustCompile(`((?:\w+, )*\w+) := |\bvar (\w+)\b|[(,] ?(\w+) \*?[\w.]+[,)]`)

var (
	fenceLine = regexp.MustCompile("^\\s*(```+|~~~+)(\\w*)\\s*$")
	codeSpan  = regexp.MustCompile("`([^`]+)`")
	cellBreak = regexp.MustCompile(`(?:^|[^\\])\|`)
)

// cells splits a table row at its unescaped bars.
func cells(line string) []string {
	var row []string
	line = strings.TrimPrefix(line, "|")
	for line != "" {
		at := cellBreak.FindStringIndex(line)
		if at == nil {
			break
		}
		row = append(row, strings.ReplaceAll(strings.TrimSpace(line[:at[1]-1]), `\|`, "|"))
		line = line[at[1]:]
	}
	return row
}

func spans(at mention, text string) []mention {
	var found []mention
	for _, m := range codeSpan.FindAllStringSubmatchIndex(text, -1) {
		at.kind, at.text, at.before = span, text[m[2]:m[3]], text[:m[0]]
		found = append(found, at)
	}
	return found
}

// packageComment returns the mentions of the package comment of a Go file.
func packageComment(f *goFile) []mention {
	if f.ast.Doc == nil {
		return nil
	}
	var found []mention
	locals := map[string]bool{}
	for _, c := range f.ast.Doc.List {
		addLocals(locals, c.Text)
		found = append(found, commentLine(f, c, locals)...)
	}
	return found
}

// docLinks returns the doc links of all comments of a Go file.
func docLinks(f *goFile) []mention {
	var found []mention
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			found = append(found, commentLine(f, c, nil)...)
		}
	}
	return slices.DeleteFunc(found, func(m mention) bool { return m.kind != link })
}

// commentLine returns the mentions of a line comment.
func commentLine(f *goFile, c *ast.Comment, locals map[string]bool) []mention {
	line, ok := strings.CutPrefix(c.Text, "//")
	at := mention{file: f.path, line: f.fset.Position(c.Pos()).Line, text: line}
	if !ok {
		return nil
	}
	if strings.HasPrefix(line, "\t") {
		at.kind, at.lang, at.locals = block, "go", locals
		return []mention{at}
	}
	at.kind = prose
	found := []mention{at}
	for _, m := range docLink.FindAllStringSubmatchIndex(line, -1) {
		at.kind, at.text = link, strings.TrimPrefix(line[m[2]:m[3]], "*")
		found = append(found, at)
	}
	return found
}

// docLink matches the links of Go comments. A name in brackets after a word is an index or a
// type argument, and a name in brackets before a parenthesis or colon is not a link.
var docLink = regexp.MustCompile(`(?:^|[\s("'])\[(\*?[A-Za-z_][\w./]*)\](?:[^(:\w]|$)`)
