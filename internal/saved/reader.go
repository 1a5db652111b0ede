package saved

import "encoding/binary"

// A Reader decodes bytes. After the first invalid value it is bad and returns zero
// values. Its results share the memory of Rest.
type Reader struct {
	Rest []byte
	Bad  bool
}

// Fail makes r bad.
func (r *Reader) Fail() {
	r.Bad, r.Rest = true, nil
}

// Done reports whether all bytes were read and valid.
func (r *Reader) Done() bool { return !r.Bad && len(r.Rest) == 0 }

// Byte reads a byte.
func (r *Reader) Byte() byte {
	if len(r.Rest) == 0 {
		r.Fail()
		return 0
	}
	b := r.Rest[0]
	r.Rest = r.Rest[1:]
	return b
}

// Uvarint reads an unsigned varint.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.Rest)
	r.skip(n)
	if r.Bad {
		return 0
	}
	return v
}

// Varint reads a signed varint.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.Rest)
	r.skip(n)
	if r.Bad {
		return 0
	}
	return v
}

// skip advances by the n bytes of a varint; n <= 0 means that the varint is invalid.
func (r *Reader) skip(n int) {
	if n <= 0 {
		r.Fail()
		return
	}
	r.Rest = r.Rest[n:]
}

// Int reads a Uvarint that represents a quantity and therefore fits into an int64.
func (r *Reader) Int() int64 {
	v := r.Uvarint()
	if v > 1<<62 {
		r.Fail()
		return 0
	}
	return int64(v)
}

// Count reads a number of elements that follow, each of which takes at least a byte.
func (r *Reader) Count() int {
	v := r.Uvarint()
	if v > uint64(len(r.Rest)) {
		r.Fail()
		return 0
	}
	return int(v)
}

// Bytes reads a value written by AppendBytes. The result is clipped, so that appending to
// it overwrites nothing. It is nil only if r is bad.
func (r *Reader) Bytes() []byte {
	n := r.Count()
	if r.Bad {
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// AppendBytes appends the length of v as a uvarint, followed by v.
func AppendBytes[T ~[]byte | ~string](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// EncodeNames encodes a shape: the channel names in slot order.
func EncodeNames(names []string) string {
	var b []byte
	for _, n := range names {
		b = AppendBytes(b, n)
	}
	return string(b)
}

// DecodeNames decodes the result of EncodeNames.
func DecodeNames(b []byte) ([]string, bool) {
	r := Reader{Rest: b}
	names := []string{}
	for len(r.Rest) > 0 {
		names = append(names, string(r.Bytes()))
	}
	return names, !r.Bad
}
