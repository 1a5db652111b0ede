package saved

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// A Slot is the value of one channel in a record. Its encoding is
//
//	kind      byte; 0 means an empty channel and ends the slot
//	version   uvarint
//	small:    length (uvarint) and bytes
//	large:    chain (uvarint)
//	list:     elements (uvarint), segments (uvarint), and for each segment
//	          chain and hi (uvarints); a list with elements but no segments
//	          is a short list: length (uvarint) and bytes
//
// All other data of a value is in chunks.
type Slot struct {
	Kind     Kind
	Version  uint64
	Data     []byte    // for a small value, or a short list: each element with its length (uvarint)
	Chain    int64     // for a large value
	Length   int       // for a list: the number of elements
	Segments []Segment // for a list
	// Owned reports whether the last segment ends its chain and may be extended. It is
	// valid while the checkpoint is the head and the namespace's rev equals the header's,
	// because no other writer has then extended the chain.
	Owned bool
}

// A Segment is the prefix of a chain up to and including chunk Hi. A list is the
// concatenation of its segments; a fork starts a new segment.
type Segment struct {
	Chain int64
	Hi    int64
}

// A Kind is the way a slot stores its value.
type Kind byte

// Slot kinds.
const (
	None Kind = iota
	Small
	Large
	List
	ownedBit Kind = 0x80 // combined with List
)

// InlineMax is the maximum length of a value or list that is stored in its slot.
const InlineMax = 48

// Append encodes the slot.
func (s *Slot) Append(b []byte) []byte {
	k := s.Kind
	if s.Owned {
		k |= ownedBit
	}
	b = append(b, byte(k))
	if s.Kind == None {
		return b
	}
	b = binary.AppendUvarint(b, s.Version)
	switch s.Kind {
	case Small:
		b = AppendBytes(b, s.Data)
	case Large:
		b = binary.AppendUvarint(b, uint64(s.Chain))
	case List:
		b = binary.AppendUvarint(b, uint64(s.Length))
		b = binary.AppendUvarint(b, uint64(len(s.Segments)))
		for _, g := range s.Segments {
			b = binary.AppendUvarint(b, uint64(g.Chain))
			b = binary.AppendUvarint(b, uint64(g.Hi))
		}
		if s.short() {
			b = AppendBytes(b, s.Data)
		}
	}
	return b
}

// short reports whether the slot itself contains the elements of a list.
func (s *Slot) short() bool { return s.Length > 0 && len(s.Segments) == 0 }

// AppendSlots encodes slots without their number.
func AppendSlots(b []byte, slots []Slot) []byte {
	for i := range slots {
		b = slots[i].Append(b)
	}
	return b
}

// Size returns the encoded length of the slot.
func (s *Slot) Size() int {
	var b [256]byte
	return len(s.Append(b[:0]))
}

// Equal reports whether both slots have the same encoding.
func (s *Slot) Equal(o *Slot) bool {
	return s.Kind == o.Kind && s.Version == o.Version && s.Owned == o.Owned && s.Chain == o.Chain && s.Length == o.Length &&
		bytes.Equal(s.Data, o.Data) && slices.Equal(s.Segments, o.Segments)
}

// Need adds the chains that the slot refers to, each with the last chunk needed.
func (s *Slot) Need(want map[int64]int64) {
	if s.Kind == Large {
		want[s.Chain] = max(want[s.Chain], 0)
	}
	for _, g := range s.Segments {
		want[g.Chain] = max(want[g.Chain], g.Hi)
	}
}

// Slot reads a slot.
func (r *Reader) Slot() (s Slot) {
	k := Kind(r.Byte())
	s.Kind, s.Owned = k&^ownedBit, k&ownedBit != 0
	if s.Kind == None && !s.Owned {
		return s
	}
	s.Version = r.Uvarint()
	switch s.Kind {
	case Small:
		s.Data = r.Bytes()
	case Large:
		s.Chain = r.Int()
	case List:
		s.Length = int(r.Int())
		if n := r.Count(); n > 0 {
			s.Segments = make([]Segment, n)
		}
		for i := range s.Segments {
			s.Segments[i] = Segment{r.Int(), r.Int()}
		}
		if s.short() {
			s.Data = r.Bytes()
		}
	default:
		r.Fail()
	}
	if s.Owned && len(s.Segments) == 0 {
		r.Fail()
	}
	return s
}

// Slots reads n slots. If n comes from the encoded data, read it with Count.
func (r *Reader) Slots(n int) []Slot {
	if n == 0 {
		return nil
	}
	out := make([]Slot, n)
	for i := range out {
		out[i] = r.Slot()
	}
	return out
}

// Detach copies the bytes of slots that were read from a record, so that keeping the
// slots does not keep the record, which can be much larger, in memory.
func Detach(slots []Slot) {
	for i := range slots {
		slots[i].Data = bytes.Clone(slots[i].Data)
	}
}
