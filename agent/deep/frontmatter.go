package deep

import (
	"errors"
	"fmt"
	"strings"
)

// frontmatter is the part of a SKILL.md between lines of three dashes.
type frontmatter map[string]any // string, []string, or map[string]string

// splitSkill returns the frontmatter and the body of a SKILL.md.
func splitSkill(text string) (frontmatter, string, error) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return nil, "", errors.New("no frontmatter: the file must start with a line of three dashes")
	}
	head, body, ok := strings.Cut("\n"+rest, "\n---\n")
	if !ok {
		if head, ok = strings.CutSuffix("\n"+rest, "\n---"); !ok {
			return nil, "", errors.New("frontmatter has no end: it must end with a line of three dashes")
		}
	}
	f, err := parseFrontmatter(strings.Split(strings.TrimPrefix(head, "\n"), "\n"))
	return f, strings.TrimLeft(body, "\n"), err
}

// parseFrontmatter parses the subset of YAML that skills use: strings, block strings,
// lists of strings, and one level of nested strings. Unlike YAML, it accepts a colon in a
// plain string.
func parseFrontmatter(lines []string) (frontmatter, error) {
	out := frontmatter{}
	for i := 0; i < len(lines); {
		line := lines[i]
		i++
		if blank(line) {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok || indent(line) > 0 {
			return nil, fmt.Errorf("frontmatter line %d: %.100q is not a field", i, line)
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		from := i
		for i < len(lines) && (blank(lines[i]) || indent(lines[i]) > 0 || value == "" && strings.HasPrefix(lines[i], "- ")) {
			i++
		}
		v, err := parseValue(value, lines[from:i])
		if err != nil {
			return nil, fmt.Errorf("frontmatter field %s: %w", key, err)
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("frontmatter field %s: given twice", key)
		}
		out[key] = v
	}
	return out, nil
}

func blank(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || line[0] == '#'
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// parseValue parses a value and the indented lines below it.
func parseValue(value string, below []string) (any, error) {
	switch {
	case value == "|" || value == "|-" || value == ">" || value == ">-":
		return block(value[0] == '|', below), nil
	case value == "" && anyLine(below):
		return parseNested(below)
	case strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]"):
		var list []string
		for part := range strings.SplitSeq(value[1:len(value)-1], ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, plain(part))
			}
		}
		return list, nil
	}
	for _, line := range below { // a plain string of several lines
		if !blank(line) {
			value += " " + strings.TrimSpace(line)
		}
	}
	return plain(value), nil
}

func anyLine(lines []string) bool {
	for _, line := range lines {
		if !blank(line) {
			return true
		}
	}
	return false
}

// block returns a block string.
func block(literal bool, lines []string) string {
	least := -1
	for _, line := range lines {
		if n := indent(line); strings.TrimSpace(line) != "" && (least < 0 || n < least) {
			least = n
		}
	}
	var out []string
	for _, line := range lines {
		out = append(out, strings.TrimRight(line[min(len(line), max(least, 0)):], " \t"))
	}
	if literal {
		return strings.TrimSpace(strings.Join(out, "\n"))
	}
	return strings.Join(strings.Fields(strings.Join(out, " ")), " ")
}

// parseNested parses a list or a map of strings.
func parseNested(lines []string) (any, error) {
	var list []string
	pairs := map[string]string{}
	for _, line := range lines {
		if line = strings.TrimSpace(line); blank(line) {
			continue
		}
		if item, ok := strings.CutPrefix(line, "- "); ok {
			list = append(list, plain(strings.TrimSpace(item)))
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("%.100q is neither a list item nor a field", line)
		}
		pairs[plain(strings.TrimSpace(key))] = plain(strings.TrimSpace(value))
	}
	switch {
	case len(list) > 0 && len(pairs) > 0:
		return nil, errors.New("mixes list items and fields")
	case len(list) > 0:
		return list, nil
	}
	return pairs, nil
}

// plain removes quotes and comments.
func plain(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') {
		if end := strings.LastIndexByte(s, s[0]); end > 0 {
			inner := s[1:end]
			if s[0] == '\'' {
				return strings.ReplaceAll(inner, "''", "'")
			}
			return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n", `\t`, "\t").Replace(inner)
		}
	}
	if i := strings.Index(s, " #"); i >= 0 {
		s = strings.TrimSpace(s[:i])
	}
	return s
}
