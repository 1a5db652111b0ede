package docnames

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	chain     = regexp.MustCompile(`[\pL_][\pL\d_]*(?:\[[^\]\s]*\])?(?:\.[\pL_][\pL\d_]*)+`)
	quoted    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|//.*`)
	typeArgs  = regexp.MustCompile(`\[[^\]]*\]`)
	oneName   = regexp.MustCompile(`^(?:\*|\[\])*([A-Za-z_][A-Za-z0-9_]*)(?:\[.*\])?(?:[({].*[)}])?$`)
	camelCase = regexp.MustCompile(`^[a-z]+[0-9]*[A-Z][A-Za-z0-9]*$`)
)

// checkIdentifiers checks a span that is an identifier or an expression.
func (c *checker) checkIdentifiers(m mention, text string) {
	if c.checkQualified(m, text) {
		return
	}
	found := oneName.FindStringSubmatch(text)
	if found == nil {
		return
	}
	name := found[1]
	if !exported(name) && !camelCase.MatchString(name) || c.declared(name) || c.literals[name] || !exported(name) && c.scripts[name] {
		return
	}
	c.report(m, "name", name, c.names())
}

// checkQualified checks the identifiers of a line that have a qualifier. It reports whether
// there are any.
func (c *checker) checkQualified(m mention, text string) bool {
	text = quoted.ReplaceAllString(text, `""`)
	found := false
	for _, at := range chain.FindAllStringIndex(text, -1) {
		name := typeArgs.ReplaceAllString(text[at[0]:at[1]], "")
		before := text[:at[0]]
		if strings.HasSuffix(before, ".") || strings.HasSuffix(before, "/") || strings.HasSuffix(before, "-") {
			continue // the rest of a call chain or of a path
		}
		found = true
		c.checkChain(m, strings.Split(name, "."))
	}
	return found
}

func (c *checker) checkChain(m mention, parts []string) {
	name := strings.Join(parts, ".")
	switch packages := c.byName[parts[0]]; {
	case m.locals[parts[0]]:
	case exported(parts[0]):
		c.checkType(m, parts)
	case c.imported[parts[0]] && !slices.ContainsFunc(packages, public):
		// a package of another module
	case len(packages) > 0 && exported(parts[1]):
		c.checkIn(m, packages, name, parts[1:])
	case len(packages) > 0 || m.kind == block:
		// a path in JSON, or a variable of a block
	default: // a variable
		for _, p := range parts[1:] {
			if exported(p) && !isCapitals.MatchString(p) && !c.members[p] && !c.declared(p) {
				c.report(m, "method or field", name, keys(c.members))
				return
			}
		}
	}
}

// checkType checks Type.Member, where any package declares Type.
func (c *checker) checkType(m mention, parts []string) {
	name := strings.Join(parts, ".")
	var known []string
	typed := false
	for _, p := range c.packages {
		if p.decls[parts[0]] == nil {
			continue
		}
		r := ref{p.dir, parts[0]}
		typed = true
		if c.has(r, parts[1]) {
			return
		}
		for _, member := range c.membersOf(r) {
			known = append(known, parts[0]+"."+member)
		}
	}
	if !typed {
		known = c.names()
	}
	c.report(m, "name", name, known)
}

// checkIn checks a name, or a type and its member, in any of the packages.
func (c *checker) checkIn(m mention, packages []*pkg, name string, parts []string) {
	var known []string
	for _, p := range packages {
		d := p.decls[parts[0]]
		switch {
		case p.tests[parts[0]], d != nil && len(parts) == 1:
			return
		case d != nil && (c.has(ref{p.dir, parts[0]}, parts[1]) || len(d.members)+len(d.embedded) == 0):
			return
		case d != nil:
			for _, member := range c.membersOf(ref{p.dir, parts[0]}) {
				known = append(known, strings.TrimSuffix(name, parts[1])+member)
			}
		}
		for n := range p.decls {
			if exported(n) {
				known = append(known, p.name+"."+n)
			}
		}
		for n := range p.tests {
			known = append(known, p.name+"."+n)
		}
	}
	c.report(m, "name", name, known)
}

// checkLink checks a doc link of a package comment.
func (c *checker) checkLink(m mention) {
	p := c.packages[path.Dir(m.file)]
	folder, name := path.Split(m.text)
	parts := strings.Split(name, ".")
	switch {
	case folder != "":
		dir, ours := dirOf(folder + parts[0])
		if q := c.packages[dir]; ours && q == nil {
			c.report(m, "package", m.text, nil)
		} else if ours && len(parts) > 1 {
			c.checkIn(m, []*pkg{q}, m.text, parts[1:])
		}
	case isCapitals.MatchString(parts[0]) && strings.Contains(parts[0], "_"):
		// text in brackets
	case exported(parts[0]):
		c.checkIn(m, []*pkg{p}, m.text, parts)
	case len(parts) > 1:
		c.checkChain(m, parts)
	}
}

// public reports whether other modules can import p.
func public(p *pkg) bool {
	return !slices.Contains(strings.Split(p.dir, "/"), "internal")
}

// declared reports whether any package declares name at top level, as a member, or as a test.
func (c *checker) declared(name string) bool {
	if c.members[name] {
		return true
	}
	for _, p := range c.packages {
		if p.decls[name] != nil || p.tests[name] {
			return true
		}
	}
	return false
}

// names returns all declared names.
func (c *checker) names() []string {
	all := maps.Clone(c.members)
	for _, p := range c.packages {
		for n := range p.decls {
			all[n] = true
		}
		for n := range p.tests {
			all[n] = true
		}
	}
	return keys(all)
}

func exported(name string) bool {
	r, _ := utf8.DecodeRuneInString(name)
	return unicode.IsUpper(r)
}

func keys[V any](m map[string]V) []string { return slices.Collect(maps.Keys(m)) }

func prefixed[V any](prefix string, m map[string]V) []string {
	names := keys(m)
	for i := range names {
		names[i] = prefix + names[i]
	}
	return names
}
