package postgres

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

// A manifest is what the record of a checkpoint says. Encoded it is
//
//	header    see saved.Header
//	rent      uvarint
//	slots     their number (uvarint), then
//	          without a base: each slot, see saved.Slot
//	          with one: the number of patches (uvarint), and for each how many
//	          slots before it are the base's (uvarint), and the slot
//
// and nothing after that.
//
// A base is a chain of one chunk, whose element is slots, one after the other.
// The record of a checkpoint that is based on it has those slots that are others
// by now, the patches: what changed long ago is in the base, so a step costs what
// it changes and not what there is.
type manifest struct {
	saved.Header
	rent  int          // bytes that were written, since the last base, of slots that had not changed
	slots []saved.Slot // in the order of the shape's names
	base  *base        // or nil
}

// base is the slots of an earlier checkpoint.
type base struct {
	chain int64
	slots []saved.Slot
}

const hasBase = saved.FirstFlag

// append encodes m, the manifest of the checkpoint id.
func (m *manifest) append(b []byte, id checkpoint.ID) []byte {
	var flags byte
	if m.base != nil {
		flags |= hasBase
	}
	b = m.Header.Append(b, id, flags)
	b = binary.AppendUvarint(b, uint64(m.rent))
	b = binary.AppendUvarint(b, uint64(len(m.slots)))
	if m.base == nil {
		return saved.AppendSlots(b, m.slots)
	}
	var patches []int
	for i := range m.slots {
		if m.written(i) {
			patches = append(patches, i)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(patches)))
	next := 0
	for _, i := range patches {
		b = binary.AppendUvarint(b, uint64(i-next))
		b = m.slots[i].Append(b)
		next = i + 1
	}
	return b
}

// written reports whether the record has slot i, because the base has not.
func (m *manifest) written(i int) bool {
	return m.base == nil || i >= len(m.base.slots) || !m.slots[i].Equal(&m.base.slots[i])
}

// baseCost is what a base costs beyond its bytes: a row and its place in the
// index.
const baseCost = 128

// settle decides what the record of m is based on: what its parent's was, or a
// base of its own. The changed slots were so by this step; what else the record
// has to say is rent. A base is bought when as much as it costs has been paid.
func (m *manifest) settle(changed []bool, begin func([]byte) int64) {
	for i := range m.slots {
		if m.written(i) && !changed[i] {
			m.rent += m.slots[i].Size()
		}
	}
	if m.rent <= baseCost {
		return
	}
	if all := saved.AppendSlots(nil, m.slots); m.rent > len(all)+baseCost {
		m.rent, m.base = 0, &base{begin(all), slices.Clone(m.slots)}
	}
}

// parseManifest decodes the record of the checkpoint id, which is based on b if
// that is not nil. The result shares the record's memory.
func parseManifest(record []byte, id checkpoint.ID, b *base) (*manifest, error) {
	r := saved.Reader{Rest: record}
	header, flags, err := r.Header(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	m := &manifest{Header: header, rent: int(r.Int()), base: b}
	if based := flags&hasBase != 0; based != (b != nil) {
		r.Fail()
	} else if based {
		m.readPatches(&r)
	} else {
		m.slots = r.Slots(r.Count())
	}
	if !r.Done() {
		return nil, fmt.Errorf("%w: record of checkpoint %s: broken", ErrDamaged, id)
	}
	return m, nil
}

// parseBase takes the first chunk of a base's chain apart.
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
	return nil, fmt.Errorf("%w: chain %d is no base", ErrDamaged, chain)
}

// readPatches makes the slots of m out of its base's and those that follow.
func (m *manifest) readPatches(r *saved.Reader) {
	n := int(r.Int())
	if n < len(m.base.slots) || n > len(m.base.slots)+len(r.Rest) {
		r.Fail()
		return
	}
	m.slots = make([]saved.Slot, n)
	known := copy(m.slots, m.base.slots) // the others must be patches
	at := 0
	for range r.Count() {
		skip := r.Int()
		if r.Bad || skip > int64(n) || at+int(skip) >= n || at+int(skip) > max(at, known) {
			r.Fail()
			return
		}
		at += int(skip)
		m.slots[at] = r.Slot()
		at++
	}
	if n > known && at < n {
		r.Fail()
	}
}

// need adds what the manifest refers to: chains and their last chunk.
func (m *manifest) need(want map[int64]int64) {
	if m.base != nil {
		want[m.base.chain] = 0
	}
	for i := range m.slots {
		m.slots[i].Need(want)
	}
}
