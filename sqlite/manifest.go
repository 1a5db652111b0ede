package sqlite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle/checkpoint"
)

// A manifest is what the record of a checkpoint says. Encoded it is
//
//	format    byte, 1
//	flags     byte
//	shape     uvarint
//	rev       uvarint
//	step      varint
//	source    byte; 0: its length (uvarint) and text follow
//	parent    if flagged: a byte, prefix<<4 | n-1, and n bytes; the rest of
//	          the id is the checkpoint's own
//	metadata  if flagged: length (uvarint) and bytes
//	control   if flagged: length (uvarint) and bytes, or if it is an echo,
//	          chain and seq (uvarints), length (uvarint) and bytes: see echo.go
//	slots     their number (uvarint), then
//	          without a base: each slot
//	          with one: its chain (uvarint), rent (uvarint), the number of
//	          patches (uvarint), and for each how many slots before it are
//	          the base's (uvarint) and the slot
//
// and a slot is
//
//	kind      byte; with 0, an empty channel, the slot ends
//	version   uvarint
//	small:    length (uvarint) and bytes
//	large:    chain (uvarint)
//	list:     elements (uvarint), segments (uvarint), and for each of those
//	          chain and hi (uvarints)
//
// What a value needs beyond that is in chunks.
type manifest struct {
	shape    int64
	rev      uint64 // of the line, when this was made: see owned
	step     int
	source   checkpoint.Source
	parent   checkpoint.ID
	shared   bool   // the metadata is the run's
	metadata []byte // otherwise
	control  []byte
	echo     *echo // of what the control is, if it is one; then control is the echo's code
	slots    []slot

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
	slot
}

// slot is the value of one channel.
type slot struct {
	kind    kind
	version uint64
	data    []byte    // small
	chain   int64     // large
	length  int       // list: how many elements
	segs    []segment // list
	// owned: the last segment is the end of its chain and may be extended. That
	// holds as long as the checkpoint is the head and the line's rev is still
	// the manifest's, so nobody else can have extended it.
	owned bool
}

// segment is the beginning of a chain, up to and including chunk hi. A list is
// its segments, one after the other; a fork begins a new one.
type segment struct {
	chain int64
	hi    int64
}

type kind byte

const (
	kindNone kind = iota
	kindSmall
	kindLarge
	kindList
	ownedBit = 0x80 // beside kindList
)

// inlineMax is the longest value that stays in the manifest.
const inlineMax = 48

const manifestFormat = 1

const (
	hasParent = 1 << iota
	sharesMetadata
	hasMetadata
	hasControl
	isEcho
	hasBase
)

// sources have a byte each; a source that is not here is spelled out.
var sources = []checkpoint.Source{checkpoint.Input, checkpoint.Loop, checkpoint.Update, checkpoint.Fork}

// append encodes m, the manifest of the checkpoint id.
func (m *manifest) append(b []byte, id checkpoint.ID) []byte {
	var flags byte
	if !m.parent.IsZero() {
		flags |= hasParent
	}
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
	b = append(b, manifestFormat, flags)
	b = binary.AppendUvarint(b, uint64(m.shape))
	b = binary.AppendUvarint(b, m.rev)
	b = binary.AppendVarint(b, int64(m.step))
	b = append(b, byte(slices.Index(sources, m.source)+1))
	if b[len(b)-1] == 0 {
		b = appendBytes(b, m.source)
	}
	if flags&hasParent != 0 {
		b = appendParent(b, id, m.parent)
	}
	if flags&hasMetadata != 0 {
		b = appendBytes(b, m.metadata)
	}
	if flags&isEcho != 0 {
		b = binary.AppendUvarint(b, uint64(m.echo.chain))
		b = binary.AppendUvarint(b, uint64(m.echo.seq))
	}
	if flags&hasControl != 0 {
		b = appendBytes(b, m.control)
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
		b = p.append(b)
		next = p.at + 1
	}
	return b
}

func appendSlots(b []byte, slots []slot) []byte {
	b = binary.AppendUvarint(b, uint64(len(slots)))
	for i := range slots {
		b = slots[i].append(b)
	}
	return b
}

func (s *slot) append(b []byte) []byte {
	k := s.kind
	if s.owned {
		k |= ownedBit
	}
	b = append(b, byte(k))
	if s.kind == kindNone {
		return b
	}
	b = binary.AppendUvarint(b, s.version)
	switch s.kind {
	case kindSmall:
		b = appendBytes(b, s.data)
	case kindLarge:
		b = binary.AppendUvarint(b, uint64(s.chain))
	case kindList:
		b = binary.AppendUvarint(b, uint64(s.length))
		b = binary.AppendUvarint(b, uint64(len(s.segs)))
		for _, g := range s.segs {
			b = binary.AppendUvarint(b, uint64(g.chain))
			b = binary.AppendUvarint(b, uint64(g.hi))
		}
	}
	return b
}

func appendBytes[T ~[]byte | ~string](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// appendParent writes the middle of parent, where it differs from id: ids that
// one process made one after the other have most of their bytes in common.
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

// size is how long the slot is in a record.
func (s *slot) size() int {
	var b [256]byte
	return len(s.append(b[:0]))
}

func (s *slot) equal(o *slot) bool {
	return s.kind == o.kind && s.version == o.version && s.owned == o.owned && s.chain == o.chain && s.length == o.length &&
		bytes.Equal(s.data, o.data) && slices.Equal(s.segs, o.segs)
}

// parseManifest decodes the record of the checkpoint id. The result shares the
// record's memory, and is to be resolved before its slots are looked at.
func parseManifest(record []byte, id checkpoint.ID) (*manifest, error) {
	r := reader{rest: record}
	if format := r.byte(); format != manifestFormat && !r.bad {
		return nil, fmt.Errorf("%w: record of checkpoint %s: unknown format %d", ErrDamaged, id, format)
	}
	m := &manifest{}
	flags := r.byte()
	m.shape = r.int()
	m.rev = r.uvarint()
	m.step = int(r.varint())
	if n := int(r.byte()); n == 0 {
		m.source = checkpoint.Source(r.bytes())
	} else if n <= len(sources) {
		m.source = sources[n-1]
	} else {
		r.bad = true
	}
	if flags&hasParent != 0 {
		m.parent = r.parent(id)
	}
	m.shared = flags&sharesMetadata != 0
	if flags&hasMetadata != 0 {
		m.metadata = r.bytes()
	}
	if flags&isEcho != 0 {
		m.echo = &echo{r.int(), r.int()}
	}
	if flags&hasControl != 0 {
		m.control = r.bytes()
	}
	if m.based = flags&hasBase != 0; m.based {
		r.patches(m)
	} else {
		m.slots = r.slots()
		m.count = len(m.slots)
	}
	if r.bad || len(r.rest) > 0 {
		return nil, fmt.Errorf("%w: record of checkpoint %s: broken after %d of %d bytes", ErrDamaged, id, len(record)-len(r.rest), len(record))
	}
	return m, nil
}

// reader takes a record or a chunk apart. After the first mistake it is bad
// and gives zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) fail() {
	r.bad, r.rest = true, nil
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// int is a uvarint that is a number of something, so it fits an int64.
func (r *reader) int() int64 {
	v := r.uvarint()
	if v > 1<<62 {
		r.fail()
		return 0
	}
	return int64(v)
}

// count is how many things of at least a byte each follow.
func (r *reader) count() int {
	v := r.uvarint()
	if v > uint64(len(r.rest)) {
		r.fail()
		return 0
	}
	return int(v)
}

// bytes are clipped, so that appending to them writes over nothing, and never
// nil.
func (r *reader) bytes() []byte {
	n := r.count()
	if r.bad {
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) parent(id checkpoint.ID) checkpoint.ID {
	at := r.byte()
	from, n := int(at>>4), int(at&0xf)+1
	if from+n > len(id) || n > len(r.rest) {
		r.fail()
		return checkpoint.ID{}
	}
	copy(id[from:], r.rest[:n])
	r.rest = r.rest[n:]
	return id
}

func (r *reader) slots() []slot {
	n := r.count()
	if n == 0 {
		return nil
	}
	out := make([]slot, n)
	for i := range out {
		out[i] = r.slot()
	}
	return out
}

func (r *reader) patches(m *manifest) {
	m.count, m.base, m.rent = int(r.int()), r.int(), int(r.int())
	n := r.count()
	if n > 0 {
		m.patches = make([]patch, n)
	}
	next := int64(0)
	for i := range m.patches {
		at := next + r.int()
		if at >= int64(m.count) || at < next {
			r.fail()
			return
		}
		m.patches[i] = patch{int(at), r.slot()}
		next = at + 1
	}
}

// resolve fills in the slots from the base, which it returns.
func (m *manifest) resolve(l *loader) (base []slot, err error) {
	if !m.based {
		return nil, nil
	}
	chunks, err := l.chunks(m.base, 0)
	if err != nil {
		return nil, err
	}
	if len(chunks[0].items) == 1 {
		r := reader{rest: chunks[0].items[0]}
		base = r.slots()
		// Slots that the base does not have are all patched.
		if !r.bad && len(r.rest) == 0 && len(base) <= m.count && m.count <= len(base)+len(m.patches) {
			m.slots = make([]slot, m.count)
			copy(m.slots, base)
			for _, p := range m.patches {
				m.slots[p.at] = p.slot
			}
			return base, nil
		}
	}
	return nil, fmt.Errorf("%w: chain %d is not a base of %d channels", ErrDamaged, m.base, m.count)
}

func (r *reader) slot() (s slot) {
	k := kind(r.byte())
	s.kind, s.owned = k&^ownedBit, k&ownedBit != 0
	if s.kind == kindNone && !s.owned {
		return s
	}
	s.version = r.uvarint()
	switch s.kind {
	case kindSmall:
		s.data = r.bytes()
	case kindLarge:
		s.chain = r.int()
	case kindList:
		s.length = int(r.int())
		if n := r.count(); n > 0 {
			s.segs = make([]segment, n)
		}
		for i := range s.segs {
			s.segs[i] = segment{r.int(), r.int()}
		}
	default:
		r.fail()
	}
	if s.owned && len(s.segs) == 0 {
		r.fail()
	}
	return s
}
