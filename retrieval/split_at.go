package retrieval

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// lines returns the starts of all lines but the first.
func lines(text string) (cuts []int) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\n' {
			cuts = append(cuts, i+1)
		}
	}
	return cuts
}

// paragraphs returns the starts of lines that follow a blank line.
func paragraphs(text string) (cuts []int) {
	eachLine(text, func(start int, line, before string) {
		if start > 0 && blank(before) && !blank(line) {
			cuts = append(cuts, start)
		}
	})
	return cuts
}

// declarations returns the starts of unindented lines that follow a blank line.
func declarations(text string) (cuts []int) {
	eachLine(text, func(start int, line, before string) {
		if start > 0 && blank(before) && !blank(line) && line[0] != ' ' && line[0] != '\t' && line[0] != '}' && line[0] != ')' {
			cuts = append(cuts, start)
		}
	})
	return cuts
}

// eachLine calls yield with each line of text, its start, and the line before.
func eachLine(text string, yield func(start int, line, before string)) {
	start, before := 0, ""
	for line := range strings.Lines(text) {
		yield(start, line, before)
		start, before = start+len(line), line
	}
}

func blank(line string) bool { return strings.TrimSpace(line) == "" }

// spaces returns the places after white space.
func spaces(text string) (cuts []int) {
	space := false
	for i, r := range text {
		is := unicode.IsSpace(r)
		if space && !is {
			cuts = append(cuts, i)
		}
		space = is
	}
	return cuts
}

// sentences returns the starts of all sentences and paragraphs but the first.
func sentences(text string) (cuts []int) {
	at := 0
	for at < len(text) {
		end := sentenceEnd(text, at)
		if end < len(text) {
			cuts = append(cuts, end)
		}
		at = end
	}
	return cuts
}

// sentenceEnd returns the end of the sentence that contains the byte at, including the
// white space that follows it.
func sentenceEnd(text string, at int) int {
	for i := at; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		i += n
		switch {
		case r == '\n':
			if rest := strings.TrimLeft(text[i:], " \t\r"); strings.HasPrefix(rest, "\n") {
				return i + leadingSpace(text[i:])
			}
		case strings.ContainsRune("。！？｡", r):
			i += closing(text[i:])
			return i + leadingSpace(text[i:])
		case strings.ContainsRune(".!?…", r):
			// All marks of a run have the same end, so if it ends no sentence, the search
			// continues after it: reading it once for each mark would take quadratic time.
			run := i - n
			i += closing(text[i:])
			marks := text[run:i]
			space := leadingSpace(text[i:])
			switch {
			case i+space == len(text), strings.ContainsAny(marks, "。！？"):
				return i + space
			case space > 0 && (strings.ContainsAny(marks, "!?…") || !continues(text[at:run+strings.LastIndex(marks, ".")], text[i+space:])):
				return i + space
			}
		}
	}
	return len(text)
}

// continues reports whether a sentence continues after a period between two texts.
func continues(before, after string) bool {
	if r, _ := utf8.DecodeRuneInString(after); unicode.IsLower(r) {
		return true
	}
	word := before[strings.LastIndexFunc(before, func(r rune) bool { return !unicode.IsLetter(r) && r != '.' })+1:]
	if first, n := utf8.DecodeRuneInString(word); n == len(word) && unicode.IsUpper(first) {
		return true // an initial
	}
	return abbreviations[strings.ToLower(word)]
}

// abbreviations often precede a capital letter or a number.
var abbreviations = map[string]bool{
	"mr": true, "mrs": true, "ms": true, "dr": true, "prof": true, "st": true, "vs": true, "e.g": true, "i.e": true,
	"cf": true, "no": true, "fig": true, "eq": true, "sec": true, "ch": true, "vol": true, "pp": true, "approx": true,
}

// closing returns the length of the quotes and brackets at the start of text that close a
// sentence.
func closing(text string) int {
	return len(text) - len(strings.TrimLeft(text, "\"'”’»)]}」』）.!?…。！？"))
}

func leadingSpace(text string) int {
	return len(text) - len(strings.TrimLeftFunc(text, unicode.IsSpace))
}

// sectionsOf returns the sections of a Markdown text, which cover it.
func sectionsOf(text string) []Span {
	spans := []Span{{}}
	path := make([]string, 0, 6) // by level; "" for a level that was left out
	fence := ""
	body := false // whether the section has text other than headings
	eachLine(text, func(start int, line, _ string) {
		trimmed := strings.TrimSpace(line)
		if mark := fenceOf(trimmed); mark != "" {
			if fence == "" {
				fence = mark
			} else if strings.HasPrefix(mark, fence) && strings.Trim(trimmed, mark[:1]) == "" {
				fence = ""
			}
		}
		level, heading := headingOf(line)
		if fence != "" || level == 0 {
			body = body || trimmed != ""
			return
		}
		for len(path) >= level {
			path = path[:len(path)-1]
		}
		for len(path) < level-1 {
			path = append(path, "")
		}
		path = append(path, shortened(heading))
		if body && start > 0 {
			spans[len(spans)-1].End = start
			spans = append(spans, Span{Start: start})
		}
		body = false
		spans[len(spans)-1].Headings = withoutEmpty(path)
	})
	spans[len(spans)-1].End = len(text)
	return joinSections(text, spans)
}

// joinSections adds a first section of white space to the second.
func joinSections(text string, spans []Span) []Span {
	if len(spans) > 1 && blank(text[:spans[0].End]) {
		spans[1].Start = 0
		return spans[1:]
	}
	return spans
}

// maxHeading is the maximum length of a heading, in bytes: each chunk below it repeats it.
const maxHeading = 200

func shortened(heading string) string {
	if len(heading) <= maxHeading {
		return heading
	}
	end := maxHeading
	for end > 0 && !utf8.RuneStart(heading[end]) {
		end--
	}
	return heading[:end] + "…"
}

func withoutEmpty(path []string) (out []string) {
	for _, p := range path {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}

// fenceOf returns the mark that opens or closes a block of code, or "".
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}

// headingOf returns the level and text of a Markdown heading, or 0.
func headingOf(line string) (level int, heading string) {
	rest := strings.TrimLeft(line, " ")
	if len(line)-len(rest) > 3 {
		return 0, ""
	}
	text := strings.TrimLeft(rest, "#")
	level = len(rest) - len(text)
	if level == 0 || level > 6 || text != "" && !strings.ContainsRune(" \t\r\n", rune(text[0])) {
		return 0, ""
	}
	return level, strings.TrimSpace(strings.TrimRight(strings.TrimSpace(text), "#"))
}
