package retrieval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle/store"
)

// A record is the state of a source in the index. Every write of a source replaces its record
// on the condition that no other sync has. This keeps concurrent syncs from mixing two contents
// of a source, and lets them continue unfinished work of other syncs.
type record struct {
	Source string `json:"source"`
	// Hash is the hash of the content whose chunks are in the index; empty if the index has none.
	Hash string `json:"hash,omitempty"`
	// Chunks is greater than the number of each of its chunks in the index.
	Chunks int `json:"chunks"`
	// Skipped is the reason why the content has no chunks.
	Skipped string `json:"skipped,omitempty"`
	// Next is set while another content is being written.
	Next *next `json:"next,omitempty"`

	version int64 // of the item; 0 without an item
}

// next is the content that a sync is writing: the chunks with numbers less than Done are written.
type next struct {
	Hash string `json:"hash"`
	Done int    `json:"done"`
}

func (r *record) has(hash string) bool { return r.Hash == hash && r.Next == nil }

// records returns the records of all sources.
func (x *Index) records(ctx context.Context) (map[string]record, error) {
	items, err := x.store.Search(ctx, x.sources(), &store.SearchOptions{Limit: 1 << 30, NoRefresh: true})
	if err != nil {
		return nil, fmt.Errorf("retrieval: list sources: %w", err)
	}
	all := make(map[string]record, len(items))
	for _, item := range items {
		r, err := recordOf(item)
		if err != nil {
			return nil, err
		}
		all[r.Source] = r
	}
	return all, nil
}

func recordOf(item *store.Item) (r record, err error) {
	err = item.Decode(&r)
	r.version = item.Version
	return r, err
}

// record returns the current record of a source.
func (x *Index) record(ctx context.Context, source string) (record, error) {
	item, err := x.store.Get(ctx, x.sources(), idOf(source), nil)
	if errors.Is(err, store.ErrNotFound) {
		return record{Source: source}, nil
	}
	if err != nil {
		return record{}, fmt.Errorf("retrieval: read state of %q: %w", source, err)
	}
	return recordOf(item)
}

// content is the content that the index should have for a source.
type content struct {
	source  Source
	hash    string
	chunks  []Chunk
	skipped string
	remove  bool // the source does not exist
}

// Limits of a batch. A source with more chunks is written in several batches.
const (
	maxPuts    = 256
	maxDeletes = 1000
)

// A step is a batch that brings a source closer to its content.
type step struct {
	ops   []store.Op
	after record
	last  bool
	puts  int
}

// step returns the next step of a source with the given record.
func (x *Index) step(ctx context.Context, c *content, r record) (*step, error) {
	from := 0
	if r.Next != nil && r.Next.Hash == c.hash {
		from = min(r.Next.Done, len(c.chunks))
	}
	to := min(from+maxPuts, len(c.chunks))
	s := &step{after: record{Source: c.source.Name, Hash: r.Hash, Chunks: max(r.Chunks, to), Next: &next{c.hash, to}}}
	if err := x.addPuts(ctx, s, c.chunks[from:to], r.Chunks); err != nil {
		return nil, err
	}
	if to == len(c.chunks) {
		left := max(len(c.chunks), r.Chunks-maxDeletes)
		for n := left; n < r.Chunks; n++ {
			s.ops = append(s.ops, store.DeleteOp{Namespace: x.chunks(), Key: keyOf(c.source.Name, n)})
		}
		s.after.Chunks = left
		s.last = left == len(c.chunks)
		if s.last {
			s.after = record{Source: c.source.Name, Hash: c.hash, Chunks: left, Skipped: c.skipped}
		}
	}
	s.ops = append(s.ops, x.replace(c, r, s))
	return s, nil
}

// replace returns the operation that replaces the record r. It is the last of a step.
func (x *Index) replace(c *content, r record, s *step) store.Op {
	key := idOf(c.source.Name)
	if s.last && c.remove {
		return store.DeleteOp{Namespace: x.sources(), Key: key, DeleteOptions: store.DeleteOptions{IfVersion: r.version}}
	}
	return store.PutOp{Namespace: x.sources(), Key: key, Value: s.after,
		PutOptions: store.PutOptions{NoIndex: true, TTL: store.Forever, IfVersion: r.version, IfAbsent: r.version == 0}}
}

// addPuts adds a put for each chunk that differs from that in the index.
func (x *Index) addPuts(ctx context.Context, s *step, chunks []Chunk, existing int) error {
	var gets []store.Op
	for _, c := range chunks {
		if c.Number < existing {
			gets = append(gets, store.GetOp{Namespace: x.chunks(), Key: keyOf(c.Source, c.Number)})
		}
	}
	var have []store.Result
	if gets != nil {
		var err error
		if have, err = x.store.Batch(ctx, gets...); err != nil {
			return fmt.Errorf("retrieval: read chunks of %q: %w", chunks[0].Source, err)
		}
	}
	for i := range chunks {
		value, err := encode(&chunks[i])
		if err != nil {
			return err
		}
		if i < len(have) && have[i].Item != nil && bytes.Equal(have[i].Item.Value, value) {
			continue
		}
		s.puts++
		s.ops = append(s.ops, store.PutOp{Namespace: x.chunks(), Key: keyOf(chunks[i].Source, chunks[i].Number), Value: value,
			PutOptions: store.PutOptions{Index: []string{"text"}, TTL: store.Forever}})
	}
	return nil
}

// encode returns the JSON of a chunk as a store returns it: without HTML escapes.
func encode(c *Chunk) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(c); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
