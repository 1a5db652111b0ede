package sqlite

import (
	"encoding/binary"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

// A manifest is the decoded record of a checkpoint. Its encoding is
//
//	header    see saved.Header
//	metadata  if flagged: length (uvarint) and bytes
//	control   if flagged: length (uvarint) and bytes, or if it is an echo,
//	          chain and seq (uvarints), length (uvarint) and bytes: see echo.go
//	slots     their number (uvarint), then
//	          without a base: each slot, see saved.Slot
//	          with a base: its chain (uvarint), repeated (uvarint), and the
//	          patches, see saved.AppendPatches
type manifest struct {
	saved.Header
	shared   bool   // use the run's metadata
	metadata []byte // used if not shared
	control  []byte
	echo     *saved.Segment // if not nil, control is the encoding of an echo of this segment's last chunk
	slots    []saved.Slot

	// With a base, slots contains the base's slots with the patches applied: see resolve.
	// Old changes are in the base and recent changes in the patches, so the cost of a
	// step depends on what it changes, not on the size of the state.
	based    bool
	base     int64 // the base's chain
	repeated int   // bytes of unchanged slots that were rewritten since the base
	count    int   // number of slots
	patches  []saved.Patch
}

const (
	sharesMetadata = saved.FirstFlag << iota
	hasMetadata
	hasControl
	isEcho
	hasBase
)

// append encodes m as the manifest of checkpoint id.
func (m *manifest) append(b []byte, id checkpoint.ID) []byte {
	var flags byte
	if m.shared {
		flags |= sharesMetadata
	} else if m.metadata != nil {
		flags |= hasMetadata
	}
	if m.control != nil {
		flags |= hasControl
	}
	if m.echo != nil {
		flags |= isEcho
	}
	if m.based {
		flags |= hasBase
	}
	b = m.Header.Append(b, id, flags)
	if flags&hasMetadata != 0 {
		b = saved.AppendBytes(b, m.metadata)
	}
	if flags&isEcho != 0 {
		b = binary.AppendUvarint(b, uint64(m.echo.Chain))
		b = binary.AppendUvarint(b, uint64(m.echo.Hi))
	}
	if flags&hasControl != 0 {
		b = saved.AppendBytes(b, m.control)
	}
	if !m.based {
		return appendSlots(b, m.slots)
	}
	b = binary.AppendUvarint(b, uint64(m.count))
	b = binary.AppendUvarint(b, uint64(m.base))
	b = binary.AppendUvarint(b, uint64(m.repeated))
	return saved.AppendPatches(b, m.patches)
}

func appendSlots(b []byte, slots []saved.Slot) []byte {
	return saved.AppendSlots(binary.AppendUvarint(b, uint64(len(slots))), slots)
}

// parseManifest decodes the record of checkpoint id. The result shares the record's
// memory. Call resolve before reading its slots.
func parseManifest(record []byte, id checkpoint.ID) (*manifest, error) {
	r := saved.Reader{Rest: record}
	header, flags, err := r.Header(id)
	if err != nil {
		return nil, damaged(err)
	}
	m := &manifest{Header: header, shared: flags&sharesMetadata != 0, based: flags&hasBase != 0}
	if flags&hasMetadata != 0 {
		m.metadata = r.Bytes()
	}
	if flags&isEcho != 0 {
		m.echo = &saved.Segment{Chain: r.Int(), Hi: r.Int()}
	}
	if flags&hasControl != 0 {
		m.control = r.Bytes()
	}
	if m.based {
		m.count, m.base, m.repeated = int(r.Int()), r.Int(), int(r.Int())
		m.patches = r.Patches(m.count)
	} else {
		m.slots = r.Slots(r.Count())
		m.count = len(m.slots)
	}
	if !r.Done() {
		return nil, fmt.Errorf("%w: checkpoint %s: record invalid after %d of %d bytes", ErrDamaged, id, len(record)-len(r.Rest), len(record))
	}
	return m, nil
}

// damaged wraps err in ErrDamaged.
func damaged(err error) error { return fmt.Errorf("%w: %w", ErrDamaged, err) }

// resolve fills in the slots from the base and returns the base.
func (m *manifest) resolve(l *loader) (base []saved.Slot, err error) {
	if !m.based {
		return nil, nil
	}
	if err := l.fetch(m.base, 0); err != nil {
		return nil, err
	}
	one, err := l.chains.One(m.base)
	if err == nil {
		r := saved.Reader{Rest: one}
		base = r.Slots(r.Count())
		var fits bool
		if m.slots, fits = saved.Patched(base, m.count, m.patches); fits && r.Done() {
			return base, nil
		}
	}
	return nil, fmt.Errorf("%w: chain %d is not a base of %d channels", ErrDamaged, m.base, m.count)
}
