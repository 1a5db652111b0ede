package postgres

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

// A manifest is the decoded record of a checkpoint. Its encoding is
//
//	header    see saved.Header
//	repeated  uvarint
//	slots     their number (uvarint), then
//	          without a base: each slot, see saved.Slot
//	          with a base: the patches, see saved.AppendPatches
//
// and nothing else.
//
// A base is a chain with a single chunk. The chunk's only element is a sequence of slots.
type manifest struct {
	saved.Header
	repeated int          // bytes of unchanged slots that were rewritten since the last base
	slots    []saved.Slot // in the order of the shape's names
	base     *base        // or nil
}

// A base contains the slots of an earlier checkpoint.
type base struct {
	chain int64
	slots []saved.Slot
}

const hasBase = saved.FirstFlag

// append encodes m as the manifest of checkpoint id.
func (m *manifest) append(b []byte, id checkpoint.ID) []byte {
	var flags byte
	if m.base != nil {
		flags |= hasBase
	}
	b = m.Header.Append(b, id, flags)
	b = binary.AppendUvarint(b, uint64(m.repeated))
	b = binary.AppendUvarint(b, uint64(len(m.slots)))
	if m.base == nil {
		return saved.AppendSlots(b, m.slots)
	}
	return saved.AppendPatches(b, saved.Patches(m.base.slots, m.slots))
}

// written reports whether the record contains slot i because the base does not.
func (m *manifest) written(i int) bool {
	return m.base == nil || !saved.InBase(m.base.slots, m.slots, i)
}

// baseCost is the overhead of a base in bytes: a row and its index entry.
const baseCost = 128

// settle chooses the base of m's record: the parent's base or a new one. The slots marked
// in changed were changed by this step. A new base pays off when the unchanged slots that
// were rewritten take more space than the base would.
func (m *manifest) settle(changed []bool, begin func([]byte) int64) {
	for i := range m.slots {
		if m.written(i) && !changed[i] {
			m.repeated += m.slots[i].Size()
		}
	}
	if m.repeated <= baseCost {
		return
	}
	if all := saved.AppendSlots(nil, m.slots); m.repeated > len(all)+baseCost {
		m.repeated, m.base = 0, &base{begin(all), slices.Clone(m.slots)}
	}
}

// parseManifest decodes the record of checkpoint id. If b is not nil, the record is based
// on b. The result shares the record's memory.
func parseManifest(record []byte, id checkpoint.ID, b *base) (*manifest, error) {
	r := saved.Reader{Rest: record}
	header, flags, err := r.Header(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	m := &manifest{Header: header, repeated: int(r.Int()), base: b}
	if based := flags&hasBase != 0; based != (b != nil) {
		r.Fail()
	} else if based {
		count := int(r.Int())
		var fits bool
		if m.slots, fits = saved.Patched(b.slots, count, r.Patches(count)); !fits {
			r.Fail()
		}
	} else {
		m.slots = r.Slots(r.Count())
	}
	if !r.Done() {
		return nil, fmt.Errorf("%w: unreadable record of checkpoint %s", ErrDamaged, id)
	}
	return m, nil
}

// parseBase decodes the first chunk of a base's chain.
func parseBase(chain int64, k saved.Chunk) (*base, error) {
	if len(k.Items) == 1 {
		r := saved.Reader{Rest: k.Items[0]}
		b := &base{chain: chain}
		for len(r.Rest) > 0 {
			b.slots = append(b.slots, r.Slot())
		}
		if !r.Bad {
			return b, nil
		}
	}
	return nil, fmt.Errorf("%w: chain %d is not a base", ErrDamaged, chain)
}

// need adds the chains that the manifest refers to, each with its last chunk.
func (m *manifest) need(want map[int64]int64) {
	if m.base != nil {
		want[m.base.chain] = 0
	}
	for i := range m.slots {
		m.slots[i].Need(want)
	}
}
