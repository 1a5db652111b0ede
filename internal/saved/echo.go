package saved

import "encoding/binary"

// The control of a checkpoint that was given input has the input in it, and the
// step after it appends the same to a list: in a conversation, every message of
// the user would be stored twice. So when a put appends what its parent's control
// says, the parent gets an echo of the new chunk in the control's place. It means
// what the control did.

const (
	// EchoMax is the longest text that is worth an echo.
	EchoMax = 1 << 20
	// echoPiece is the shortest piece that is worth pointing at.
	echoPiece = 16
)

// AppendEcho encodes text as an echo of source, the elements of a chunk, one
// after the other: the length of the text (uvarint) and then, in turns, bytes of
// its own (length as uvarint, and the bytes) and a piece of the source (offset
// and length as uvarints), until it is complete.
func AppendEcho(b, text, source []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	var last [1 << 12]int32 // by hash: one more than where in source its bytes are
	hash := func(p []byte) uint32 {
		return uint32(binary.LittleEndian.Uint64(p)*0x9E3779B97F4A7C15>>52) & (1<<12 - 1)
	}
	for i := 0; i+8 <= len(source); i++ {
		last[hash(source[i:])] = int32(i + 1)
	}
	own := 0 // from here on text is not yet encoded
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

// parseEcho is the text that AppendEcho was given.
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
