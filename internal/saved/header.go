package saved

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle/checkpoint"
)

// A Header is the start of a record. Its encoding is
//
//	format    byte, 1
//	flags     byte
//	shape     uvarint
//	rev       uvarint
//	step      varint
//	source    byte; 0: its length (uvarint) and text follow
//	parent    if flagged: a byte, prefix<<4 | n-1, and n bytes; the rest of
//	          the ID equals the checkpoint's ID
type Header struct {
	Shape  int64
	Rev    uint64 // the namespace's rev at creation; see Slot.Owned
	Step   int
	Source checkpoint.Source
	Parent checkpoint.ID
}

const format = 1

// Flags from FirstFlag on describe the data that follows the header.
const (
	hasParent = 1 << iota
	FirstFlag
)

// sources lists the sources encoded as one byte; other sources are spelled out.
var sources = []checkpoint.Source{checkpoint.Input, checkpoint.Loop, checkpoint.Update, checkpoint.Fork}

// Append encodes h, the header of the checkpoint with the given ID, and the flags of the
// data that follows it.
func (h *Header) Append(b []byte, id checkpoint.ID, flags byte) []byte {
	if !h.Parent.IsZero() {
		flags |= hasParent
	}
	b = append(b, format, flags)
	b = binary.AppendUvarint(b, uint64(h.Shape))
	b = binary.AppendUvarint(b, h.Rev)
	b = binary.AppendVarint(b, int64(h.Step))
	b = append(b, byte(slices.Index(sources, h.Source)+1))
	if b[len(b)-1] == 0 {
		b = AppendBytes(b, h.Source)
	}
	if flags&hasParent != 0 {
		b = appendParent(b, id, h.Parent)
	}
	return b
}

// appendParent writes the middle part of parent, where it differs from id. IDs created
// consecutively by one process share most of their bytes.
func appendParent(b []byte, id, parent checkpoint.ID) []byte {
	from, to := 0, len(id)
	for from < len(id)-1 && parent[from] == id[from] {
		from++
	}
	for to > from+1 && parent[to-1] == id[to-1] {
		to--
	}
	b = append(b, byte(from<<4|(to-from-1)))
	return append(b, parent[from:to]...)
}

// Header reads the header of the checkpoint with the given ID. It returns an error if the
// record's format is unknown; if the header is otherwise invalid, r becomes bad.
func (r *Reader) Header(id checkpoint.ID) (h Header, flags byte, err error) {
	if have := r.Byte(); have != format && !r.Bad {
		return h, 0, fmt.Errorf("record of checkpoint %s: unknown format %d", id, have)
	}
	flags = r.Byte()
	h.Shape = r.Int()
	h.Rev = r.Uvarint()
	h.Step = int(r.Varint())
	if n := int(r.Byte()); n == 0 {
		h.Source = checkpoint.Source(r.Bytes())
	} else if n <= len(sources) {
		h.Source = sources[n-1]
	} else {
		r.Fail()
	}
	if flags&hasParent != 0 {
		h.Parent = r.parent(id)
	}
	return h, flags, nil
}

func (r *Reader) parent(id checkpoint.ID) checkpoint.ID {
	at := r.Byte()
	from, n := int(at>>4), int(at&0xf)+1
	if from+n > len(id) || n > len(r.Rest) {
		r.Fail()
		return checkpoint.ID{}
	}
	copy(id[from:], r.Rest[:n])
	r.Rest = r.Rest[n:]
	return id
}
