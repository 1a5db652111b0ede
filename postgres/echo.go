package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// The control of a checkpoint that was given input has the input in it, and the
// step after it appends the same to a list: in a conversation, every message
// of the user would be stored twice. So when a put appends what its parent's
// control says, the parent's row gets an echo in the control's place. It means
// what the control did, and the server has the room of the old row again
// without a vacuum, as no index is concerned.
//
// An echo is the chain and the number (uvarints) of a chunk, the length of the
// control (uvarint), and then, in turns, bytes of its own (length as uvarint,
// and the bytes) and a piece of the chunk's elements, one after the other
// (offset and length as uvarints), until it is complete.

const (
	// A control is worth an echo within these sizes.
	echoMin, echoMax = 192, 1 << 20
	// echoGain is how much an echo has to save.
	echoGain = 128
	// echoPiece is the shortest piece that is worth pointing at.
	echoPiece = 16
)

func worthEcho(control []byte) bool { return len(control) >= echoMin && len(control) <= echoMax }

// echoOf is the shortest echo of the control among the chunks, nil if none is
// short enough.
func echoOf(control []byte, chunks []newChunk) (best []byte) {
	for _, k := range chunks {
		parsed, ok := parseChunk(k.data)
		if !ok {
			continue
		}
		code := binary.AppendUvarint(nil, uint64(k.chain))
		code = binary.AppendUvarint(code, uint64(k.seq))
		code = appendEcho(code, control, bytes.Join(parsed.items, nil))
		if len(code)+echoGain <= len(control) && (best == nil || len(code) < len(best)) {
			best = code
		}
	}
	return best
}

// appendEcho encodes text as an echo of source.
func appendEcho(b, text, source []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	var last [1 << 12]int32 // by hash: one more than where in source its bytes are
	hash := func(p []byte) uint32 {
		return uint32(binary.LittleEndian.Uint64(p) * 0x9E3779B97F4A7C15 >> 52)
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
		b = appendBytes(b, text[own:i])
		b = binary.AppendUvarint(b, uint64(at))
		b = binary.AppendUvarint(b, uint64(n))
		i += n
		own = i
	}
	if own < len(text) {
		b = appendBytes(b, text[own:])
	}
	return b
}

// echoed is the chunk that an echo is of.
func echoed(echo []byte) (at segment, rest reader, err error) {
	rest = reader{rest: echo}
	at = segment{rest.int(), rest.int()}
	if rest.bad {
		return at, rest, fmt.Errorf("%w: an echo is unreadable", ErrDamaged)
	}
	return at, rest, nil
}

// control makes a control of its echo.
func (have chains) control(echo []byte) ([]byte, error) {
	at, r, err := echoed(echo)
	if err != nil {
		return nil, err
	}
	source := bytes.Join(have[at.chain][at.hi].items, nil)
	size := r.uvarint()
	if size > echoMax {
		r.fail()
		size = 0
	}
	text := make([]byte, 0, size)
	for !r.bad && uint64(len(text)) < size {
		text = append(text, r.bytes()...)
		if uint64(len(text)) >= size {
			break
		}
		at, n := r.uvarint(), r.uvarint()
		if at > uint64(len(source)) || n > uint64(len(source))-at || n == 0 {
			r.fail()
			break
		}
		text = append(text, source[at:at+n]...)
	}
	if r.bad || len(r.rest) > 0 || uint64(len(text)) != size {
		return nil, fmt.Errorf("%w: it is not an echo of chunk %d of chain %d", ErrDamaged, at.hi, at.chain)
	}
	return text, nil
}
