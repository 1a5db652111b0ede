package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/treadle-go/treadle/internal/saved"
)

// If a put appends data that is also in its parent's control, the control in the parent's
// row is replaced by an echo: the chain and number (uvarints) of a chunk, followed by the
// encoding that saved.AppendEcho produces from the chunk's elements. Postgres reuses the
// space of the old row without a vacuum, because no index is affected.

const (
	// Only controls within these sizes are worth an echo.
	echoMin, echoMax = 192, saved.EchoMax
	// echoGain is the minimum number of bytes that an echo must save.
	echoGain = 128
)

func worthEcho(control []byte) bool { return len(control) >= echoMin && len(control) <= echoMax }

// echoOf returns the shortest echo of the control among the chunks, or nil if none is
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

// echoed returns the chunk that an echo refers to, and the rest of its encoding.
func echoed(echo []byte) (at saved.Segment, code []byte, err error) {
	r := saved.Reader{Rest: echo}
	at = saved.Segment{Chain: r.Int(), Hi: r.Int()}
	if r.Bad {
		return at, nil, fmt.Errorf("%w: unreadable echo", ErrDamaged)
	}
	return at, r.Rest, nil
}

// controlOf reconstructs a control from its echo.
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
