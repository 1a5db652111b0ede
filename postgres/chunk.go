package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle/checkpoint"
)

// A chain is a sequence of chunks, numbered from 0. A chunk drops elements from
// the end of a list and appends others:
//
//	drop (uvarint), n (uvarint), n times length (uvarint) and bytes
//
// It is data and nothing else, so reading needs no reducer, and a reducer that
// changes leaves history alone. A large value is a chain of one chunk with one
// element.
//
// Each chunk stays a row of its own. To make one of every 32, as package sqlite
// does, costs more than it saves here: the old rows go on taking their place
// until a vacuum, and the log has everything twice.
type chunk struct {
	drop  int
	items [][]byte
}

// maxSegments bounds how many ranges a list is read from. A fork of a fork of a
// fork of … that is beyond it begins with a copy.
const maxSegments = 8

func encodeChunk(drop int, items ...[]byte) []byte {
	size := 2 * binary.MaxVarintLen32
	for _, item := range items {
		size += binary.MaxVarintLen32 + len(item)
	}
	b := binary.AppendUvarint(make([]byte, 0, size), uint64(drop))
	b = binary.AppendUvarint(b, uint64(len(items)))
	for _, item := range items {
		b = appendBytes(b, item)
	}
	return b
}

// parseChunk takes a row apart. The items share its memory.
func parseChunk(data []byte) (k chunk, ok bool) {
	r := reader{rest: data}
	k.drop = int(r.int())
	k.items = make([][]byte, r.count())
	for i := range k.items {
		k.items[i] = r.bytes()
	}
	return k, !r.bad && len(r.rest) == 0
}

// newChunk is a chunk to be stored.
type newChunk struct {
	chain, seq int64
	data       []byte
}

// growth makes the manifest of a put out of its parent's.
type growth struct {
	names  []string
	m      manifest
	shaped bool  // m.shape is that of names
	next   int64 // the next free chain
	chunks []newChunk
	made   []int                        // the slots that were changed
	load   func(slot) ([][]byte, error) // the elements of a list
}

func (g *growth) apply(c *checkpoint.Change) error {
	i := slices.Index(g.names, c.Channel)
	empty := c.Clear || !c.List && c.Data == nil
	if i < 0 {
		if empty {
			return nil
		}
		i = len(g.names)
		g.names = append(slices.Clip(g.names), c.Channel)
		g.shaped = false
		g.m.slots = append(g.m.slots, slot{})
	}
	s := &g.m.slots[i]
	g.made = append(g.made, i)
	switch {
	case empty:
		*s = slot{}
	case c.List:
		return g.extend(s, c)
	case len(c.Data) <= inlineMax:
		*s = slot{kind: kindSmall, version: c.Version, data: bytes.Clone(c.Data)}
	default:
		*s = slot{kind: kindLarge, version: c.Version, chain: g.begin(0, c.Data)}
	}
	return nil
}

// needed drops the chunks that a later change to the same channel has made
// superfluous.
func (g *growth) needed() {
	want := map[int64]int64{}
	for _, i := range g.made {
		g.m.slots[i].need(want)
	}
	g.chunks = slices.DeleteFunc(g.chunks, func(k newChunk) bool {
		hi, ok := want[k.chain]
		return !ok || k.seq > hi
	})
}

// begin stores the first chunk of a new chain.
func (g *growth) begin(drop int, items ...[]byte) (chain int64) {
	chain = g.next
	g.next++
	g.chunks = append(g.chunks, newChunk{chain, 0, encodeChunk(drop, items...)})
	return chain
}

// extend changes a list. What remains of it stays where it is.
func (g *growth) extend(s *slot, c *checkpoint.Change) error {
	if c.Drop < 0 {
		return fmt.Errorf("postgres: channel %q drops %d elements", c.Channel, c.Drop)
	}
	if s.kind != kindList {
		*s = slot{kind: kindList}
	}
	drop := min(c.Drop, s.length)
	left := s.length - drop
	s.version = c.Version
	switch {
	case drop == 0 && len(c.Items) == 0:
		return nil
	case left == 0 && len(c.Items) == 0:
		s.segs, s.owned = nil, false
	case left == 0:
		s.segs, s.owned = []segment{{g.begin(0, c.Items...), 0}}, true
	case s.owned:
		s.segs = slices.Clone(s.segs) // the parent's manifest has them too
		last := &s.segs[len(s.segs)-1]
		last.hi++
		g.chunks = append(g.chunks, newChunk{last.chain, last.hi, encodeChunk(drop, c.Items...)})
	case len(s.segs) < maxSegments:
		s.segs, s.owned = append(slices.Clip(s.segs), segment{g.begin(drop, c.Items...), 0}), true
	default:
		all, err := g.load(*s)
		if err != nil {
			return err
		}
		all = append(all[:left:left], c.Items...)
		s.segs, s.owned = []segment{{g.begin(0, all...), 0}}, true
	}
	s.length = left + len(c.Items)
	return nil
}

// chains are the chunks of a line that were read, each chain from its first.
// They are never changed, so they stay true for as long as they are kept.
type chains map[int64][]chunk

// errMissing: a chunk was not there when it was looked for. Either the
// checkpoint was removed after its row was read, or the data is damaged.
var errMissing = errors.New("postgres: a chunk is missing")

// need adds what the manifest refers to: chains and their last chunk.
func (m *manifest) need(want map[int64]int64) {
	if m.base != nil {
		want[m.base.chain] = 0
	}
	for i := range m.slots {
		m.slots[i].need(want)
	}
}

func (s *slot) need(want map[int64]int64) {
	if s.kind == kindLarge {
		want[s.chain] = max(want[s.chain], 0)
	}
	for _, g := range s.segs {
		want[g.chain] = max(want[g.chain], g.hi)
	}
}

// elements puts a list together. The slice is the caller's own, the elements
// are not.
func (have chains) elements(s *slot) ([][]byte, error) {
	out := [][]byte{}
	for _, g := range s.segs {
		for _, k := range have[g.chain][:g.hi+1] {
			if k.drop > len(out) {
				return nil, fmt.Errorf("%w: chain %d drops %d elements of %d", ErrDamaged, g.chain, k.drop, len(out))
			}
			out = append(out[:len(out)-k.drop], k.items...)
		}
	}
	if len(out) != s.length {
		return nil, fmt.Errorf("%w: a list has %d elements and should have %d", ErrDamaged, len(out), s.length)
	}
	return out, nil
}

// value is that of a slot that has one. With own, it shares no memory.
func (have chains) value(s *slot, own bool) (v checkpoint.Value, err error) {
	v.Version = s.version
	switch s.kind {
	case kindSmall:
		v.Data = bytes.Clone(s.data)
	case kindLarge:
		first := have[s.chain][0]
		if len(first.items) != 1 {
			return v, fmt.Errorf("%w: chain %d has %d values and should have one", ErrDamaged, s.chain, len(first.items))
		}
		v.Data = first.items[0]
		if own {
			v.Data = bytes.Clone(v.Data)
		}
	case kindList:
		v.List = true
		if v.Items, err = have.elements(s); err == nil && own {
			cloneAll(v.Items)
		}
	}
	return v, err
}

// cloneAll copies the elements into one new piece of memory.
func cloneAll(items [][]byte) {
	size := 0
	for _, item := range items {
		size += len(item)
	}
	all := make([]byte, 0, size)
	for i, item := range items {
		from := len(all)
		all = append(all, item...)
		items[i] = all[from:len(all):len(all)]
	}
}
