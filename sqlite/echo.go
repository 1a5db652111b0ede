package sqlite

import (
	"bytes"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

// When a put appends what its parent's control says, the parent's record is
// written once more, with the control as an echo of the new chunk: see
// saved.AppendEcho.

const (
	// A control is worth an echo within these sizes.
	echoMin, echoMax = 128, saved.EchoMax
	// echoGain is how much an echo has to save.
	echoGain = 64
)

func worthEcho(control []byte) bool { return len(control) >= echoMin && len(control) <= echoMax }

// echoOf makes the parent's record shorter by what g appends, if the parent is
// the head, and returns it and by how much; nil if there is nothing to gain. A head that
// is not stored yet has the record old.
func (c *conn) echoOf(h *head, old []byte, parent checkpoint.ID, g *growth) (record []byte, less int, err error) {
	if !h.echoes || parent != h.id || len(g.Chunks) == 0 {
		return nil, 0, nil
	}
	if old == nil {
		old = h.record
	}
	if old == nil {
		if old, err = c.recordOf(h); old == nil || err != nil {
			return nil, 0, err
		}
	}
	m, err := parseManifest(old, parent)
	if err != nil {
		return nil, 0, err
	}
	control := m.control
	for _, k := range g.Chunks {
		one, ok := saved.ParseChunk(k.Data)
		if !ok {
			continue
		}
		code := saved.AppendEcho(nil, control, bytes.Join(one.Items, nil))
		if len(code)+echoGain > len(control) || m.echo != nil && len(code) >= len(m.control) {
			continue
		}
		m.echo, m.control = &saved.Segment{Chain: k.Chain, Hi: k.Seq}, code
	}
	if m.echo == nil {
		return nil, 0, nil
	}
	record = m.append(nil, parent)
	return record, len(old) - len(record), nil
}

// recordOf reads the record of a head. It is nil if it is damaged, and stays as it is then;
// also if it is not there, or another: h is stale, which the compare-and-set will see.
func (c *conn) recordOf(h *head) (record []byte, err error) {
	var sum sum
	key := keyOf(h.line, h.at)
	ok, err := c.row("SELECT record, sum FROM checkpoint WHERE key=?", []any{key}, &record, &sum)
	if err != nil || !ok || !c.intact(sum, checkpointSum(key, h.id, h.run.number, record)) {
		return nil, err
	}
	return record, nil
}

// echoed reads the control of a manifest that has it as an echo.
func (l *loader) echoed(m *manifest) ([]byte, error) {
	if err := l.fetch(m.echo.Chain, m.echo.Hi); err != nil {
		return nil, err
	}
	text, err := l.chains.Echoed(*m.echo, m.control)
	if err != nil {
		return nil, damaged(err)
	}
	return text, nil
}
