package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// wordWriter prints text that arrives in chunks and breaks lines between words. It prints a
// word when it is complete.
type wordWriter struct {
	out     io.Writer
	columns func() int // returns 0 if lines are not broken

	column int    // cursor position
	spaces string // spaces before the word
	word   strings.Builder
}

func (w *wordWriter) print(text string) {
	if w.columns() <= 0 {
		fmt.Fprint(w.out, text)
		w.column = len(text) - strings.LastIndexByte(text, '\n') - 1
		return
	}
	for _, r := range text {
		switch {
		case r == '\n':
			w.flush()
			fmt.Fprintln(w.out)
			w.column, w.spaces = 0, ""
		case unicode.IsSpace(r) && r != '\u00a0':
			w.flush()
			w.spaces += " "
		default:
			w.word.WriteRune(r)
		}
	}
}

// flush prints the word, on a new line if it does not fit on the current one.
func (w *wordWriter) flush() {
	word := w.word.String()
	if word == "" {
		return
	}
	w.word.Reset()
	if w.column > 0 && w.column+len(w.spaces)+width(word) > w.columns() {
		fmt.Fprintln(w.out)
		w.column, w.spaces = 0, ""
	}
	fmt.Fprint(w.out, w.spaces+word)
	w.column += len(w.spaces) + width(word)
	w.spaces = ""
}

// open reports whether the cursor is not at the start of a line.
func (w *wordWriter) open() bool { return w.column > 0 || w.word.Len() > 0 }

// endLine ends the line, unless the cursor is at the start of one.
func (w *wordWriter) endLine() {
	w.flush()
	if w.column > 0 {
		fmt.Fprintln(w.out)
	}
	w.column, w.spaces = 0, ""
}

// heading starts a section of the output after an empty line.
func (s *streams) heading(title string) {
	if s.out.used {
		fmt.Fprintln(s.out)
	}
	s.paragraph(bold, title)
	fmt.Fprintln(s.out)
}

// paragraph prints styled text in lines that fit the terminal.
func (s *streams) paragraph(p paint, text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		parts := []string{line}
		if s.term != nil {
			parts = wrapLine(line, s.term.columns(0))
		}
		for _, part := range parts {
			fmt.Fprintln(s.out, s.term.paint(p, part))
		}
	}
}

// print prints indented lines. It does not break them, so that commands can be copied.
func (s *streams) print(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(s.out, "  %s\n", strings.TrimRight(line, "\n"))
	}
}

// text prints prose in lines that fit.
func (s *streams) text(words string) {
	for _, line := range wrap(printable(words), min(s.term.columns(80), 80)-6) {
		s.print("   " + line)
	}
}

// isControl reports whether a terminal acts on a character instead of displaying it: control
// characters, and characters that change the text direction, which can disguise a text.
func isControl(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// printable removes the characters that a terminal acts on, except line breaks and tabs.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if isControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// plain escapes the characters that a terminal acts on.
func plain(s string) string {
	if !strings.ContainsFunc(s, isControl) && strings.ToValidUTF8(s, "") == s {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == unicode.ReplacementChar && s[i] != "\ufffd"[0]: // not valid UTF-8
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case isControl(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plainJSON is like plain, but for JSON, where these characters occur only in strings.
func plainJSON(raw []byte) []byte {
	var b strings.Builder
	for _, r := range string(raw) {
		if isControl(r) && r != '\n' && r != '\t' {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}

// oneLine joins the lines of a text, such as a provider error.
func oneLine(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	kept := lines[:0]
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, ", ")
}
