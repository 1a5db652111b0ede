package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/treadle-go/treadle/internal/saved"
)

// When a put appends what its parent's control says, the parent's row gets an
// echo in the control's place: the chain and the number (uvarints) of a chunk,
// and what saved.AppendEcho says of its elements. The server has the room of the
// old row again without a vacuum, as no index is concerned.

const (
	// A control is worth an echo within these sizes.
	echoMin, echoMax = 192, saved.EchoMax
	// echoGain is how much an echo has to save.
	echoGain = 128
)

func worthEcho(control []byte) bool { return len(control) >= echoMin && len(control) <= echoMax }

// echoOf is the shortest echo of the control among the chunks, nil if none is
// short enough.
func echoOf(control []byte, chunks []saved.NewChunk) (best []byte) {
	for _, k := range chunks {
		parsed, ok := saved.ParseChunk(k.Data)
		if !ok {
			continue
		}
		code := binary.AppendUvarint(nil, uint64(k.Chain))
		code = binary.AppendUvarint(code, uint64(k.Seq))
		code = saved.AppendEcho(code, control, bytes.Join(parsed.Items, nil))
		if len(code)+echoGain <= len(control) && (best == nil || len(code) < len(best)) {
			best = code
		}
	}
	return best
}

// echoed is the chunk that an echo is of, and what it says of it.
func echoed(echo []byte) (at saved.Segment, code []byte, err error) {
	r := saved.Reader{Rest: echo}
	at = saved.Segment{Chain: r.Int(), Hi: r.Int()}
	if r.Bad {
		return at, nil, fmt.Errorf("%w: an echo is unreadable", ErrDamaged)
	}
	return at, r.Rest, nil
}

// controlOf makes a control of its echo.
func controlOf(echo []byte, have saved.Chains) ([]byte, error) {
	at, code, err := echoed(echo)
	if err != nil {
		return nil, err
	}
	control, err := have.Echoed(at, code)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return control, nil
}
