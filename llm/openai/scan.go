package openai

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads JSON in one pass and without reflection: an answer comes token
// by token, each in a JSON object of its own, of which little is of interest.
//
//	if s.open('{') {
//		for s.more('}') {
//			switch string(s.key()) {
//			case "id":
//				id = s.text(id)
//			default:
//				s.skip()
//			}
//		}
//	}
//
// It accepts what encoding/json accepts. A value of another type than the one
// that is asked for is no error, since servers differ in these. Behind the first
// byte that is not JSON there is nothing more to read, and broken is set.
type scanner struct {
	data   []byte
	at     int
	fresh  bool // a list or an object has been opened, and nothing of it was read
	broken bool
	depth  int
}

// maxDepth is encoding/json's own limit.
const maxDepth = 10000

func (s *scanner) fail() {
	s.broken = true
	s.at = len(s.data)
}

// peek is the first byte of what comes next, or 0.
func (s *scanner) peek() byte {
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// open begins an object or a list, if there is one. A value of another type is
// skipped.
func (s *scanner) open(bracket byte) bool {
	if s.peek() != bracket {
		s.skip()
		return false
	}
	s.at++
	s.fresh = true
	if s.depth++; s.depth > maxDepth {
		s.fail()
	}
	return true
}

// more reports whether there is another value before the bracket, which it takes.
func (s *scanner) more(bracket byte) bool {
	c := s.peek()
	fresh := s.fresh
	s.fresh = false
	switch {
	case s.broken:
		return false
	case c == bracket:
		s.at++
		s.depth--
		return false
	case fresh && c != 0:
		return true
	case c == ',':
		s.at++
		return true
	}
	s.fail()
	return false
}

// key is the name of a field, whose value comes next.
func (s *scanner) key() []byte {
	if s.peek() != '"' {
		s.fail()
		return nil
	}
	raw, escaped := s.quoted()
	if s.peek() != ':' {
		s.fail()
		return nil
	}
	s.at++
	if escaped {
		return unescape(raw)
	}
	return raw
}

// end fails if there is more than one value.
func (s *scanner) end() {
	if s.peek() != 0 || s.at < len(s.data) {
		s.fail()
	}
}

// text is the value as a text: a number, a list or an object is one as it is
// written, and null is none. If it is the same as the text before, it is that.
func (s *scanner) text(before string) string {
	switch s.peek() {
	case '"':
		return s.unquoted(before)
	case 'n':
		s.skip()
		return ""
	}
	if raw := s.raw(); string(raw) != before {
		return string(raw)
	}
	return before
}

// str is the value if it is a text, or "".
func (s *scanner) str(before string) string {
	if s.peek() != '"' {
		s.skip()
		return ""
	}
	return s.unquoted(before)
}

func (s *scanner) unquoted(before string) string {
	raw, escaped := s.quoted()
	if escaped {
		raw = unescape(raw)
	}
	if string(raw) == before {
		return before
	}
	return string(raw)
}

// number is the value as a whole number; a text may hold it. What is none is 0.
func (s *scanner) number() int64 {
	raw := s.raw()
	if n := len(raw); n > 1 && raw[0] == '"' {
		raw = raw[1 : n-1]
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f < -1<<62 || f > 1<<62 || f != f {
		return 0
	}
	return int64(f)
}

// raw is the next value as it is written.
func (s *scanner) raw() []byte {
	s.peek()
	from := s.at
	s.skip()
	if s.broken {
		return nil
	}
	return s.data[from:s.at]
}

// skip passes over the next value.
func (s *scanner) skip() {
	switch c := s.peek(); c {
	case '"':
		s.quoted()
	case '{':
		for s.open('{'); s.more('}'); s.skip() {
			s.key()
		}
	case '[':
		for s.open('['); s.more(']'); {
			s.skip()
		}
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.digits()
	}
}

func (s *scanner) word(w string) {
	if !bytes.HasPrefix(s.data[s.at:], []byte(w)) {
		s.fail()
		return
	}
	s.at += len(w)
}

// digits passes over a number.
func (s *scanner) digits() {
	s.accept('-', '-')
	if !s.accept('0', '0') && !s.run() {
		s.fail()
		return
	}
	if s.accept('.', '.') && !s.run() {
		s.fail()
		return
	}
	if s.accept('e', 'e') || s.accept('E', 'E') {
		if !s.accept('+', '+') {
			s.accept('-', '-')
		}
		if !s.run() {
			s.fail()
		}
	}
}

// accept passes over a byte from low to high.
func (s *scanner) accept(low, high byte) bool {
	if s.at < len(s.data) && low <= s.data[s.at] && s.data[s.at] <= high {
		s.at++
		return true
	}
	return false
}

// run passes over one digit or more.
func (s *scanner) run() bool {
	from := s.at
	for s.accept('0', '9') {
	}
	return s.at > from
}

// quoted is what stands between quotation marks, and whether there are escapes
// in it.
func (s *scanner) quoted() (raw []byte, escaped bool) {
	s.at++
	from := s.at
	for s.at < len(s.data) {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return s.data[from : s.at-1], escaped
		case c == '\\':
			escaped = true
			if !s.escape() {
				s.fail()
				return nil, false
			}
		case c < ' ':
			s.fail()
			return nil, false
		default:
			s.at++
		}
	}
	s.fail()
	return nil, false
}

// escape passes over an escape.
func (s *scanner) escape() bool {
	if s.at+1 >= len(s.data) {
		return false
	}
	switch s.data[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return true
	case 'u':
		_, ok := hex4(s.data[s.at+2:])
		s.at += 6
		return ok
	}
	return false
}

// hex4 is the number that four hexadecimal digits are.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unescape is a text whose escapes have been checked. Halves of characters are
// replaced, as encoding/json does it.
func unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(out, raw...)
		}
		out = append(out, raw[:i]...)
		c := raw[i+1]
		raw = raw[i+2:]
		switch c {
		case 'u':
			r, _ := hex4(raw)
			raw = raw[4:]
			if utf16.IsSurrogate(r) {
				low := rune(utf8.RuneError)
				if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
					low, _ = hex4(raw[2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					raw = raw[6:]
				}
			}
			out = utf8.AppendRune(out, r)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		default: // itself: a quotation mark, a stroke to the left or to the right
			out = append(out, c)
		}
	}
}
