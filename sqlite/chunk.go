package sqlite

import (
	"bytes"
	"encoding/binary"
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
// element. A row has one chunk or several, one after the other; which it is may
// change (pack), what chunk a number names may not.
type chunk struct {
	drop  int
	items [][]byte
}

const (
	// packSize is how many rows become one.
	packSize = 32
	// packMax is the size beyond which one row is no better than 32.
	packMax = 1 << 20
	// maxSegments bounds how many ranges a list is read from. A fork of a fork
	// of a fork of … that is beyond it begins with a copy.
	maxSegments = 8
)

func appendChunk(b []byte, drop int, items [][]byte) []byte {
	b = binary.AppendUvarint(b, uint64(drop))
	b = binary.AppendUvarint(b, uint64(len(items)))
	for _, item := range items {
		b = appendBytes(b, item)
	}
	return b
}

func encodeChunk(drop int, items ...[]byte) []byte {
	size := 2 * binary.MaxVarintLen32
	for _, item := range items {
		size += binary.MaxVarintLen32 + len(item)
	}
	return appendChunk(make([]byte, 0, size), drop, items)
}

// parseChunks takes apart a row of n chunks. The items share its memory.
func parseChunks(data []byte, n int64) ([]chunk, bool) {
	r := reader{rest: data}
	if n < 1 || n > int64(len(data)) {
		return nil, false
	}
	out := make([]chunk, n)
	for i := range out {
		out[i].drop = int(r.int())
		out[i].items = make([][]byte, r.count())
		for k := range out[i].items {
			out[i].items[k] = r.bytes()
		}
	}
	return out, !r.bad && len(r.rest) == 0
}

// newChunk is a chunk to be stored.
type newChunk struct {
	chain, seq int64
	data       []byte
}

// growth makes the manifest of a put out of its parent's.
type growth struct {
	parent  int64 // its key; 0: none
	names   []string
	m       manifest // its shape is 0 if the names are not the parent's
	base    []slot   // of m
	changed []bool   // the slots that this put has touched
	twice   bool     // one of them more than once
	next    int64    // the next free chain
	chunks  []newChunk
	load    func(slot) ([][]byte, error) // the elements of a list
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
		g.m.shape = 0 // to be found
		g.m.slots = append(g.m.slots, slot{})
		g.changed = append(g.changed, false)
	}
	g.twice = g.twice || g.changed[i]
	g.changed[i] = true
	s := &g.m.slots[i]
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

// rentFree is how much is paid for patches, beyond the price of a new base,
// before one is made. It keeps small manifests from having any.
const rentFree = 256

// settle decides what of the slots goes into the record: all of them, or those
// that are not in the base, or nothing but a new base. Patches that this put
// did not make are rent; a base is bought when as much has been paid.
func (g *growth) settle() {
	if g.twice {
		g.forgetUnused()
	}
	m := &g.m
	m.count, m.patches = len(m.slots), nil
	price := 0
	for i := range m.slots {
		s := &m.slots[i]
		size := s.size()
		price += size
		if i < len(g.base) && s.equal(&g.base[i]) {
			continue
		}
		if m.based {
			m.patches = append(m.patches, patch{i, *s})
		}
		if !g.changed[i] {
			m.rent += size
		}
	}
	if m.rent > price+rentFree {
		m.based, m.base, m.rent, m.patches = true, g.begin(0, appendSlots(nil, m.slots)), 0, nil
		g.base = m.slots
	}
}

// forgetUnused leaves out the chunks that this put has made and then replaced.
func (g *growth) forgetUnused() {
	used := map[int64]int64{}
	for i := range g.m.slots {
		g.m.slots[i].eachChain(func(chain, hi int64) { used[chain] = hi })
	}
	g.chunks = slices.DeleteFunc(g.chunks, func(k newChunk) bool {
		hi, ok := used[k.chain]
		return !ok || k.seq > hi
	})
}

// eachChain calls do with the chains of a slot and the last chunk of each that
// it needs.
func (s *slot) eachChain(do func(chain, hi int64)) {
	if s.kind == kindLarge {
		do(s.chain, 0)
	}
	for _, g := range s.segs {
		do(g.chain, g.hi)
	}
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
		return fmt.Errorf("sqlite: channel %q drops %d elements", c.Channel, c.Drop)
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

// pack makes one row of the packSize chunks that end with last, unless they are
// large. Nothing is stored twice, and each byte is moved once.
func (c *conn) pack(line, chain, last int64) error {
	first := last - packSize + 1
	var data []byte
	rows := 0
	err := c.each("SELECT data FROM chunk WHERE line=? AND chain=? AND seq BETWEEN ? AND ? ORDER BY seq", []any{line, chain, first, last},
		func(scan func(...any) error) error {
			var d []byte
			if err := scan(&d); err != nil {
				return err
			}
			rows++
			data = append(data, d...)
			return nil
		})
	if err != nil || rows != packSize || len(data) > packMax {
		return err
	}
	if _, err := c.change("DELETE FROM chunk WHERE line=? AND chain=? AND seq BETWEEN ? AND ?", line, chain, first, last); err != nil {
		return err
	}
	_, err = c.change("INSERT INTO chunk(line,chain,seq,n,data) VALUES(?,?,?,?,?)", line, chain, first, packSize, data)
	return err
}

// loader reads the values of checkpoints of one line, each chunk once.
type loader struct {
	c      *conn
	line   int64
	chains map[int64][]chunk
	shared bool // several checkpoints are read, and each must get its own bytes
}

func newLoader(c *conn, line int64) *loader {
	return &loader{c: c, line: line, chains: map[int64][]chunk{}}
}

// chunks reads a chain up to chunk hi.
func (l *loader) chunks(chain, hi int64) ([]chunk, error) {
	have := l.chains[chain]
	if hi < int64(len(have)) {
		return have[:hi+1], nil
	}
	err := l.c.each("SELECT seq, n, data FROM chunk WHERE line=? AND chain=? AND seq BETWEEN ? AND ? ORDER BY seq", []any{l.line, chain, int64(len(have)), hi},
		func(scan func(...any) error) error {
			var seq, n int64
			var data []byte
			if err := scan(&seq, &n, &data); err != nil {
				return err
			}
			if seq != int64(len(have)) {
				return nil // reported below
			}
			more, ok := parseChunks(data, n)
			if !ok {
				return fmt.Errorf("%w: chunk %d of chain %d is unreadable", ErrDamaged, seq, chain)
			}
			have = append(have, more...)
			return nil
		})
	if err != nil {
		return nil, err
	}
	if hi >= int64(len(have)) {
		return nil, fmt.Errorf("%w: chunk %d of chain %d is missing", ErrDamaged, len(have), chain)
	}
	l.chains[chain] = have
	return have[:hi+1], nil
}

// elements reads a list. The slice is the caller's own.
func (l *loader) elements(s slot) ([][]byte, error) {
	var out [][]byte
	for _, g := range s.segs {
		chunks, err := l.chunks(g.chain, g.hi)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = make([][]byte, 0, min(s.length, len(chunks))+16)
		}
		for _, k := range chunks {
			if k.drop > len(out) {
				return nil, fmt.Errorf("%w: chain %d drops %d elements of %d", ErrDamaged, g.chain, k.drop, len(out))
			}
			out = append(out[:len(out)-k.drop], k.items...)
		}
	}
	if len(out) != s.length {
		return nil, fmt.Errorf("%w: a list has %d elements and should have %d", ErrDamaged, len(out), s.length)
	}
	if out == nil {
		out = [][]byte{}
	}
	if l.shared {
		copyItems(out)
	}
	return out, nil
}

// copyItems gives the items memory of their own, all in one piece.
func copyItems(items [][]byte) {
	size := 0
	for _, item := range items {
		size += len(item)
	}
	buf := make([]byte, 0, size)
	for i, item := range items {
		from := len(buf)
		buf = append(buf, item...)
		items[i] = buf[from:len(buf):len(buf)]
	}
}

// value reads the value of a slot that has one.
func (l *loader) value(s slot) (checkpoint.Value, error) {
	v := checkpoint.Value{Version: s.version}
	switch s.kind {
	case kindSmall:
		v.Data = s.data
	case kindLarge:
		chunks, err := l.chunks(s.chain, 0)
		if err != nil {
			return v, err
		}
		if len(chunks[0].items) != 1 {
			return v, fmt.Errorf("%w: chain %d has %d values instead of one", ErrDamaged, s.chain, len(chunks[0].items))
		}
		v.Data = chunks[0].items[0]
	default:
		items, err := l.elements(s)
		if err != nil {
			return v, err
		}
		v.List, v.Items = true, items
	}
	if l.shared {
		v.Data = bytes.Clone(v.Data)
	}
	return v, nil
}
