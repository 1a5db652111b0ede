package sqlite

import (
	"fmt"
	"slices"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// A row contains one or more consecutive chunks of a chain. Packing may change how chunks
// are grouped into rows, but never the chunk that a number refers to.

const (
	// packSize is the number of rows that are packed into one.
	packSize = 32
	// packMax is the size in bytes above which packing is not worthwhile.
	packMax = 1 << 20
)

// parseChunks decodes a row of n chunks. The items share its memory.
func parseChunks(data []byte, n int64) ([]saved.Chunk, bool) {
	r := saved.Reader{Rest: data}
	if n < 1 || n > int64(len(data)) {
		return nil, false
	}
	return r.Chunks(int(n)), r.Done()
}

// A growth derives the manifest of a put from its parent's manifest.
type growth struct {
	saved.Growth
	parent int64        // the parent's key; 0: none
	m      *manifest    // the shape is 0 if the names differ from the parent's; allocated separately because heads keep it
	base   []saved.Slot // base of m
}

// baseCost is the overhead of a base in bytes. It prevents small manifests from having a
// base.
const baseCost = 256

// settle decides which slots the record contains: all of them, only those that are not in
// the base, or only a reference to a new base. A new base pays off when the unchanged
// slots that were rewritten since the last base take more space than the base would.
func (g *growth) settle() {
	m := g.m
	m.slots = g.Slots
	m.count, m.patches = len(m.slots), nil
	size := 0
	for i := range m.slots {
		s := &m.slots[i]
		n := s.Size()
		size += n
		if saved.InBase(g.base, m.slots, i) {
			continue
		}
		if m.based {
			m.patches = append(m.patches, saved.Patch{At: i, Slot: *s})
		}
		if !g.Changed[i] {
			m.repeated += n
		}
	}
	if m.repeated > size+baseCost {
		m.based = true
		m.base = g.Begin(0, appendSlots(nil, m.slots))
		m.repeated = 0
		m.patches = nil
		g.base = m.slots
	}
}

// pack packs the packSize chunks that end with last into one row, unless they are large.
// Nothing is stored twice, and each byte is moved once.
func pack(c *database.Conn, line, chain, last int64) error {
	first := last - packSize + 1
	var data []byte
	rows := 0
	whole := true
	err := c.Each("SELECT seq, n, data, sum FROM chunk WHERE line=? AND chain=? AND seq BETWEEN ? AND ? ORDER BY seq", []any{line, chain, first, last},
		func(scan func(...any) error) error {
			var seq, n int64
			var d []byte
			var sum int64
			if err := scan(&seq, &n, &d, &sum); err != nil {
				return err
			}
			// Damaged rows are left in place, where reading them reports the damage.
			whole = whole && seq == first+int64(rows) && n == 1 && database.Intact(sum, chunkSum(line, chain, seq, n, d))
			rows++
			data = append(data, d...)
			return nil
		})
	if !whole {
		return err
	}
	if err != nil || rows != packSize || len(data) > packMax {
		return err
	}
	if _, err := c.Change("DELETE FROM chunk WHERE line=? AND chain=? AND seq BETWEEN ? AND ?", line, chain, first, last); err != nil {
		return err
	}
	_, err = c.Change("INSERT INTO chunk(line,chain,seq,n,data,sum) VALUES(?,?,?,?,?,?)", line, chain, first, packSize, data,
		chunkSum(line, chain, first, packSize, data))
	return err
}

// A loader reads the values of checkpoints of one line, each chunk once.
type loader struct {
	c      *database.Conn
	line   int64
	chains saved.Chains
	shared bool // several checkpoints are read, and each needs its own copy of the bytes
}

func newLoader(c *database.Conn, line int64) *loader {
	return &loader{c: c, line: line, chains: saved.Chains{}}
}

// maxGrow limits the memory reserved for chunks before they are read, because the last
// chunk number may be wrong in a damaged file.
const maxGrow = 1 << 12

// fetch reads a chain up to chunk hi, unless it has already been read.
func (l *loader) fetch(chain, hi int64) error {
	have := l.chains[chain]
	if hi < int64(len(have)) {
		return nil
	}
	have = slices.Grow(have, int(min(hi+1-int64(len(have)), maxGrow)))
	err := l.c.Each("SELECT seq, n, data, sum FROM chunk WHERE line=? AND chain=? AND seq BETWEEN ? AND ? ORDER BY seq", []any{l.line, chain, int64(len(have)), hi},
		func(scan func(...any) error) error {
			var seq, n int64
			var data []byte
			var sum int64
			if err := scan(&seq, &n, &data, &sum); err != nil {
				return err
			}
			if seq != int64(len(have)) {
				return nil // reported below
			}
			more, ok := parseChunks(data, n)
			if !ok {
				return fmt.Errorf("%w: unreadable chunk %d of chain %d", ErrDamaged, seq, chain)
			}
			have = append(have, more...)
			if !database.Intact(sum, chunkSum(l.line, chain, seq, n, data)) {
				return database.Changed("chunk %d of chain %d", seq, chain)
			}
			return nil
		})
	if err != nil {
		return err
	}
	if hi >= int64(len(have)) {
		return fmt.Errorf("%w: missing chunk %d of chain %d", ErrDamaged, len(have), chain)
	}
	l.chains[chain] = have
	return nil
}

// fetchAll reads the chunks that a slot refers to.
func (l *loader) fetchAll(s *saved.Slot) error {
	if s.Kind == saved.Large {
		return l.fetch(s.Chain, 0)
	}
	for _, g := range s.Segments {
		if err := l.fetch(g.Chain, g.Hi); err != nil {
			return err
		}
	}
	return nil
}

// elements returns the elements of a list. The caller owns the slice.
func (l *loader) elements(s *saved.Slot) ([][]byte, error) {
	if err := l.fetchAll(s); err != nil {
		return nil, err
	}
	items, err := l.chains.Elements(s)
	if err != nil {
		return nil, damaged(err)
	}
	return items, nil
}

// value returns the value of a slot, which must have one.
func (l *loader) value(s *saved.Slot) (checkpoint.Value, error) {
	if err := l.fetchAll(s); err != nil {
		return checkpoint.Value{}, err
	}
	v, err := l.chains.Value(s, l.shared)
	if err != nil {
		return v, damaged(err)
	}
	return v, nil
}
