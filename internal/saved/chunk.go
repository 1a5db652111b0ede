package saved

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
)

// A Chunk drops elements from the end of a list and appends others:
//
//	drop (uvarint), n (uvarint), n times length (uvarint) and bytes
//
// A chain is a sequence of chunks, numbered from 0. A large value is a chain of
// one chunk with one element.
type Chunk struct {
	Drop  int
	Items [][]byte
}

// EncodeChunk returns the encoding of a chunk.
func EncodeChunk(drop int, items ...[]byte) []byte {
	size := 2 * binary.MaxVarintLen32
	for _, item := range items {
		size += binary.MaxVarintLen32 + len(item)
	}
	b := binary.AppendUvarint(make([]byte, 0, size), uint64(drop))
	b = binary.AppendUvarint(b, uint64(len(items)))
	for _, item := range items {
		b = AppendBytes(b, item)
	}
	return b
}

// Chunk reads a chunk.
func (r *Reader) Chunk() (k Chunk) {
	k.Drop = int(r.Int())
	k.Items = r.items(nil)
	return k
}

// Chunks reads n chunks. If n comes from another source, the caller must ensure that it
// does not exceed the number of remaining bytes.
func (r *Reader) Chunks(n int) []Chunk {
	out := make([]Chunk, n)
	spare := make([][]byte, n) // most chunks have one item
	for i := range out {
		out[i].Drop = int(r.Int())
		out[i].Items = r.items(spare[i : i : i+1])
	}
	return out
}

// items reads the items of a chunk, into buf if they fit.
func (r *Reader) items(buf [][]byte) [][]byte {
	n := r.Count()
	if n > cap(buf) || buf == nil {
		buf = make([][]byte, n)
	}
	buf = buf[:n]
	for i := range buf {
		buf[i] = r.Bytes()
	}
	return buf
}

// ParseChunk decodes a single chunk. The result shares memory with data.
func ParseChunk(data []byte) (k Chunk, ok bool) {
	r := Reader{Rest: data}
	k = r.Chunk()
	return k, r.Done()
}

// Chains holds chunks of a namespace that have been read, each chain from its first
// chunk. Chunks never change, so cached chunks stay valid. Errors returned by its methods
// describe corrupt stored data.
type Chains map[int64][]Chunk

// upTo returns the chunks of a chain up to and including chunk hi.
func (have Chains) upTo(chain, hi int64) ([]Chunk, error) {
	chunks := have[chain]
	if hi >= int64(len(chunks)) {
		return nil, fmt.Errorf("chunk %d of chain %d is missing", len(chunks), chain)
	}
	return chunks[:hi+1], nil
}

// One returns the only element of a chain's first chunk.
func (have Chains) One(chain int64) ([]byte, error) {
	chunks, err := have.upTo(chain, 0)
	if err != nil {
		return nil, err
	}
	if n := len(chunks[0].Items); n != 1 {
		return nil, fmt.Errorf("chain %d has %d values instead of one", chain, n)
	}
	return chunks[0].Items[0], nil
}

// Elements assembles a list. The caller owns the slice but not the elements.
func (have Chains) Elements(s *Slot) ([][]byte, error) {
	if s.short() {
		return s.elements()
	}
	out := [][]byte{}
	for i, g := range s.Segments {
		chunks, err := have.upTo(g.Chain, g.Hi)
		if err != nil {
			return nil, err
		}
		if i == 0 { // the length alone cannot be trusted
			out = make([][]byte, 0, min(s.Length, len(chunks))+16)
		}
		for _, k := range chunks {
			if k.Drop > len(out) {
				return nil, fmt.Errorf("chain %d drops %d elements of %d", g.Chain, k.Drop, len(out))
			}
			out = append(out[:len(out)-k.Drop], k.Items...)
		}
	}
	if len(out) != s.Length {
		return nil, fmt.Errorf("list has %d elements, want %d", len(out), s.Length)
	}
	return out, nil
}

// elements decodes the elements of a short list.
func (s *Slot) elements() ([][]byte, error) {
	r := Reader{Rest: s.Data}
	out := make([][]byte, 0, min(s.Length, len(s.Data)))
	for len(out) < s.Length && !r.Bad {
		out = append(out, r.Bytes())
	}
	if !r.Done() {
		return nil, fmt.Errorf("short list does not have %d elements", s.Length)
	}
	return out, nil
}

// Value returns the value of a non-empty slot. If own is true, the result shares no
// memory with the slot or the chunks.
func (have Chains) Value(s *Slot, own bool) (v checkpoint.Value, err error) {
	v.Version = s.Version
	switch s.Kind {
	case Small:
		v.Data = s.Data
	case Large:
		v.Data, err = have.One(s.Chain)
	default:
		v.List = true
		v.Items, err = have.Elements(s)
	}
	if err != nil || !own {
		return v, err
	}
	v.Data = bytes.Clone(v.Data)
	copyItems(v.Items)
	return v, nil
}

// copyItems copies the items into newly allocated memory, in one block.
func copyItems(items [][]byte) {
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

// Echoed decodes an echo (see AppendEcho) of the last chunk of a segment.
func (have Chains) Echoed(at Segment, code []byte) ([]byte, error) {
	chunks, err := have.upTo(at.Chain, at.Hi)
	if err != nil {
		return nil, err
	}
	text, ok := parseEcho(code, bytes.Join(chunks[at.Hi].Items, nil))
	if !ok {
		return nil, fmt.Errorf("not an echo of chunk %d of chain %d", at.Hi, at.Chain)
	}
	return text, nil
}
