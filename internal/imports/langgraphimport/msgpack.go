package langgraphimport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// A dict is a Python dict in stored order. Its keys may have any type.
type dict struct {
	keys, values []any
}

// get returns the value of a string key.
func (d *dict) get(key string) (any, bool) {
	if d != nil {
		for i, k := range d.keys {
			if k == key {
				return d.values[i], true
			}
		}
	}
	return nil, false
}

// maxDepth is the maximum nesting depth of a value. Deeper values would overflow the
// stack, and the limit of checkpoint.JSON is lower than Go's.
const maxDepth = 1000

var errCutOff = errors.New("truncated data")

// unpack decodes one msgpack value, the format of LangGraph's serializer. Values are nil,
// bool, int64, uint64, float64, string, []byte, []any, *dict, and, for extensions,
// *object.
func unpack(data []byte) (any, error) {
	r := &unpacker{data: data}
	v, err := r.value(0)
	if err == nil && len(r.data) > 0 {
		err = fmt.Errorf("%d bytes follow the value", len(r.data))
	}
	return v, err
}

type unpacker struct{ data []byte }

// next consumes n bytes.
func (r *unpacker) next(n uint64) ([]byte, error) {
	if n > uint64(len(r.data)) {
		return nil, errCutOff
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b, nil
}

// number consumes a big-endian number of n bytes.
func (r *unpacker) number(n uint64) (uint64, error) {
	b, err := r.next(n)
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	copy(wide[8-n:], b)
	return binary.BigEndian.Uint64(wide[:]), nil
}

func (r *unpacker) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nesting exceeds %d levels", maxDepth)
	}
	first, err := r.next(1)
	if err != nil {
		return nil, err
	}
	switch c := first[0]; {
	case c <= 0x7f:
		return int64(c), nil
	case c >= 0xe0:
		return int64(int8(c)), nil
	case c <= 0x8f:
		return r.dict(uint64(c&0x0f), depth)
	case c <= 0x9f:
		return r.list(uint64(c&0x0f), depth)
	case c <= 0xbf:
		return r.text(uint64(c & 0x1f))
	case c == 0xc0:
		return nil, nil
	case c == 0xc2, c == 0xc3:
		return c == 0xc3, nil
	case c >= 0xc4 && c <= 0xc6:
		n, err := r.number(1 << (c - 0xc4))
		if err != nil {
			return nil, err
		}
		b, err := r.next(n)
		return append([]byte{}, b...), err
	case c >= 0xc7 && c <= 0xc9:
		n, err := r.number(1 << (c - 0xc7))
		if err != nil {
			return nil, err
		}
		return r.extension(n, depth)
	case c == 0xca:
		n, err := r.number(4)
		return float64(math.Float32frombits(uint32(n))), err
	case c == 0xcb:
		n, err := r.number(8)
		return math.Float64frombits(n), err
	case c >= 0xcc && c <= 0xcf:
		n, err := r.number(1 << (c - 0xcc))
		if n > math.MaxInt64 {
			return n, err
		}
		return int64(n), err
	case c >= 0xd0 && c <= 0xd3:
		size := uint64(1) << (c - 0xd0)
		n, err := r.number(size)
		shift := 64 - 8*size
		return int64(n<<shift) >> shift, err
	case c >= 0xd4 && c <= 0xd8:
		return r.extension(1<<(c-0xd4), depth)
	case c >= 0xd9 && c <= 0xdb:
		n, err := r.number(1 << (c - 0xd9))
		if err != nil {
			return nil, err
		}
		return r.text(n)
	case c == 0xdc, c == 0xdd:
		n, err := r.number(2 << (c - 0xdc))
		if err != nil {
			return nil, err
		}
		return r.list(n, depth)
	case c == 0xde, c == 0xdf:
		n, err := r.number(2 << (c - 0xde))
		if err != nil {
			return nil, err
		}
		return r.dict(n, depth)
	default:
		return nil, fmt.Errorf("invalid first byte 0x%02x of a value", c)
	}
}

func (r *unpacker) text(n uint64) (any, error) {
	b, err := r.next(n)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(b) {
		return nil, errors.New("string is not UTF-8")
	}
	return string(b), nil
}

func (r *unpacker) list(n uint64, depth int) (any, error) {
	if n > uint64(len(r.data)) { // an element takes at least a byte, so n cannot be valid
		return nil, errCutOff
	}
	list := make([]any, 0, n)
	for range n {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func (r *unpacker) dict(n uint64, depth int) (any, error) {
	if 2*n > uint64(len(r.data)) {
		return nil, errCutOff
	}
	d := &dict{keys: make([]any, 0, n), values: make([]any, 0, n)}
	for range n {
		k, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, k), append(d.values, v)
	}
	return d, nil
}

// extension reads an extension, whose payload is also msgpack.
func (r *unpacker) extension(n uint64, depth int) (any, error) {
	code, err := r.next(1)
	if err != nil {
		return nil, err
	}
	data, err := r.next(n)
	if err != nil {
		return nil, err
	}
	inner := &unpacker{data: data}
	v, err := inner.value(depth + 1)
	if err != nil {
		return nil, fmt.Errorf("extension %d: %w", int8(code[0]), err)
	}
	return extended(int8(code[0]), v)
}
