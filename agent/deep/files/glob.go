package files

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// A Pattern matches paths.
//
// A pattern without a slash matches the base name at any depth. Any other pattern matches
// the whole path relative to the directory of the search; a pattern that starts with a
// slash matches the absolute path. "*" matches any part of an element, "**" any number of
// elements, "?" a character, "[abc]" and "[!abc]" a character of a set, and "{a,b}" one of
// several alternatives. Only an element that starts with a dot matches a name that starts
// with a dot, and "**" does not match such names.
type Pattern struct {
	text    string
	forms   [][]string // the elements of each alternative
	base    bool       // matches base names
	hidden  bool       // wildcards match names that start with a dot
	rooted  bool
	literal string // the longest directory that contains all matches
}

// maxForms limits the alternatives of a pattern.
const maxForms = 1000

// Compile returns the pattern of a search.
func Compile(pattern string) (*Pattern, error) {
	return compile(pattern, false)
}

// CompileRule returns a pattern of a permission: it matches the whole absolute path, and
// its wildcards match all names. It must start with a slash.
func CompileRule(pattern string) (*Pattern, error) {
	if !strings.HasPrefix(pattern, "/") {
		return nil, badPattern(pattern, "must start with /")
	}
	return compile(pattern, true)
}

func badPattern(pattern, why string) error {
	return fmt.Errorf("%w: pattern %q: %s", ErrPath, short(pattern), why)
}

func compile(pattern string, hidden bool) (*Pattern, error) {
	switch {
	case pattern == "":
		return nil, badPattern(pattern, "is empty")
	case len(pattern) > MaxPath:
		return nil, badPattern(pattern, fmt.Sprintf("longer than %d bytes", MaxPath))
	case !utf8.ValidString(pattern):
		return nil, badPattern(pattern, "not valid UTF-8")
	}
	p := &Pattern{text: pattern, hidden: hidden, base: !strings.Contains(pattern, "/"), rooted: strings.HasPrefix(pattern, "/")}
	forms, err := expand(pattern)
	if err != nil {
		return nil, err
	}
	for i, form := range forms {
		var elems []string
		for elem := range strings.SplitSeq(strings.Trim(form, "/"), "/") {
			switch elem {
			case "", ".":
				continue
			case "..", "~":
				return nil, badPattern(pattern, fmt.Sprintf("element %q is not supported", elem))
			}
			if _, err := path.Match(matchForm(elem), ""); err != nil {
				return nil, badPattern(pattern, "unclosed [")
			}
			elems = append(elems, elem)
		}
		p.forms = append(p.forms, elems)
		if dir := literal(elems); i == 0 {
			p.literal = dir
		} else {
			p.literal = common(p.literal, dir)
		}
	}
	return p, nil
}

// String returns the pattern as given.
func (p *Pattern) String() string { return p.text }

// Anchor returns the longest literal path that all matches of a rule equal or are below.
func (p *Pattern) Anchor() string { return p.literal }

// literal returns the elements before the first wildcard as a path.
func literal(elems []string) string {
	out := "/"
	for _, e := range elems {
		if strings.ContainsAny(e, `*?[\`) {
			break
		}
		out = path.Join(out, e)
	}
	return out
}

// common returns the longest path that contains both.
func common(a, b string) string {
	for !Below(b, a) {
		a = path.Dir(a)
	}
	return a
}

// expand returns the alternatives of a pattern with braces.
func expand(pattern string) ([]string, error) {
	done, todo := []string(nil), []string{pattern}
	for len(todo) > 0 {
		text := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		open, end, parts := braces(text)
		if open < 0 {
			done = append(done, text)
		} else if end < 0 {
			return nil, badPattern(pattern, "unclosed {")
		}
		for _, part := range parts {
			todo = append(todo, text[:open]+part+text[end+1:])
		}
		if len(done)+len(todo) > maxForms {
			return nil, badPattern(pattern, fmt.Sprintf("more than %d alternatives", maxForms))
		}
	}
	return done, nil
}

// braces finds the first group of braces: its place and its alternatives.
func braces(text string) (open, end int, parts []string) {
	open = strings.IndexByte(text, '{')
	if open < 0 {
		return -1, -1, nil
	}
	depth, from := 0, open+1
	for i := open; i < len(text); i++ {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return open, i, append(parts, text[from:i])
			}
		case ',':
			if depth == 1 {
				parts = append(parts, text[from:i])
				from = i + 1
			}
		}
	}
	return open, -1, nil
}

// matchForm converts an element to the syntax of path.Match, which negates a set with ^ and
// escapes with \.
func matchForm(elem string) string {
	return strings.ReplaceAll(strings.ReplaceAll(elem, `\`, `\\`), "[!", "[^")
}

// Match reports whether the pattern of a search in dir, or of a rule, matches a path.
func (p *Pattern) Match(dir, name string) bool {
	if p.base {
		for _, form := range p.forms {
			if len(form) == 1 && p.element(form[0], path.Base(name)) {
				return true
			}
		}
		return false
	}
	if !p.rooted {
		if !Below(name, dir) {
			return false
		}
		name = strings.TrimPrefix(name, dir)
	}
	elems := strings.FieldsFunc(name, func(r rune) bool { return r == '/' })
	for _, form := range p.forms {
		if p.elements(form, elems) {
			return true
		}
	}
	return false
}

// element matches one element of a path.
func (p *Pattern) element(pattern, name string) bool {
	if !p.hidden && strings.HasPrefix(name, ".") && !strings.HasPrefix(pattern, ".") {
		return false
	}
	if pattern == "**" {
		return true
	}
	ok, _ := path.Match(matchForm(pattern), name) // compile has checked the pattern
	return ok
}

// elements matches the elements of a path. It fills a table, because backtracking over
// several "**" takes exponential time.
func (p *Pattern) elements(pattern, names []string) bool {
	// reach[i] reports whether the pattern so far matches names[:i].
	reach := make([]bool, len(names)+1)
	reach[0] = true
	for _, elem := range pattern {
		next := make([]bool, len(names)+1)
		for i := range reach {
			if elem == "**" {
				next[i] = reach[i] || i > 0 && next[i-1] && p.element(elem, names[i-1])
			} else if i > 0 {
				next[i] = reach[i-1] && p.element(elem, names[i-1])
			}
		}
		reach = next
	}
	return reach[len(names)]
}
