package sqlite

import (
	"encoding/binary"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

// A manifest is what the record of a checkpoint says. Encoded it is
//
//	header    see saved.Header
//	metadata  if flagged: length (uvarint) and bytes
//	control   if flagged: length (uvarint) and bytes, or if it is an echo,
//	          chain and seq (uvarints), length (uvarint) and bytes: see echo.go
//	slots     their number (uvarint), then
//	          without a base: each slot, see saved.Slot
//	          with one: its chain (uvarint), rent (uvarint), the number of
//	          patches (uvarint), and for each how many slots before it are
//	          the base's (uvarint) and the slot
type manifest struct {
	saved.Header
	shared   bool   // the metadata is the run's
	metadata []byte // otherwise
	control  []byte
	echo     *saved.Segment // whose last chunk the control is an echo of, if it is one; then control is the echo's code
	slots    []saved.Slot

	// With a base, slots are its slots with the patches applied: see resolve.
	// What changed long ago is in the base, what changed lately in the patches,
	// so a step costs what it changes and not what there is.
	based   bool
	base    int64 // the chain that has it
	rent    int   // the bytes of patches that were written again and again since
	count   int   // of slots
	patches []patch
}

// patch is a slot that is not as the base has it.
type patch struct {
	at int
	saved.Slot
}

const (
	sharesMetadata = saved.FirstFlag << iota
	hasMetadata
	hasControl
	isEcho
	hasBase
)

// append encodes m, the manifest of the checkpoint id.
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
	b = binary.AppendUvarint(b, uint64(m.rent))
	b = binary.AppendUvarint(b, uint64(len(m.patches)))
	next := 0
	for i := range m.patches {
		p := &m.patches[i]
		b = binary.AppendUvarint(b, uint64(p.at-next))
		b = p.Append(b)
		next = p.at + 1
	}
	return b
}

func appendSlots(b []byte, slots []saved.Slot) []byte {
	return saved.AppendSlots(binary.AppendUvarint(b, uint64(len(slots))), slots)
}

// parseManifest decodes the record of the checkpoint id. The result shares the
// record's memory, and is to be resolved before its slots are looked at.
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
		m.readPatches(&r)
	} else {
		m.slots = r.Slots(r.Count())
		m.count = len(m.slots)
	}
	if !r.Done() {
		return nil, fmt.Errorf("%w: record of checkpoint %s: broken after %d of %d bytes", ErrDamaged, id, len(record)-len(r.Rest), len(record))
	}
	return m, nil
}

// damaged says of what is wrong with stored data that it is so.
func damaged(err error) error { return fmt.Errorf("%w: %w", ErrDamaged, err) }

func (m *manifest) readPatches(r *saved.Reader) {
	m.count, m.base, m.rent = int(r.Int()), r.Int(), int(r.Int())
	n := r.Count()
	if n > 0 {
		m.patches = make([]patch, n)
	}
	next := int64(0)
	for i := range m.patches {
		at := next + r.Int()
		if at >= int64(m.count) || at < next {
			r.Fail()
			return
		}
		m.patches[i] = patch{int(at), r.Slot()}
		next = at + 1
	}
}

// resolve fills in the slots from the base, which it returns.
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
		// Slots that the base does not have are all patched.
		if r.Done() && len(base) <= m.count && m.count <= len(base)+len(m.patches) {
			m.slots = make([]saved.Slot, m.count)
			copy(m.slots, base)
			for _, p := range m.patches {
				m.slots[p.at] = p.Slot
			}
			return base, nil
		}
	}
	return nil, fmt.Errorf("%w: chain %d is not a base of %d channels", ErrDamaged, m.base, m.count)
}
