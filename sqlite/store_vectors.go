package sqlite

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/treadle-go/treadle/store"
)

// The vectors of a record are, for each, the length of its field (uvarint), the
// field, its dimension (uvarint) and its numbers, four bytes each.

func encodeVectors(vectors []store.Vector) []byte {
	var data []byte
	for _, v := range vectors {
		data = appendBytes(data, v.Field)
		data = binary.AppendUvarint(data, uint64(len(v.Data)))
		for _, f := range v.Data {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(f))
		}
	}
	return data
}

func decodeVectors(data []byte) ([]store.Vector, error) {
	var vectors []store.Vector
	r := reader{rest: data}
	for len(r.rest) > 0 && !r.bad {
		v := store.Vector{Field: string(r.bytes())}
		n := r.count()
		if r.bad || 4*n > len(r.rest) {
			r.fail()
			break
		}
		v.Data = make([]float32, n)
		for i := range v.Data {
			v.Data[i] = math.Float32frombits(binary.LittleEndian.Uint32(r.rest[4*i:]))
		}
		r.rest = r.rest[4*n:]
		vectors = append(vectors, v)
	}
	if r.bad {
		return nil, fmt.Errorf("%w: the vectors of an item are unreadable", ErrDamaged)
	}
	return vectors, nil
}

// addVectors writes the vectors of the record of an item.
func (c *conn) addVectors(seq int64, stamp any, vectors []store.Vector) error {
	if len(vectors) == 0 {
		return nil
	}
	_, err := c.change("INSERT INTO store_vector(seq,stamp,data) VALUES(?,?,?)", seq, stamp, encodeVectors(vectors))
	return err
}

type nearness struct{}
type indexes struct{ tentative bool }

func (n *nearness) hold(ctx context.Context, db *DB, queries []*store.Query, past bool) (*indexes, error) {
	return &indexes{}, nil
}
func (x *indexes) release() {}

func (l *look) nearest(q *store.Query, s scope) ([]store.Candidate, error) {
	if !l.past {
		var err error
		if s.past, _, err = l.then2(s); err != nil {
			return nil, err
		}
	}
	type hit struct {
		c   store.Candidate
		sim float64
	}
	var hits []hit
	for page := range slices.Chunk(s.past, pageSize) {
		ok := map[int64]bool{}
		err := l.values(page, func(seq int64, value, meta []byte) error { ok[seq] = q.Match(value, meta); return nil })
		if err != nil {
			return nil, err
		}
		err = l.c.each("SELECT v.seq, v.data FROM json_each(?) j CROSS JOIN store_vector v WHERE v.seq=j.value AND v.stamp=(SELECT id FROM store_stamp WHERE text=?)", []any{list(page), []byte(q.Stamp)}, func(scan func(...any) error) error {
			var seq int64
			var data []byte
			if err := scan(&seq, &data); err != nil {
				return err
			}
			if !ok[seq] {
				return nil
			}
			vs, err := decodeVectors(data)
			best := math.Inf(-1)
			for _, v := range vs {
				var s float64
				for i := range v.Data {
					s += float64(v.Data[i]) * float64(q.Vector[i])
				}
				best = max(best, s)
			}
			hits = append(hits, hit{store.Candidate{Seq: seq, Vectors: vs}, best})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Or(cmp.Compare(b.sim, a.sim), cmp.Compare(b.c.Seq, a.c.Seq)) })
	var out []store.Candidate
	for _, h := range hits[:min(len(hits), q.Depth+16)] {
		out = append(out, h.c)
	}
	return out, nil
}

func (l *look) then2(s scope) (seqs, ids []int64, err error) {
	seqs, err = l.newestOfAll(&store.Query{Limit: math.MaxInt}, s)
	return
}
