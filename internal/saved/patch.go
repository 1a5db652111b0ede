package saved

import "encoding/binary"

// A base is the slots of an earlier checkpoint. The record of a checkpoint that
// is based on it has only the slots that differ, the patches, so a step costs
// what it changes and not what there is.

// A Patch is a slot that differs from the base's, or that the base does not
// have.
type Patch struct {
	At int // among the slots
	Slot
}

// Patches returns the slots that are not as the base has them.
func Patches(base, slots []Slot) (out []Patch) {
	for i := range slots {
		if !InBase(base, slots, i) {
			out = append(out, Patch{i, slots[i]})
		}
	}
	return out
}

// InBase reports whether the base has slot i as it is.
func InBase(base, slots []Slot, i int) bool { return i < len(base) && slots[i].Equal(&base[i]) }

// AppendPatches encodes patches: their number (uvarint), and for each how many
// slots since the one before are the base's (uvarint), and the slot.
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

// Patched returns the count slots of a record: the base's, with the patches. It
// reports whether they fit together: slots that the base does not have must be
// patches.
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
