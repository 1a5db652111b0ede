package llm

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// completeJSON completes truncated JSON: it keeps the longest prefix that can be
// completed and closes everything open. It fails if there is no such prefix, if a
// bracket closes a bracket of another kind, or if the nesting is too deep.
//
//	{"city": "San Fr     →  {"city": "San Fr"}
//	{"a": 1, "b": tru    →  {"a": 1}
//	{"a": [1, {"b":      →  {"a": [1, {}]}
func completeJSON(s string) (json.RawMessage, bool) {
	p := &completer{in: s}
	p.run()
	if p.broken || p.good == 0 {
		return nil, false
	}
	out := p.out[:p.good]
	for _, closer := range slices.Backward(p.goodOpen) {
		out = append(out, closer)
	}
	return json.RawMessage(out), true
}

const maxJSONDepth = 500

// completer reads JSON and remembers the last position where closing the open
// brackets would have completed it.
type completer struct {
	in     string
	pos    int
	out    []byte
	open   []byte // closers of the open brackets, innermost last
	broken bool   // nothing can be kept

	good     int // length of out that is complete once goodOpen is appended
	goodOpen []byte
}

// mark records that out is complete except for the open brackets.
func (p *completer) mark() {
	p.good = len(p.out)
	p.goodOpen = append(p.goodOpen[:0], p.open...)
}

func (p *completer) space() {
	p.pos += len(p.in[p.pos:]) - len(strings.TrimLeft(p.in[p.pos:], " \t\r\n"))
}

// peek returns the next byte that is not a space, or 0 at the end.
func (p *completer) peek() byte {
	p.space()
	if p.pos < len(p.in) {
		return p.in[p.pos]
	}
	return 0
}

func (p *completer) take() { p.out = append(p.out, p.in[p.pos]); p.pos++ }

// run reads until the text ends, is complete, or is no longer valid JSON.
func (p *completer) run() {
	for p.value() {
		// A value is complete: close brackets, or continue in the innermost one.
		for {
			c := p.peek()
			if len(p.open) == 0 || c == 0 {
				return
			}
			top := p.open[len(p.open)-1]
			if c == top {
				p.close()
				continue
			}
			p.broken = c == '}' || c == ']'
			if p.broken || c != ',' {
				return
			}
			p.take()
			if top == '}' && !p.key() {
				return
			}
			break
		}
	}
}

func (p *completer) close() {
	p.take()
	p.open = p.open[:len(p.open)-1]
	p.mark()
}

// value reads a value. For an object or array, it reads the opening bracket and
// what follows, until a value is complete. It reports whether one is.
func (p *completer) value() bool {
	for {
		switch c := p.peek(); c {
		case '{', '[':
			p.open = append(p.open, c+2) // '{'+2 is '}', '['+2 is ']'
			p.take()
			if len(p.open) > maxJSONDepth {
				p.broken = true
				return false
			}
			p.mark()
			switch next := p.peek(); {
			case next == p.open[len(p.open)-1]:
				p.close()
				return true
			case next == '}' || next == ']':
				p.broken = true
				return false
			}
			if c == '{' && !p.key() {
				return false
			}
		case '"':
			whole := p.text()
			p.mark()
			return whole
		case '}', ']':
			p.broken = len(p.open) > 0 && p.open[len(p.open)-1] != c
			return false
		default:
			return p.word()
		}
	}
}

// key reads a key and its colon.
func (p *completer) key() bool {
	if p.peek() != '"' || !p.text() || p.peek() != ':' {
		return false
	}
	p.take()
	return true
}

var jsonWord = regexp.MustCompile(`^(true|false|null|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?)`)

// word reads a number or a literal. Of a truncated number, it reads the valid
// prefix.
func (p *completer) word() bool {
	w := jsonWord.FindString(p.in[p.pos:])
	if w == "" {
		return false
	}
	p.out = append(p.out, w...)
	p.pos += len(w)
	p.mark()
	return true
}

// text reads a string. If the input ends within it, text closes the string, before
// any incomplete escape. It escapes raw control characters, which models often
// write. It reports whether the string was complete.
func (p *completer) text() bool {
	p.take()
	for p.pos < len(p.in) {
		switch c := p.in[p.pos]; {
		case c == '"':
			p.take()
			return true
		case c == '\\':
			if !p.escape() {
				p.out = append(p.out, '"')
				return false
			}
		case c < 0x20:
			p.out = fmt.Appendf(p.out, `\u%04x`, c)
			p.pos++
		case c < utf8.RuneSelf:
			p.take()
		default:
			r, size := utf8.DecodeRuneInString(p.in[p.pos:])
			if r == utf8.RuneError && size == 1 && !utf8.FullRuneInString(p.in[p.pos:]) {
				p.out = append(p.out, '"') // an incomplete character at the end
				return false
			}
			p.out = append(p.out, p.in[p.pos:p.pos+size]...)
			p.pos += size
		}
	}
	p.out = append(p.out, '"')
	return false
}

var jsonEscape = regexp.MustCompile(`^\\(["\\/bfnrt]|u[0-9a-fA-F]{4})`)

func (p *completer) escape() bool {
	e := jsonEscape.FindString(p.in[p.pos:])
	p.out = append(p.out, e...)
	p.pos += len(e)
	return e != ""
}
