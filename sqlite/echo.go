package sqlite

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
)

// The control of a checkpoint that was given input has the input in it, and the
// step after it appends the same to a list: in a conversation, every message
// of the user would be stored twice. So when a put appends what its parent's
// control says, the parent's record is written once more, with the control as
// an echo of the new chunk. It means what it meant before.
//
// The code of an echo is its length (uvarint) and then, in turns, bytes of its
// own (length as uvarint, and the bytes) and a piece of the chunk's elements,
// one after the other (offset and length as uvarints), until it is complete.
type echo struct {
	chain, seq int64 // the chunk
}

const (
	// A control is worth an echo within these sizes.
	echoMin, echoMax = 128, 1 << 20
	// echoGain is how much an echo has to save.
	echoGain = 64
	// echoPiece is the shortest piece that is worth pointing at.
	echoPiece = 16
)

func worthEcho(control []byte) bool { return len(control) >= echoMin && len(control) <= echoMax }

// echoOf makes the parent's record shorter by what g appends, if the parent is
// the head, and returns it and by how much; nil if there is nothing to gain.
func (c *conn) echoOf(h *head, parent checkpoint.ID, g *growth) (record []byte, saved int, err error) {
	if !h.echoes || parent != h.id || len(g.chunks) == 0 {
		return nil, 0, nil
	}
	old := h.record
	if old == nil {
		// If it is not there, h is stale, which the compare-and-set will see.
		ok, err := c.row("SELECT record FROM checkpoint WHERE key=?", []any{keyOf(h.line, h.at)}, &old)
		if err != nil || !ok {
			return nil, 0, err
		}
	}
	m, err := parseManifest(old, parent)
	if err != nil {
		return nil, 0, err
	}
	control := m.control
	for _, k := range g.chunks {
		chunks, ok := parseChunks(k.data, 1)
		if !ok {
			continue
		}
		code := appendEcho(nil, control, bytes.Join(chunks[0].items, nil))
		if len(code)+echoGain > len(control) || m.echo != nil && len(code) >= len(m.control) {
			continue
		}
		m.echo, m.control = &echo{k.chain, k.seq}, code
	}
	if m.echo == nil {
		return nil, 0, nil
	}
	record = m.append(nil, parent)
	return record, len(old) - len(record), nil
}

// appendEcho encodes text as an echo of source.
func appendEcho(b, text, source []byte) []byte {
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

// parseEcho is the text that appendEcho was given.
func parseEcho(code, source []byte) ([]byte, bool) {
	r := reader{rest: code}
	size := r.uvarint()
	if size > echoMax {
		return nil, false
	}
	text := make([]byte, 0, size)
	for !r.bad && uint64(len(text)) < size {
		text = append(text, r.bytes()...)
		if uint64(len(text)) >= size {
			break
		}
		at, n := r.uvarint(), r.uvarint()
		if at > uint64(len(source)) || n > uint64(len(source))-at || n == 0 {
			return nil, false
		}
		text = append(text, source[at:at+n]...)
	}
	return text, !r.bad && len(r.rest) == 0 && uint64(len(text)) == size
}

// echoed reads the control of a manifest that has it as an echo.
func (l *loader) echoed(m *manifest) ([]byte, error) {
	chunks, err := l.chunks(m.echo.chain, m.echo.seq)
	if err != nil {
		return nil, err
	}
	text, ok := parseEcho(m.control, bytes.Join(chunks[m.echo.seq].items, nil))
	if !ok {
		return nil, fmt.Errorf("%w: it is not an echo of chunk %d of chain %d", ErrDamaged, m.echo.seq, m.echo.chain)
	}
	return text, nil
}
