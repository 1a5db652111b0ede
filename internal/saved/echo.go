package saved

import "encoding/binary"

// The control data of an input checkpoint contains the input, and the next step appends
// the same data to a list. In a conversation, every user message would be stored twice.
// If a put appends data that its parent's control contains, the parent's control is
// therefore replaced with an equivalent echo of the new chunk.

const (
	// EchoMax is the maximum length of a text that is stored as an echo.
	EchoMax = 1 << 20
	// echoPiece is the minimum length of a piece that is stored as a reference.
	echoPiece = 16
)

// AppendEcho encodes text as an echo of source, the concatenated elements of a chunk. The
// encoding is the length of the text (uvarint), followed by alternating literal bytes
// (length as a uvarint, and the bytes) and pieces of the source (offset and length as
// uvarints), until the text is complete.
func AppendEcho(b, text, source []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	var last [1 << 12]int32 // by hash: offset in source, plus one
	hash := func(p []byte) uint32 {
		return uint32(binary.LittleEndian.Uint64(p)*0x9E3779B97F4A7C15>>52) & (1<<12 - 1)
	}
	for i := 0; i+8 <= len(source); i++ {
		last[hash(source[i:])] = int32(i + 1)
	}
	own := 0 // start of the text not yet encoded
	for i := 0; i+8 <= len(text); {
		at := int(last[hash(text[i:])]) - 1
		n := 0
		if at >= 0 {
			for i+n < len(text) && at+n < len(source) && text[i+n] == source[at+n] {
				n++
			}
		}
		if n < echoPiece {
			i++
			continue
		}
		for i > own && at > 0 && text[i-1] == source[at-1] {
			i, at, n = i-1, at-1, n+1
		}
		b = AppendBytes(b, text[own:i])
		b = binary.AppendUvarint(b, uint64(at))
		b = binary.AppendUvarint(b, uint64(n))
		i += n
		own = i
	}
	if own < len(text) {
		b = AppendBytes(b, text[own:])
	}
	return b
}

// parseEcho decodes an echo created by AppendEcho.
func parseEcho(code, source []byte) ([]byte, bool) {
	r := Reader{Rest: code}
	size := r.Uvarint()
	if size > EchoMax {
		return nil, false
	}
	text := make([]byte, 0, size)
	for !r.Bad && uint64(len(text)) < size {
		text = append(text, r.Bytes()...)
		if uint64(len(text)) >= size {
			break
		}
		at, n := r.Uvarint(), r.Uvarint()
		if at > uint64(len(source)) || n > uint64(len(source))-at || n == 0 {
			return nil, false
		}
		text = append(text, source[at:at+n]...)
	}
	return text, r.Done() && uint64(len(text)) == size
}
