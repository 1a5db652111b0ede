package store

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// path leads from a value to the texts in it; see PutOptions.Index.
type path struct {
	text  string // as given
	steps []step
}

// step leads from a value to values within it.
type step struct {
	kind  stepKind
	key   string   // of stepKey
	index int      // of stepIndex; negative indexes count from the end
	group [][]step // of stepGroup
}

type stepKind int

const (
	stepKey   stepKind = iota
	stepIndex          // one element of an array
	stepEach           // all elements of an array
	stepAll            // all values of an object or elements of an array
	stepGroup          // several paths
)

// parsePath parses a path. The empty path and "$" denote the value itself.
func parsePath(text string) (path, error) {
	if len(text) > maxPath {
		return path{}, fmt.Errorf("has %d bytes: the limit is %d", len(text), maxPath)
	}
	return readPath(text)
}

func readPath(text string) (path, error) {
	rest, dollar := strings.CutPrefix(text, "$")
	if dollar && rest != "" {
		if rest[0] != '.' {
			rest = text // a key that starts with a dollar sign
		} else {
			rest = rest[1:]
		}
	}
	if rest == "" && (dollar || text == "") {
		return path{text: "$"}, nil
	}
	steps, err := parseSteps(rest)
	return path{text, steps}, err
}

func parseSteps(text string) ([]step, error) {
	parts, err := splitOutside(text, '.')
	if err != nil {
		return nil, err
	}
	var steps []step
	for _, part := range parts {
		more, err := parsePart(part)
		if err != nil {
			return nil, err
		}
		steps = append(steps, more...)
	}
	return steps, nil
}

// parsePart parses the part between two dots.
func parsePart(part string) ([]step, error) {
	switch {
	case part == "":
		return nil, errors.New("has an empty part between dots")
	case part == "*":
		return []step{{kind: stepAll}}, nil
	case part[0] == '{':
		return parseGroup(part)
	}
	key, rest, _ := strings.Cut(part, "[")
	var steps []step
	if key != "" {
		steps = append(steps, step{kind: stepKey, key: key})
	}
	if len(key) == len(part) {
		return steps, nil
	}
	for brackets := "[" + rest; brackets != ""; {
		inside, after, ok := strings.Cut(brackets[1:], "]")
		if brackets[0] != '[' || !ok {
			return nil, fmt.Errorf("has a part %q with unbalanced brackets", part)
		}
		brackets = after
		if inside == "*" {
			steps = append(steps, step{kind: stepEach})
			continue
		}
		index, err := strconv.Atoi(inside)
		if err != nil {
			return nil, fmt.Errorf("has an invalid index %q: want a number or *", inside)
		}
		steps = append(steps, step{kind: stepIndex, index: index})
	}
	return steps, nil
}

func parseGroup(part string) ([]step, error) {
	inside, ok := strings.CutSuffix(part[1:], "}")
	if !ok {
		return nil, fmt.Errorf("has a part %q with unbalanced braces", part)
	}
	members, err := splitOutside(inside, ',')
	if err != nil {
		return nil, err
	}
	g := step{kind: stepGroup}
	for _, m := range members {
		steps, err := parseSteps(strings.TrimSpace(m))
		if err != nil {
			return nil, err
		}
		g.group = append(g.group, steps)
	}
	return []step{g}, nil
}

// splitOutside splits text at separators outside braces.
func splitOutside(text string, sep byte) ([]string, error) {
	var parts []string
	depth, start := 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == sep && depth == 0:
			parts = append(parts, text[start:i])
			start = i + 1
		}
		if depth < 0 {
			break
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("has unbalanced braces in %q", text)
	}
	return append(parts, text[start:]), nil
}

// mustPaths parses paths that have already been checked.
func mustPaths(texts []string) []path {
	paths := make([]path, len(texts))
	for i, t := range texts {
		paths[i], _ = readPath(t)
	}
	return paths
}

// maxPath is the maximum length of a path in bytes. Each part of a path is scanned once
// per enclosing group.
const maxPath = 1024

// The limits of the paths of one item. They are far beyond practical use. Without them,
// a path of nested groups, which may come from a client, could run for hours.
const (
	maxTexts = 1000
	maxSteps = 100_000
)

var errTooMany = fmt.Errorf("selects more than %d texts or takes more than %d steps", maxTexts, maxSteps)

// walker follows a path through a value.
type walker struct {
	left  int // steps
	visit func(any) error
}

// walk visits, in order, each value that the steps lead to.
func (w *walker) walk(v any, steps []step) error {
	w.left--
	if w.left < 0 {
		return errTooMany
	}
	if len(steps) == 0 {
		return w.visit(v)
	}
	s, rest := steps[0], steps[1:]
	switch s.kind {
	case stepGroup:
		return w.walkGroup(v, s.group, rest)
	case stepKey:
		if object, ok := v.(map[string]any); ok {
			if v, ok := object[s.key]; ok {
				return w.walk(v, rest)
			}
		}
	case stepIndex:
		array, _ := v.([]any)
		i := s.index
		if i < 0 {
			i += len(array)
		}
		if i >= 0 && i < len(array) {
			return w.walk(array[i], rest)
		}
	default:
		return w.walkEach(v, s.kind, rest)
	}
	return nil
}

func (w *walker) walkGroup(v any, group [][]step, rest []step) error {
	for _, g := range group {
		if err := w.walk(v, slices.Concat(g, rest)); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) walkEach(v any, kind stepKind, rest []step) error {
	values, _ := v.([]any)
	if object, ok := v.(map[string]any); ok && kind == stepAll {
		for _, k := range sortedKeys(object) {
			values = append(values, object[k])
		}
	}
	for _, v := range values {
		if err := w.walk(v, rest); err != nil {
			return err
		}
	}
	return nil
}
