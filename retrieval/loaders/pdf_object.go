package loaders

import (
	"bytes"
	"context"
	"errors"
	"strconv"
)

// The types of PDF objects. Others are float64, bool, nil, []any, and *stream.
type (
	name string
	str  string
	dict map[name]any
	ref  int // an object number; generations do not matter to a reader
	word string
)

// stream is a PDF stream whose data is not decoded.
type stream struct {
	dict dict
	raw  []byte
}

var errNested = errors.New("objects are nested too deeply")
var errMany = errors.New("too many objects")
var errOverlap = errors.New("objects overlap")

// maxNesting limits the recursion of the parser.
const maxNesting = 100

// parser reads objects and operators.
type parser struct {
	data []byte
	at   int
	*budget
}

// budget limits the work for a file. Each object and each element of an array that is read
// counts, because a small file can refer to a long array many times.
type budget struct {
	ctx     context.Context
	objects int // that may still be read
	scanned int // bytes that may still be read as objects, which may overlap
	decoded int // bytes of streams that may still be decoded
	text    int // bytes that may still be written
}

// use counts objects.
func (b *budget) use(n int) error {
	b.objects -= n
	if b.objects < 0 {
		return errMany
	}
	return b.ctx.Err()
}

// spent reports whether an error concerns the whole file, not one page.
func (b *budget) spent(err error) bool {
	return b.ctx.Err() != nil || errors.Is(err, errMany) || errors.Is(err, errOverlap) || errors.Is(err, errDecoded) || errors.Is(err, errText)
}

// object reads an object. Anything else is a word, such as an operator; at the end, it is
// an empty word.
func (p *parser) object(depth int) (any, error) {
	if depth > maxNesting {
		return nil, errNested
	}
	if err := p.use(1); err != nil {
		return nil, err
	}
	if depth == 0 {
		defer func(start int) { p.scanned -= p.at - start }(p.at)
		if p.scanned < 0 {
			return nil, errOverlap
		}
	}
	p.space()
	if p.at >= len(p.data) {
		return word(""), nil
	}
	switch c := p.data[p.at]; {
	case c == '/':
		p.at++
		return p.name(), nil
	case c == '(':
		return p.literal(), nil
	case c == '[':
		p.at++
		return p.array(depth)
	case c == '<' && p.peek(1) == '<':
		p.at += 2
		return p.dict(depth)
	case c == '<':
		return p.hex(), nil
	case c == ']' || c == '{' || c == '}' || c == ')':
		p.at++
		return word(c), nil
	case c == '>':
		p.at++
		if p.peek(0) == '>' {
			p.at++
			return word(">>"), nil
		}
		return word(">"), nil
	}
	return p.regular(), nil
}

func (p *parser) peek(n int) byte {
	if p.at+n < len(p.data) {
		return p.data[p.at+n]
	}
	return 0
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func isDelimiter(c byte) bool { return bytes.IndexByte([]byte("()<>[]{}/%"), c) >= 0 }

// space skips white space and comments.
func (p *parser) space() {
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case isSpace(c):
			p.at++
		case c == '%':
			end := bytes.IndexAny(p.data[p.at:], "\r\n")
			if end < 0 {
				end = len(p.data) - p.at
			}
			p.at += end
		default:
			return
		}
	}
}

// token reads regular characters.
func (p *parser) token() string {
	start := p.at
	for p.at < len(p.data) && !isSpace(p.data[p.at]) && !isDelimiter(p.data[p.at]) {
		p.at++
	}
	return string(p.data[start:p.at])
}

// regular reads a number, a reference, or a word.
func (p *parser) regular() any {
	t := p.token()
	switch t {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	n, err := strconv.ParseFloat(t, 64)
	if err != nil {
		return word(t)
	}
	if number, err := strconv.Atoi(t); err == nil && number >= 0 && p.reference() {
		return ref(number)
	}
	return n
}

// reference reads the rest of a reference, such as "0 R", if there is one.
func (p *parser) reference() bool {
	at := p.at
	p.space()
	if _, err := strconv.ParseUint(p.token(), 10, 16); err == nil {
		p.space()
		if p.token() == "R" {
			return true
		}
	}
	p.at = at
	return false
}

func (p *parser) name() name {
	t := p.token()
	if !bytes.Contains([]byte(t), []byte("#")) {
		return name(t)
	}
	var out []byte
	for i := 0; i < len(t); i++ {
		if t[i] == '#' && i+2 < len(t) {
			if c, err := strconv.ParseUint(t[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(c))
				i += 2
				continue
			}
		}
		out = append(out, t[i])
	}
	return name(out)
}

func (p *parser) array(depth int) (any, error) {
	list := []any{}
	for {
		v, err := p.object(depth + 1)
		if err != nil {
			return nil, err
		}
		if w, ok := v.(word); ok {
			if w == "]" || w == "" || w == "endobj" {
				return list, nil
			}
			continue
		}
		list = append(list, v)
	}
}

func (p *parser) dict(depth int) (any, error) {
	d := dict{}
	for {
		key, err := p.object(depth + 1)
		if err != nil {
			return nil, err
		}
		if w, ok := key.(word); ok && (w == ">>" || w == "" || w == "endobj" || w == "stream") {
			return d, nil
		}
		k, ok := key.(name)
		if !ok {
			continue
		}
		v, err := p.object(depth + 1)
		if err != nil {
			return nil, err
		}
		if w, ok := v.(word); ok {
			if w == ">>" || w == "" {
				return d, nil
			}
			continue
		}
		d[k] = v
	}
}

// literal reads a string in parentheses.
func (p *parser) literal() str {
	var out []byte
	open := 0
	for ; p.at < len(p.data); p.at++ {
		c := p.data[p.at]
		switch c {
		case '(':
			open++
			if open == 1 {
				continue
			}
		case ')':
			open--
			if open == 0 {
				p.at++
				return str(out)
			}
		case '\\':
			p.at++
			out = p.escaped(out)
			continue
		}
		out = append(out, c)
	}
	return str(out)
}

// escaped appends the character after a backslash.
func (p *parser) escaped(out []byte) []byte {
	c := p.peek(0)
	if i := bytes.IndexByte([]byte("nrtbf"), c); i >= 0 {
		return append(out, "\n\r\t\b\f"[i])
	}
	switch {
	case c == '\r' && p.peek(1) == '\n':
		p.at++
		return out
	case c == '\r' || c == '\n':
		return out
	case c < '0' || c > '7':
		return append(out, c)
	}
	n := 0
	for i := 0; i < 3 && p.peek(0) >= '0' && p.peek(0) <= '7'; i++ {
		n = n*8 + int(p.peek(0)-'0')
		p.at++
	}
	p.at-- // the caller's loop advances
	return append(out, byte(n))
}

// hex reads a string of hexadecimal digits.
func (p *parser) hex() str {
	p.at++
	end := bytes.IndexByte(p.data[p.at:], '>')
	if end < 0 {
		end = len(p.data) - p.at
	}
	out := unhex(p.data[p.at : p.at+end])
	p.at = min(p.at+end+1, len(p.data))
	return str(out)
}

func unhex(digits []byte) []byte {
	out := make([]byte, 0, len(digits)/2+1)
	high, have := byte(0), false
	for _, c := range digits {
		n, err := strconv.ParseUint(string(c), 16, 8)
		switch {
		case err != nil:
		case have:
			out, have = append(out, high<<4|byte(n)), false
		default:
			high, have = byte(n), true
		}
	}
	if have {
		out = append(out, high<<4)
	}
	return out
}
