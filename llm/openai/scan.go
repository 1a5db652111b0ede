package openai

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads JSON in one pass and without reflection, because a response comes
// token by token, each in a separate JSON object of which little is used.
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
// It accepts what encoding/json accepts. A value of an unexpected type is not an
// error, because servers differ in types. After the first invalid byte, there is
// nothing more to read, and broken is set.
type scanner struct {
	data   []byte
	at     int
	fresh  bool // a list or an object has been opened, and nothing in it read
	broken bool
	depth  int
}

// maxDepth is the limit of encoding/json.
const maxDepth = 10000

func (s *scanner) fail() {
	s.broken = true
	s.at = len(s.data)
}

// peek returns the first byte of the next value, or 0.
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

// open starts an object or a list, and reports whether the next value is one. It
// skips a value of another type.
func (s *scanner) open(bracket byte) bool {
	if s.peek() != bracket {
		s.skip()
		return false
	}
	s.at++
	s.fresh = true
	s.depth++
	if s.depth > maxDepth {
		s.fail()
	}
	return true
}

// more reports whether another value precedes the closing bracket, and otherwise
// consumes the bracket.
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

// key returns the name of a field, whose value comes next.
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

// end fails if anything follows the value.
func (s *scanner) end() {
	if s.peek() != 0 || s.at < len(s.data) {
		s.fail()
	}
}

// text returns the value as a string: a number, a list, or an object verbatim, and
// null as "". If the result equals before, it returns before, to avoid an
// allocation.
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

// str returns the value if it is a string, and otherwise "".
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

// number returns the value as an integer; it may be in a string. Other values are
// 0.
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

// raw returns the next value verbatim.
func (s *scanner) raw() []byte {
	s.peek()
	from := s.at
	s.skip()
	if s.broken {
		return nil
	}
	return s.data[from:s.at]
}

// skip skips the next value.
func (s *scanner) skip() {
	switch c := s.peek(); c {
	case '"':
		s.quoted()
	case '{':
		s.open('{')
		for s.more('}') {
			s.key()
			s.skip()
		}
	case '[':
		s.open('[')
		for s.more(']') {
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

// digits skips a number.
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

// accept skips a byte from low to high.
func (s *scanner) accept(low, high byte) bool {
	if s.at < len(s.data) && low <= s.data[s.at] && s.data[s.at] <= high {
		s.at++
		return true
	}
	return false
}

// run skips one or more digits.
func (s *scanner) run() bool {
	from := s.at
	for s.accept('0', '9') {
	}
	return s.at > from
}

// quoted returns the text between quotation marks, and whether it contains escapes.
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

// escape skips an escape sequence.
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

// hex4 returns the value of four hexadecimal digits.
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

// unescape decodes a string whose escapes are valid. Like encoding/json, it
// replaces unpaired surrogates.
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
		default: // the character itself: a quotation mark, a backslash, or a slash
			out = append(out, c)
		}
	}
}
