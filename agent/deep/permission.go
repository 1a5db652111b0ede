package deep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/internal/near"
)

// Mode controls what a [Permission] does with a call.
type Mode string

// Modes of permissions.
const (
	Allow Mode = "allow"
	Deny  Mode = "deny"
	// Confirm asks a person before the call runs. The question shows the path and, for a
	// write, the difference between the old file and the new one.
	Confirm Mode = "ask"
)

// Operations of file tools, for [Permission].Ops.
const (
	OpRead  = "read"  // ls, read_file, glob, and grep
	OpWrite = "write" // write_file, edit_file, and delete
)

// Permission is a rule about paths. The first rule that matches a path and a tool
// decides; without one, the call is allowed.
//
// A file that may not be read, or to which the tool is denied, is absent from the results of
// ls, glob, and grep. These tools ask if their directory contains, or is in, the directory of a
// rule with Confirm. Grep shows the content of files, so rules about read_file apply to it, too.
// Deleting a directory requires the permission to delete each of its files.
type Permission struct {
	// Paths lists patterns of absolute paths, such as "/secrets/**"; see
	// [files.CompileRule].
	Paths []string
	// Ops lists [OpRead], [OpWrite], or names of file tools; empty means all.
	Ops  []string
	Mode Mode
}

// Names of the file tools.
const (
	toolList   = "ls"
	toolRead   = "read_file"
	toolWrite  = "write_file"
	toolEdit   = "edit_file"
	toolDelete = "delete"
	toolGlob   = "glob"
	toolGrep   = "grep"
)

var (
	readTools  = []string{toolList, toolRead, toolGlob, toolGrep}
	writeTools = []string{toolWrite, toolEdit, toolDelete}
	fileTools  = slices.Concat([]string{toolList, toolRead, toolWrite, toolEdit, toolDelete}, []string{toolGlob, toolGrep})
)

// rule is a compiled Permission.
type rule struct {
	paths []*files.Pattern
	tools []string
	mode  Mode
}

// policy is a list of rule lists. A call must be allowed by each of the lists: those of
// the agent and of the agents that it works for.
type policy [][]rule

type policyKey struct{}

// withPolicy adds an agent's rules to those of the agents that it works for. Sub-agents and
// their tools inherit the context of the call of the tool task.
func withPolicy(ctx context.Context, p policy) context.Context {
	if len(p) == 0 {
		return ctx
	}
	return context.WithValue(ctx, policyKey{}, slices.Concat(p, policyFrom(ctx)))
}

// policyFrom returns the rules for a call.
func policyFrom(ctx context.Context) policy {
	p, _ := ctx.Value(policyKey{}).(policy)
	return p
}

// compilePolicy reports misspelled patterns, operations, and modes.
func compilePolicy(all []Permission) (policy, error) {
	var out []rule
	var errs []error
	known := slices.Concat([]string{OpRead, OpWrite}, fileTools)
	for i, p := range all {
		r := rule{mode: p.Mode}
		if !slices.Contains([]Mode{Allow, Deny, Confirm}, p.Mode) {
			errs = append(errs, fmt.Errorf("permission %d: invalid mode %q: want %s, %s, or %s", i, p.Mode, Allow, Deny, Confirm))
		}
		if len(p.Paths) == 0 {
			errs = append(errs, fmt.Errorf("permission %d: no paths", i))
		}
		for _, text := range p.Paths {
			pattern, err := files.CompileRule(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("permission %d: %w", i, err))
				continue
			}
			r.paths = append(r.paths, pattern)
		}
		for _, op := range p.Ops {
			switch {
			case op == OpRead:
				r.tools = append(r.tools, readTools...)
			case op == OpWrite:
				r.tools = append(r.tools, writeTools...)
			case slices.Contains(fileTools, op):
				r.tools = append(r.tools, op)
			default:
				errs = append(errs, fmt.Errorf("permission %d: unknown operation %q: want some of %q%s", i, op, known, near.Hint(op, known)))
			}
		}
		if len(p.Ops) == 0 {
			r.tools = fileTools
		}
		out = append(out, r)
	}
	if out == nil {
		return nil, errors.Join(errs...)
	}
	return policy{out}, errors.Join(errs...)
}

// mode returns the decision of the rules about a tool and a path. Deny precedes Confirm.
func (p policy) mode(tool, path string) Mode {
	out := p.modeOf(tool, path)
	if tool == toolGrep && out != Deny {
		if read := p.modeOf(toolRead, path); read != Allow {
			return read
		}
	}
	return out
}

// modeOf is like mode, but applies only the rules that name the tool.
func (p policy) modeOf(tool, path string) Mode {
	out := Allow
	for _, rules := range p {
		for _, r := range rules {
			if !slices.Contains(r.tools, tool) || !slices.ContainsFunc(r.paths, func(pat *files.Pattern) bool { return pat.Match("/", path) }) {
				continue
			}
			if r.mode == Deny {
				return Deny
			}
			if r.mode == Confirm {
				out = Confirm
			}
			break
		}
	}
	return out
}

// asksBelow reports whether a search of dir may see a file for which a rule asks.
func (p policy) asksBelow(tool, dir string) bool {
	for _, rules := range p {
		for _, r := range rules {
			if r.mode != Confirm || !slices.Contains(r.tools, tool) && (tool != toolGrep || !slices.Contains(r.tools, toolRead)) {
				continue
			}
			if slices.ContainsFunc(r.paths, func(pat *files.Pattern) bool {
				return files.Below(dir, pat.Anchor()) || files.Below(pat.Anchor(), dir)
			}) {
				return true
			}
		}
	}
	return false
}

// hides reports whether a tool must omit a path from a listing.
func (p policy) hides(tool, path string) bool {
	return len(p) > 0 && (p.mode(tool, path) == Deny || p.modeOf(toolRead, path) == Deny)
}

// denied returns the result of a call that a rule denies.
func denied(tool, path string) string {
	return fmt.Sprintf("Permission denied: %s must not be used on %s. Do not try other ways to reach this path.", tool, path)
}

// diff returns the lines that change from one text to another, with three lines of
// context. It does not search for moved lines.
func diff(path, before, after string) string {
	const context, most = 3, 400
	a, b := lines(before), lines(after)
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	var out strings.Builder
	fmt.Fprintf(&out, "--- %[1]s\n+++ %[1]s\n", visibleLine(path))
	from, to := max(0, start-context), min(len(a), len(a)-end+context)
	fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@\n", from+1, to-from, from+1, to-from+len(b)-len(a))
	n := 0
	show := func(mark string, lines []string) {
		for _, line := range lines {
			if n++; n <= most {
				out.WriteString(mark + visibleLine(line) + "\n")
			}
		}
	}
	show(" ", a[from:start])
	show("-", a[start:len(a)-end])
	show("+", b[start:len(b)-end])
	show(" ", a[len(a)-end:to])
	if n > most {
		fmt.Fprintf(&out, "… %d more lines\n", n-most)
	}
	return out.String()
}

// visibleLine returns a line of a file as a person should see it: if characters would hide or
// reorder a part of it, it is quoted.
func visibleLine(line string) string {
	if strings.ContainsFunc(strings.TrimSuffix(line, "\r"), func(r rune) bool {
		return r != '\t' && unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) || r == unicode.ReplacementChar
	}) {
		return fmt.Sprintf("%q", line)
	}
	return line
}

// lines splits a text. The last line of a file without a final newline is marked.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	out := strings.Split(text, "\n")
	if last := len(out) - 1; out[last] == "" {
		return out[:last]
	}
	out[len(out)-1] += " (no newline at the end)"
	return out
}
