package sqlite

import (
	"bytes"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// If a put appends data that is also in its parent's control, the parent's record is
// rewritten with the control as an echo of the new chunk: see saved.AppendEcho.

const (
	// Only controls within these sizes are worth an echo.
	echoMin, echoMax = 128, saved.EchoMax
	// echoGain is the minimum number of bytes that an echo must save.
	echoGain = 64
)

func worthEcho(control []byte) bool { return len(control) >= echoMin && len(control) <= echoMax }

// echoOf returns the parent's record shortened by an echo of the data that g appends, and
// the number of bytes saved. It returns nil if the parent is not the head or if nothing
// can be saved. The record of a head that is not saved yet is old.
func echoOf(c *database.Conn, h *head, old []byte, parent checkpoint.ID, g *growth) (record []byte, less int, err error) {
	if !h.echoes || parent != h.id || len(g.Chunks) == 0 {
		return nil, 0, nil
	}
	if old == nil {
		old = h.record
	}
	if old == nil {
		if old, err = recordOf(c, h); old == nil || err != nil {
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

// recordOf returns the record of a head. It returns nil if the record is damaged, which
// leaves it unchanged. It also returns nil if the record is missing or a different one: h
// is then stale, which the compare-and-set will detect.
func recordOf(c *database.Conn, h *head) (record []byte, err error) {
	var sum int64
	key := keyOf(h.line, h.at)
	ok, err := c.Row("SELECT record, sum FROM checkpoint WHERE key=?", []any{key}, &record, &sum)
	if err != nil || !ok || !database.Intact(sum, checkpointSum(key, h.id, h.run.number, record)) {
		return nil, err
	}
	return record, nil
}

// echoed returns the control of a manifest that stores it as an echo.
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
