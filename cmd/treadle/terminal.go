package main

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// terminal is the user's terminal.
type terminal struct {
	size     func() (columns, rows int)
	color    bool // NO_COLOR is not set
	dumb     bool // does not support escape codes
	standard bool // standard input and output, which the line editor requires
}

// terminalOf returns the terminal that both streams belong to, or nil.
func terminalOf(in io.Reader, out io.Writer) *terminal {
	stdin, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(stdin.Fd())) {
		return nil
	}
	stdout, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(stdout.Fd())) {
		return nil
	}
	t := &terminal{dumb: os.Getenv("TERM") == "dumb", standard: stdin == os.Stdin && stdout == os.Stdout}
	t.color = !t.dumb && os.Getenv("NO_COLOR") == ""
	t.size = func() (int, int) {
		columns, rows, err := term.GetSize(int(stdout.Fd()))
		if err != nil || columns <= 0 || rows <= 0 {
			return 80, 24
		}
		return columns, rows
	}
	return t
}

// live reports whether lines can be redrawn in place.
func (t *terminal) live() bool { return t != nil && !t.dumb }

// A paint is a text style: the parameter of an SGR sequence.
type paint string

const (
	bold  paint = "1"
	faint paint = "2"
	red   paint = "31"
	green paint = "32"
	cyan  paint = "36"
)

// paint styles s if the terminal shows colors.
func (t *terminal) paint(p paint, s string) string {
	if t == nil || !t.color || s == "" {
		return s
	}
	return "\x1b[" + string(p) + "m" + s + "\x1b[0m"
}

// cells returns the number of columns that a rune occupies, accurate enough for alignment:
// marks take none, and East Asian letters and emoji take two.
func cells(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana), 0x1f300 <= r && r <= 0x1faff, 0xff01 <= r && r <= 0xff60:
		return 2
	}
	return 1
}

func width(s string) int {
	n := 0
	for _, r := range s {
		n += cells(r)
	}
	return n
}

// head shortens s to n columns by cutting its end; tail cuts its start.
func head(s string, n int) string {
	if width(s) <= n {
		return s
	}
	used := 1
	for i, r := range s {
		used += cells(r)
		if used > n {
			return strings.TrimRight(s[:i], " ") + "…"
		}
	}
	return s
}

func tail(s string, n int) string {
	w := width(s)
	if w <= n {
		return s
	}
	for i, r := range s {
		if w < n {
			return "…" + s[i:]
		}
		w -= cells(r)
	}
	return "…"
}

// wrap breaks s between words into lines of at most n columns.
func wrap(s string, n int) []string {
	var lines []string
	for word := range strings.FieldsSeq(s) {
		last := len(lines) - 1
		if last >= 0 && width(lines[last])+1+width(word) <= n {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

// wrapLine breaks a line between words if it is longer than n columns. Otherwise, it keeps the
// line's spaces.
func wrapLine(s string, n int) []string {
	if width(s) <= n {
		return []string{s}
	}
	indent := s[:len(s)-len(strings.TrimLeft(s, " "))]
	lines := wrap(s, max(1, n-len(indent)))
	for i := range lines {
		lines[i] = indent + lines[i]
	}
	return lines
}

// columns returns the width available for text: the terminal's width, or otherwise if there is
// no terminal.
func (t *terminal) columns(otherwise int) int {
	if t == nil {
		return otherwise
	}
	columns, _ := t.size()
	return columns
}
