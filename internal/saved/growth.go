package saved

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle/checkpoint"
)

// MaxSegments is the maximum number of segments of a list. A chain of forks that would
// exceed it starts with a copy.
const MaxSegments = 8

// A Growth derives the slots of a put from its parent's slots.
type Growth struct {
	Names   []string // channel names, in slot order
	Slots   []Slot
	Changed []bool     // slots that Apply has touched
	More    bool       // Names contains names that were not inherited
	Next    int64      // next free chain
	Chunks  []NewChunk // chunks to write
	// Short allows short lists in slots. All readers must support them: on Postgres,
	// processes of an older version may be running.
	Short bool
	// Load reads the elements of a list.
	Load func(*Slot) ([][]byte, error)

	twice bool // a slot was touched more than once
}

// A NewChunk is a chunk to write.
type NewChunk struct {
	Chain, Seq int64
	Data       []byte
}

// Inherit starts from a parent's slots, which are not modified. Lists may be extended
// only if the parent is the head.
func (g *Growth) Inherit(names []string, slots []Slot, isHead bool) {
	g.Names, g.Slots, g.Changed = names, slices.Clone(slots), make([]bool, len(slots))
	if !isHead {
		for i := range g.Slots {
			g.Slots[i].Owned = false
		}
	}
}

// Apply applies the changes in order. It omits chunks that a later change has made
// unnecessary.
func (g *Growth) Apply(changes []checkpoint.Change) error {
	for i := range changes {
		if err := g.apply(&changes[i]); err != nil {
			return err
		}
	}
	if g.twice {
		g.forgetUnused()
	}
	return nil
}

func (g *Growth) apply(c *checkpoint.Change) error {
	i := slices.Index(g.Names, c.Channel)
	empty := c.Clear || !c.List && c.Data == nil
	if i < 0 {
		if empty {
			return nil
		}
		i = len(g.Names)
		g.Names = append(slices.Clip(g.Names), c.Channel)
		g.More = true
		g.Slots = append(g.Slots, Slot{})
		g.Changed = append(g.Changed, false)
	}
	g.twice = g.twice || g.Changed[i]
	g.Changed[i] = true
	s := &g.Slots[i]
	switch {
	case empty:
		*s = Slot{}
	case c.List:
		return g.extend(s, c)
	case len(c.Data) <= InlineMax:
		*s = Slot{Kind: Small, Version: c.Version, Data: bytes.Clone(c.Data)}
	default:
		*s = Slot{Kind: Large, Version: c.Version, Chain: g.Begin(0, c.Data)}
	}
	return nil
}

func (g *Growth) forgetUnused() {
	used := map[int64]int64{}
	for i := range g.Slots {
		g.Slots[i].Need(used)
	}
	g.Chunks = slices.DeleteFunc(g.Chunks, func(k NewChunk) bool {
		hi, ok := used[k.Chain]
		return !ok || k.Seq > hi
	})
}

// Begin adds the first chunk of a new chain.
func (g *Growth) Begin(drop int, items ...[]byte) (chain int64) {
	chain = g.Next
	g.Next++
	g.Chunks = append(g.Chunks, NewChunk{chain, 0, EncodeChunk(drop, items...)})
	return chain
}

// extend changes a list. Remaining elements are not copied, unless the list is short or
// has too many segments.
func (g *Growth) extend(s *Slot, c *checkpoint.Change) error {
	if c.Drop < 0 {
		return fmt.Errorf("checkpoint: channel %q drops %d elements", c.Channel, c.Drop)
	}
	if s.Kind != List {
		*s = Slot{Kind: List}
	}
	drop := min(c.Drop, s.Length)
	left := s.Length - drop
	s.Version = c.Version
	switch {
	case drop == 0 && len(c.Items) == 0:
		return nil
	case left == 0:
		g.renew(s, c.Items)
	case s.short():
		all, err := s.elements()
		if err != nil {
			return err
		}
		g.renew(s, append(all[:left:left], c.Items...))
	case s.Owned:
		s.Segments = slices.Clone(s.Segments) // shared with the parent
		last := &s.Segments[len(s.Segments)-1]
		last.Hi++
		g.Chunks = append(g.Chunks, NewChunk{last.Chain, last.Hi, EncodeChunk(drop, c.Items...)})
	case len(s.Segments) < MaxSegments:
		s.Segments, s.Owned = append(slices.Clip(s.Segments), Segment{g.Begin(drop, c.Items...), 0}), true
	default:
		all, err := g.Load(s)
		if err != nil {
			return err
		}
		g.renew(s, append(all[:left:left], c.Items...))
	}
	s.Length = left + len(c.Items)
	return nil
}

// renew rewrites all elements of a list: in the slot if they are short, otherwise in a
// new chain.
func (g *Growth) renew(s *Slot, items [][]byte) {
	*s = Slot{Kind: List, Version: s.Version, Length: len(items)}
	size := 0
	for _, item := range items {
		size += 1 + len(item)
	}
	switch {
	case size > InlineMax, size > 0 && !g.Short:
		s.Segments, s.Owned = []Segment{{g.Begin(0, items...), 0}}, true
	case size > 0:
		s.Data = make([]byte, 0, size)
		for _, item := range items {
			s.Data = AppendBytes(s.Data, item)
		}
	}
}
