package postgres

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
//	rent      uvarint
//	slots     their number (uvarint), then
//	          without a base: each slot
//	          with one: the number of patches (uvarint), and for each how many
//	          slots before it are the base's (uvarint), and the slot
//
// and nothing after that. A slot is
//
//	kind      byte; with 0, an empty channel, the slot ends
//	version   uvarint
//	small:    length (uvarint) and bytes
//	large:    chain (uvarint)
//	list:     elements (uvarint), segments (uvarint), and for each of those
//	          chain and hi (uvarints)
//
// What a value needs beyond it is in chunks.
//
// A base is a chain of one chunk, whose element is slots, each as above. The
// record of a checkpoint that is based on it has those slots that are others by
// now, the patches: what changed long ago is in the base, so a step costs what
// it changes and not what there is.
type manifest struct {
	shape  int64
	rev    uint64 // of the line, when this was made: see owned
	step   int
	source checkpoint.Source
	parent checkpoint.ID
	rent   int    // bytes that were written, since the last base, of slots that had not changed
	slots  []slot // in the order of the shape's names
	base   *base  // or nil
}

// base is the slots of an earlier checkpoint.
type base struct {
	chain int64
	slots []slot
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
	if m.base != nil {
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
	b = binary.AppendUvarint(b, uint64(m.rent))
	b = binary.AppendUvarint(b, uint64(len(m.slots)))
	if m.base == nil {
		return appendSlots(b, m.slots)
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
		b = m.slots[i].append(b)
		next = i + 1
	}
	return b
}

func appendSlots(b []byte, slots []slot) []byte {
	for i := range slots {
		b = slots[i].append(b)
	}
	return b
}

// written reports whether the record has slot i, because the base has not.
func (m *manifest) written(i int) bool {
	return m.base == nil || i >= len(m.base.slots) || !m.slots[i].equal(&m.base.slots[i])
}

func (s *slot) equal(o *slot) bool {
	return s.kind == o.kind && s.version == o.version && s.owned == o.owned && s.chain == o.chain && s.length == o.length &&
		bytes.Equal(s.data, o.data) && slices.Equal(s.segs, o.segs)
}

// baseCost is what a base costs beyond its bytes: a row and its place in the
// index.
const baseCost = 128

// settle decides what the record of m is based on: what its parent's was, or a
// base of its own. The slots in made were changed by this step; what else the
// record has to say is rent. A base is bought when as much as it costs has been
// paid.
func (m *manifest) settle(made []int, begin func([]byte) int64) {
	var one []byte
	for i := range m.slots {
		if m.written(i) && !slices.Contains(made, i) {
			one = m.slots[i].append(one[:0])
			m.rent += len(one)
		}
	}
	if m.rent <= baseCost {
		return
	}
	if all := appendSlots(nil, m.slots); m.rent > len(all)+baseCost {
		m.rent, m.base = 0, &base{begin(all), slices.Clone(m.slots)}
	}
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

// parseManifest decodes the record of the checkpoint id, which is based on b if
// that is not nil. The result shares the record's memory.
func parseManifest(record []byte, id checkpoint.ID, b *base) (*manifest, error) {
	r := reader{rest: record}
	if format := r.byte(); format != manifestFormat && !r.bad {
		return nil, fmt.Errorf("%w: record of checkpoint %s: unknown format %d", ErrDamaged, id, format)
	}
	m := &manifest{base: b}
	flags := r.byte()
	m.shape = r.int()
	m.rev = r.uvarint()
	m.step = int(r.varint())
	if n := int(r.byte()); n == 0 {
		m.source = checkpoint.Source(r.bytes())
	} else if n <= len(sources) {
		m.source = sources[n-1]
	} else {
		r.fail()
	}
	if flags&hasParent != 0 {
		m.parent = r.parent(id)
	}
	m.rent = int(r.int())
	if based := flags&hasBase != 0; based != (b != nil) {
		r.fail()
	} else if based {
		r.patches(m)
	} else {
		m.slots = r.slots(r.count())
	}
	if r.bad || len(r.rest) > 0 {
		return nil, fmt.Errorf("%w: record of checkpoint %s: broken", ErrDamaged, id)
	}
	return m, nil
}

// parseBase takes the first chunk of a base's chain apart.
func parseBase(chain int64, k chunk) (*base, error) {
	if len(k.items) == 1 {
		r := reader{rest: k.items[0]}
		b := &base{chain: chain}
		for len(r.rest) > 0 {
			b.slots = append(b.slots, r.slot())
		}
		if !r.bad {
			return b, nil
		}
	}
	return nil, fmt.Errorf("%w: chain %d is no base", ErrDamaged, chain)
}

func (r *reader) slots(n int) []slot {
	var out []slot
	if n > 0 {
		out = make([]slot, n)
	}
	for i := range out {
		out[i] = r.slot()
	}
	return out
}

// patches makes the slots of m out of its base's and those that follow.
func (r *reader) patches(m *manifest) {
	n := int(r.int())
	if n < len(m.base.slots) || n > len(m.base.slots)+len(r.rest) {
		r.fail()
		return
	}
	m.slots = make([]slot, n)
	known := copy(m.slots, m.base.slots) // the others must be patches
	at := 0
	for range r.count() {
		skip := r.int()
		if r.bad || skip > int64(n) || at+int(skip) >= n || at+int(skip) > max(at, known) {
			r.fail()
			return
		}
		at += int(skip)
		m.slots[at] = r.slot()
		at++
	}
	if n > known && at < n {
		r.fail()
	}
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

// encodeNames is the form of a shape.
func encodeNames(names []string) string {
	var b []byte
	for _, n := range names {
		b = appendBytes(b, n)
	}
	return string(b)
}

func decodeNames(b []byte) ([]string, bool) {
	r := reader{rest: b}
	names := []string{}
	for len(r.rest) > 0 {
		names = append(names, string(r.bytes()))
	}
	return names, !r.bad
}
