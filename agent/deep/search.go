package deep

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/treadle-go/treadle/agent/deep/files"
)

type listArgs struct {
	Path string `json:"path" jsonschema:"absolute path of the directory"`
}

type globArgs struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path,omitempty" jsonschema:"absolute path of the directory to search; / if omitted"`
}

type grepArgs struct {
	Pattern string `json:"pattern" jsonschema:"the text to find; it is not a regular expression"`
	Path    string `json:"path,omitempty" jsonschema:"absolute path of the directory or file to search; / if omitted"`
	Glob    string `json:"glob,omitempty" jsonschema:"search only files that match this pattern"`
	Mode    string `json:"output_mode,omitempty" enum:"files_with_matches,content,count" default:"files_with_matches"`
	Max     int    `json:"max_count,omitempty" jsonschema:"maximum number of matching lines; 1000 if omitted"`
}

const (
	describeGlob = "Finds files by a pattern: * matches any part of a name, ** any directories, {a,b} alternatives. " +
		"A pattern without a slash matches names in all directories."
	describeGrep = "Finds files that contain a text. The search is case-sensitive and literal. " +
		"output_mode is files_with_matches, content for the lines, or count."
)

const defaultMatches = 1000

func (f *fileSystem) list(ctx context.Context, in listArgs) (any, error) {
	p, err := files.Clean(in.Path)
	if err != nil {
		return explain("", err)
	}
	if out, run, err := permitted(ctx, toolList, p, true); err != nil || !run {
		return out, err
	}
	all, err := f.Backend.List(ctx, p)
	if err != nil {
		return explain(p, err)
	}
	var out []string
	rules := policyFrom(ctx)
	for _, e := range all {
		if rules.hides(toolList, e.Path) {
			continue
		}
		if e.Dir {
			e.Path += "/"
		}
		out = append(out, e.Path)
	}
	if out == nil {
		return p + " is empty.", nil
	}
	return f.cut(out, nil), nil
}

// cut joins lines, at most as many as the limit of a result allows, and adds notes.
func (f *fileSystem) cut(lines, notes []string) string {
	var b strings.Builder
	for i, line := range lines {
		if b.Len()+len(line) > f.ReadLimit {
			notes = append(notes, fmt.Sprintf("%d more lines omitted: narrow the search.", len(lines)-i))
			break
		}
		b.WriteString(line + "\n")
	}
	for _, n := range notes {
		b.WriteString("[" + n + "]\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// search calls visit for the files below dir that match pattern and that the tool may show. It
// returns notes about files that were not searched.
func (f *fileSystem) search(ctx context.Context, tool, dir string, pattern *files.Pattern, visit func(ctx context.Context, e files.Entry) (more bool, err error)) (notes []string, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, f.SearchTimeout, errSearchTime)
	defer cancel()
	rules, unread := policyFrom(ctx), 0
	for e, err := range f.Backend.Walk(limited, dir) {
		if limited.Err() != nil {
			break
		}
		if err != nil {
			if e.Path == dir {
				return nil, err
			}
			unread++
			continue
		}
		if rules.hides(tool, e.Path) || pattern != nil && !pattern.Match(dir, e.Path) {
			continue
		}
		more, err := visit(limited, e)
		if err != nil && limited.Err() == nil {
			unread++
		}
		if !more {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if limited.Err() != nil {
		notes = append(notes, fmt.Sprintf("The search stopped after %v: narrow it.", f.SearchTimeout))
	}
	if unread > 0 {
		notes = append(notes, fmt.Sprintf("%d files or directories could not be read. Searching again will not help.", unread))
	}
	return notes, nil
}

var errSearchTime = errors.New("deep: search timeout")

func (f *fileSystem) glob(ctx context.Context, in globArgs) (any, error) {
	dir, err := files.Clean(in.Path)
	if err != nil {
		return explain("", err)
	}
	pattern, err := files.Compile(strings.ReplaceAll(in.Pattern, `\`, "/"))
	if err != nil {
		return explain("", err)
	}
	if strings.HasPrefix(in.Pattern, "/") {
		dir = "/" // an absolute pattern
	}
	if out, run, err := permitted(ctx, toolGlob, dir, true); err != nil || !run {
		return out, err
	}
	var found []string
	notes, err := f.search(ctx, toolGlob, dir, pattern, func(_ context.Context, e files.Entry) (bool, error) {
		found = append(found, e.Path)
		return true, nil
	})
	if err != nil {
		return explain(dir, err)
	}
	if found == nil && notes == nil {
		return fmt.Sprintf("No files match %s in %s.", in.Pattern, dir), nil
	}
	return f.cut(found, notes), nil
}

var looksRegexp = regexp.MustCompile(`\||\.[*+]|\\[\[\](){}.*+?|dwsbDWS]|\[[^\]]+\][*+]`)

func (f *fileSystem) grep(ctx context.Context, in grepArgs) (any, error) {
	p, err := files.Clean(in.Path)
	if err != nil {
		return explain("", err)
	}
	if in.Pattern == "" {
		return problem("Error: the pattern is empty."), nil
	}
	var glob *files.Pattern
	if in.Glob != "" {
		if glob, err = files.Compile(in.Glob); err != nil {
			return explain("", err)
		}
	}
	if out, run, err := permitted(ctx, toolGrep, p, true); err != nil || !run {
		return out, err
	}
	g := grepper{f: f, grepArgs: in, left: cmp.Or(in.Max, defaultMatches), hidden: len(policyFrom(ctx)) > 0}
	var notes []string
	if e, statErr := files.Stat(ctx, f.Backend, p); statErr == nil && !e.Dir {
		_, err = g.visit(ctx, e)
	} else if notes, err = f.search(ctx, toolGrep, p, glob, g.visit); err == nil && statErr != nil && len(g.out) == 0 {
		return explain(p, statErr)
	}
	if err != nil {
		return explain(p, err)
	}
	return f.cut(g.result(notes)), nil
}

// grepper collects matches.
type grepper struct {
	grepArgs
	f    *fileSystem
	left int // matches until the search stops
	more bool
	// hidden reports whether rules may have hidden matches.
	hidden bool
	big    int // files that are too large
	out    []string
}

// visit searches a file.
func (g *grepper) visit(ctx context.Context, e files.Entry) (bool, error) {
	if e.Size > g.f.FileLimit {
		g.big++
		return true, nil
	}
	raw, err := files.Read(ctx, g.f.Backend, e.Path, g.f.FileLimit)
	if err != nil {
		return true, err
	}
	if !bytes.Contains(raw, []byte(g.Pattern)) || bytes.IndexByte(raw[:min(len(raw), 8000)], 0) >= 0 {
		return true, nil
	}
	n := 0
	for i, line := range strings.Split(string(raw), "\n") {
		if !strings.Contains(line, g.Pattern) {
			continue
		}
		if g.left == 0 {
			g.more = true
			break
		}
		g.left--
		if n++; n == 1 && g.Mode != "count" {
			g.out = append(g.out, e.Path+map[bool]string{true: ":"}[g.Mode == "content"])
		}
		if g.Mode == "content" {
			if line = strings.TrimSuffix(line, "\r"); len(line) > 2000 {
				line = strings.ToValidUTF8(line[:2000], "") + "…"
			}
			g.out = append(g.out, fmt.Sprintf("  %d: %s", i+1, line))
		}
	}
	if g.Mode == "count" && n > 0 {
		g.out = append(g.out, fmt.Sprintf("%s: %d", e.Path, n))
	}
	return !g.more, nil
}

func (g *grepper) result(notes []string) (lines, all []string) {
	if g.more {
		notes = append(notes, "There are more matches: narrow the search.")
	}
	if g.big > 0 {
		notes = append(notes, fmt.Sprintf("%d files were not searched, because they are too large.", g.big))
	}
	if len(g.out) == 0 {
		text := "No matches."
		if looksRegexp.MatchString(g.Pattern) && !g.hidden {
			text += " The pattern is a literal text, not a regular expression."
		}
		g.out = []string{text}
	}
	return g.out, notes
}
