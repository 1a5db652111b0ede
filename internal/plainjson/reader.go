// Package plainjson decodes simple JSON several times faster than encoding/json. Most
// stored values are simple. The package gives up on all other JSON, which encoding/json
// must then decode. If it does not give up, its result equals that of encoding/json. It
// returns no errors.
package plainjson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// maxDepth is the maximum nesting depth before the package gives up. It bounds the stack.
const maxDepth = 100

// Reader reads a single JSON value. After a method has given up, all others return zero
// values and [Reader.Done] returns false, so callers check only once, at the end.
type Reader struct {
	data  []byte
	pos   int
	fresh bool // no element of the innermost array or object has been read yet
	bad   bool
	short *shortStrings // receives short strings; nil allocates each string
}

// NewReader returns a reader for data, which must not change while it is read.
func NewReader(data []byte) *Reader { return &Reader{data: data} }

// Fail makes the reader give up.
func (r *Reader) Fail() { r.bad, r.pos = true, len(r.data) }

// Failed reports whether the reader has given up.
func (r *Reader) Failed() bool { return r.bad }

// Done reports whether all data was read successfully.
func (r *Reader) Done() bool {
	r.space()
	return !r.bad && r.pos == len(r.data)
}

func (r *Reader) space() {
	for r.pos < len(r.data) {
		switch r.data[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// Next returns the first byte of the next value without consuming it, or 0 at the end.
func (r *Reader) Next() byte {
	r.space()
	if r.pos == len(r.data) {
		return 0
	}
	return r.data[r.pos]
}

func (r *Reader) take(c byte) {
	if r.Next() != c {
		r.Fail()
		return
	}
	r.pos++
}

// Begin consumes the opening bracket of an array or object.
func (r *Reader) Begin(open byte) {
	r.take(open)
	r.fresh = true
}

// More reports whether another element follows. It consumes the comma before the element
// or the closing bracket.
func (r *Reader) More(closing byte) bool {
	c := r.Next()
	switch {
	case r.bad:
	case c == closing:
		r.pos++
		r.fresh = false
		return false
	case r.fresh:
		r.fresh = false
		return true
	case c == ',':
		r.pos++
		return true
	}
	r.Fail()
	return false
}

// Key consumes a field name and the colon after it. It gives up on names with escapes or
// non-ASCII characters.
func (r *Reader) Key() []byte {
	r.take('"')
	start := r.pos
	n := bytes.IndexByte(r.data[r.pos:], '"')
	if n < 0 {
		r.Fail()
		return nil
	}
	name := r.data[start : start+n]
	for _, c := range name {
		if c < ' ' || c == '\\' || c >= utf8.RuneSelf {
			r.Fail()
			return nil
		}
	}
	r.pos = start + n + 1
	r.take(':')
	if r.bad {
		return nil
	}
	return name
}

// label consumes a field name, with its quotes and the colon after it, if l comes next.
func (r *Reader) label(l string) bool {
	if r.bad || !bytes.HasPrefix(r.data[r.pos:], []byte(l)) {
		return false
	}
	r.pos += len(l)
	return true
}

// String consumes a string.
func (r *Reader) String() string {
	r.take('"')
	if r.bad {
		return ""
	}
	start := r.pos
	end, plain := scanString(r.data, start)
	if end < 0 {
		r.Fail()
		return ""
	}
	r.pos = end + 1
	if plain {
		if r.short != nil && end-start <= maxText {
			return r.short.copy(r.data[start:end])
		}
		return string(r.data[start:end])
	}
	if s, ok := unescape(r.data[start:end]); ok {
		return s
	}
	var s string
	if json.Unmarshal(r.data[start-1:end+1], &s) != nil {
		r.Fail()
	}
	return s
}

// scanString returns the end of the string that starts at start, after the opening quote,
// or -1 if it is invalid. plain reports whether the string's bytes are its value.
func scanString(data []byte, start int) (end int, plain bool) {
	plain = true
	ascii := true
	for i := start; ; i++ {
		n, high := plainRun(data[i:])
		ascii = ascii && !high
		i += n
		if i >= len(data) {
			return -1, false
		}
		switch c := data[i]; {
		case c == '"':
			return i, plain && (ascii || utf8.Valid(data[start:i]))
		case c == '\\':
			plain = false
			i++
			if i >= len(data) {
				return -1, false
			}
		case c < ' ':
			return -1, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
}

// plainRun returns the number of leading bytes of data that a string can contain
// unescaped. It inspects eight bytes at a time and returns too few at the end of data.
// high is false only if all of these bytes are ASCII.
func plainRun(data []byte) (n int, high bool) {
	const (
		ones  = 0x0101010101010101
		highs = 0x80 * ones
	)
	var seen uint64
	for ; len(data)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(data[n:])
		seen |= w
		quote, slash := w^'"'*ones, w^'\\'*ones
		// Each term sets the high bit of bytes that are a quote, a backslash, or a
		// control character. A borrow can also set it in a byte after such a byte, but
		// never before one, so the lowest bit is correct.
		stop := ((quote-ones)&^quote | (slash-ones)&^slash | (w-' '*ones)&^w) & highs
		if stop != 0 {
			n += bits.TrailingZeros64(stop) / 8
			break
		}
	}
	return n, seen&highs != 0
}

// unescape decodes a string with single-letter escapes. It returns false for other
// escapes and for invalid UTF-8.
func unescape(in []byte) (string, bool) {
	out := make([]byte, 0, len(in))
	for {
		n := bytes.IndexByte(in, '\\')
		if n < 0 || n+1 == len(in) {
			break
		}
		out = append(out, in[:n]...)
		switch c := in[n+1]; c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		default:
			return "", false
		}
		in = in[n+2:]
	}
	out = append(out, in...)
	return string(out), utf8.Valid(out)
}

// Int consumes an integer that fits into the given number of bits.
func (r *Reader) Int(bits int) int64 {
	lit, whole := r.number()
	if !whole {
		r.Fail()
		return 0
	}
	n, err := strconv.ParseInt(string(lit), 10, bits)
	if err != nil {
		r.Fail()
	}
	return n
}

// Uint consumes an unsigned integer that fits into the given number of bits.
func (r *Reader) Uint(bits int) uint64 {
	lit, whole := r.number()
	if !whole {
		r.Fail()
		return 0
	}
	n, err := strconv.ParseUint(string(lit), 10, bits)
	if err != nil {
		r.Fail()
	}
	return n
}

// Float consumes a floating-point number with the given number of bits.
func (r *Reader) Float(bits int) float64 {
	lit, _ := r.number()
	f, err := strconv.ParseFloat(string(lit), bits)
	if err != nil {
		r.Fail()
	}
	return f
}

// number consumes a number; whole reports whether it has neither fraction nor exponent.
func (r *Reader) number() (lit []byte, whole bool) {
	r.space()
	start, i := r.pos, r.pos
	digits := func() bool {
		from := i
		for i < len(r.data) && '0' <= r.data[i] && r.data[i] <= '9' {
			i++
		}
		return i > from
	}
	at := func(c byte) bool { return i < len(r.data) && r.data[i] == c }
	if at('-') {
		i++
	}
	if at('0') {
		i++
	} else if !digits() {
		r.Fail()
		return nil, false
	}
	whole = true
	if at('.') {
		i++
		whole = false
		if !digits() {
			r.Fail()
			return nil, false
		}
	}
	if at('e') || at('E') {
		i++
		if at('+') || at('-') {
			i++
		}
		whole = false
		if !digits() {
			r.Fail()
			return nil, false
		}
	}
	r.pos = i // a digit after a leading zero is not a delimiter, so the caller fails
	return r.data[start:i], whole
}

// Bool consumes true or false.
func (r *Reader) Bool() bool {
	v := r.Next() == 't'
	if v {
		r.word("true")
	} else {
		r.word("false")
	}
	return v
}

func (r *Reader) word(w string) {
	if !bytes.HasPrefix(r.data[r.pos:], []byte(w)) {
		r.Fail()
		return
	}
	r.pos += len(w)
}

// Raw consumes any value and returns its bytes, which share the memory of the data.
func (r *Reader) Raw() []byte {
	r.space()
	start := r.pos
	r.skip(0)
	if r.bad {
		return nil
	}
	return r.data[start:r.pos]
}

func (r *Reader) skip(depth int) {
	switch c := r.Next(); {
	case depth > maxDepth:
		r.Fail()
	case c == '{':
		r.Begin('{')
		for r.More('}') {
			r.skipString()
			r.take(':')
			r.skip(depth + 1)
		}
	case c == '[':
		r.Begin('[')
		for r.More(']') {
			r.skip(depth + 1)
		}
	case c == '"':
		r.skipString()
	case c == 't' || c == 'f':
		r.Bool()
	case c == 'n':
		r.word("null")
	default:
		r.number()
	}
}

// skipString consumes a string without decoding it.
func (r *Reader) skipString() {
	r.take('"')
	for r.pos < len(r.data) {
		switch c := r.data[r.pos]; {
		case c == '"':
			r.pos++
			return
		case c < ' ':
			r.Fail()
		case c == '\\':
			r.skipEscape()
		default:
			r.pos++
		}
	}
	r.Fail()
}

func (r *Reader) skipEscape() {
	in := r.data[r.pos+1:]
	switch {
	case len(in) > 0 && bytes.IndexByte([]byte(`"\/bfnrt`), in[0]) >= 0:
		r.pos += 2
	case len(in) > 4 && in[0] == 'u' && isHex(in[1]) && isHex(in[2]) && isHex(in[3]) && isHex(in[4]):
		r.pos += 6
	default:
		r.Fail()
	}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
