package saved

import "encoding/binary"

// A base is the slots of an earlier checkpoint. The record of a checkpoint that is based
// on it contains only the slots that differ, the patches, so the cost of a step depends
// on what it changes, not on the size of the state.

// A Patch is a slot that differs from the base's slot or that the base lacks.
type Patch struct {
	At int // slot index
	Slot
}

// Patches returns the slots that differ from the base.
func Patches(base, slots []Slot) (out []Patch) {
	for i := range slots {
		if !InBase(base, slots, i) {
			out = append(out, Patch{i, slots[i]})
		}
	}
	return out
}

// InBase reports whether the base contains an equal slot i.
func InBase(base, slots []Slot, i int) bool { return i < len(base) && slots[i].Equal(&base[i]) }

// AppendPatches encodes patches: their number (uvarint) and, for each, the number of base
// slots skipped since the previous patch (uvarint) and the slot.
func AppendPatches(b []byte, patches []Patch) []byte {
	b = binary.AppendUvarint(b, uint64(len(patches)))
	next := 0
	for i := range patches {
		p := &patches[i]
		b = binary.AppendUvarint(b, uint64(p.At-next))
		b = p.Append(b)
		next = p.At + 1
	}
	return b
}

// Patches reads the patches of a record with count slots.
func (r *Reader) Patches(count int) []Patch {
	n := r.Count()
	if n == 0 {
		return nil
	}
	out := make([]Patch, 0, n)
	next := int64(0)
	for range n {
		skip := r.Int()
		if r.Bad || skip >= int64(count)-next {
			r.Fail()
			return nil
		}
		out = append(out, Patch{int(next + skip), r.Slot()})
		next += skip + 1
	}
	return out
}

// Patched returns the count slots of a record: the base's slots with the patches applied.
// It reports whether they are consistent: slots that the base lacks must be patches.
func Patched(base []Slot, count int, patches []Patch) ([]Slot, bool) {
	if count < len(base) || count > len(base)+len(patches) {
		return nil, false
	}
	out := make([]Slot, count)
	known := copy(out, base)
	for _, p := range patches {
		if p.At > known {
			return nil, false
		}
		known = max(known, p.At+1)
		out[p.At] = p.Slot
	}
	return out, known == count
}
