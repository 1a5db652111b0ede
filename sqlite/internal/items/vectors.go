package items

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/store"
)

// The encoding of a record's vectors is, for each vector, the length of its field
// (uvarint), the field, its dimension (uvarint), and its numbers, four bytes each.

var errVectors = fmt.Errorf("%w: unreadable vectors", database.ErrDamaged)

func encodeVectors(vectors []store.Vector) []byte {
	var data []byte
	for _, v := range vectors {
		data = saved.AppendBytes(data, v.Field)
		data = binary.AppendUvarint(data, uint64(len(v.Data)))
		for _, f := range v.Data {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(f))
		}
	}
	return data
}

func decodeVectors(data []byte) ([]store.Vector, error) {
	var vectors []store.Vector
	r := saved.Reader{Rest: data}
	for len(r.Rest) > 0 && !r.Bad {
		v := store.Vector{Field: string(r.Bytes())}
		n := r.Count()
		if r.Bad || 4*n > len(r.Rest) {
			r.Fail()
			break
		}
		v.Data = make([]float32, n)
		for i := range v.Data {
			v.Data[i] = math.Float32frombits(binary.LittleEndian.Uint32(r.Rest[4*i:]))
		}
		r.Rest = r.Rest[4*n:]
		vectors = append(vectors, v)
	}
	if r.Bad {
		return nil, errVectors
	}
	return vectors, nil
}

// addVectors writes the vectors of an item's record.
func (w *writing) addVectors(seq, stamp int64, vectors []store.Vector) error {
	if len(vectors) == 0 {
		return nil
	}
	data := encodeVectors(vectors)
	id, err := w.c.Insert("INSERT INTO store_vector(seq,stamp,data,sum) VALUES(?,?,?,?)", seq, stamp, data, vectorSum(seq, stamp, data))
	w.vectorsAdded(id, stamp)
	return err
}

// A hit is an item with vectors.
type hit struct {
	seq        int64
	similarity float32
	data       []byte // the vectors
}

// byHit orders hits best first and, among equals, by descending number.
func byHit(a, b hit) int {
	return cmp.Or(cmp.Compare(b.similarity, a.similarity), cmp.Compare(b.seq, a.seq))
}

// topHits keeps the best hits.
type topHits struct {
	query []float32
	best  []hit // best first
	most  int
}

// surplus is the number of candidates collected beyond those that a query asks for.
// Candidates are compared in single precision but ranked in double precision, so the
// order may differ near the last place.
const surplus = 16

func newTopHits(q *store.Query) *topHits { return &topHits{query: q.Vector, most: q.Depth + surplus} }

// offer adds an item if it is among the best so far.
func (r *topHits) offer(seq int64, data []byte) error {
	similarity, err := similarityOf(r.query, data)
	if err != nil {
		return err
	}
	h := hit{seq, similarity, data}
	i, _ := slices.BinarySearchFunc(r.best, h, byHit)
	if i == r.most {
		return nil
	}
	r.best = slices.Insert(r.best[:min(len(r.best), r.most-1)], min(i, r.most-1), h)
	return nil
}

// candidates returns the best hits with their vectors.
func (r *topHits) candidates() ([]store.Candidate, error) {
	all := make([]store.Candidate, len(r.best))
	for i, h := range r.best {
		vectors, err := decodeVectors(h.data)
		if err != nil {
			return nil, err
		}
		all[i] = store.Candidate{Seq: h.seq, Vectors: vectors}
	}
	return all, nil
}

// similarityOf returns the similarity of a record's most similar vector. It works on the
// encoded vectors, because most records are discarded after the comparison.
func similarityOf(query []float32, data []byte) (float32, error) {
	best := float32(math.Inf(-1))
	r := saved.Reader{Rest: data}
	for len(r.Rest) > 0 && !r.Bad {
		r.Bytes() // the field
		n := r.Count()
		if r.Bad || 4*n > len(r.Rest) {
			r.Fail()
			break
		}
		if n == len(query) {
			best = max(best, dot(query, r.Rest[:4*n]))
		}
		r.Rest = r.Rest[4*n:]
	}
	if r.Bad {
		return 0, errVectors
	}
	return best, nil
}

// dot returns the dot product of a vector and an encoded one. It uses four sums, which a
// processor can compute in parallel.
func dot(a []float32, b []byte) float32 {
	var s0, s1, s2, s3 float32
	for len(a) >= 4 && len(b) >= 16 {
		s0 += a[0] * math.Float32frombits(binary.LittleEndian.Uint32(b[0:4]))
		s1 += a[1] * math.Float32frombits(binary.LittleEndian.Uint32(b[4:8]))
		s2 += a[2] * math.Float32frombits(binary.LittleEndian.Uint32(b[8:12]))
		s3 += a[3] * math.Float32frombits(binary.LittleEndian.Uint32(b[12:16]))
		a, b = a[4:], b[16:]
	}
	for i, x := range a {
		s0 += x * math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return s0 + s1 + s2 + s3
}

// comparedPer is the minimum number of candidates to compare for each requested item.
const comparedPer = 4

// nearest returns the items most similar to a query.
func (l *look) nearest(q *store.Query, s scope) ([]store.Candidate, error) {
	best := newTopHits(q)
	if _, err := stampID(l.c, q.Stamp); err != nil {
		return nil, err
	}
	if l.past || s.few != nil {
		if err := l.nearestThen(q, s, best); err != nil {
			return nil, err
		}
		return best.candidates()
	}
	x := l.indexes.near.byStamp[q.Stamp]
	if err := l.late(q, s, best, x); err != nil {
		return nil, err
	}
	if x != nil {
		if err := l.likely(q, s, best, x); err != nil {
			return nil, err
		}
	}
	return best.candidates()
}

// late compares the items that are not in an index yet.
func (l *look) late(q *store.Query, s scope, best *topHits, x *nearby) error {
	after := int64(0)
	if x != nil {
		after = x.upto
	}
	from, to := saved.Span(s.name)
	var ids []int64
	err := l.c.Each(`SELECT v.id, v.seq, iif(typeof(s.name)='blob', s.id, 0) FROM store_vector v LEFT JOIN store_record r ON r.seq=v.seq LEFT JOIN store_space s ON s.id=r.space
		WHERE v.id>? AND v.stamp=(SELECT id FROM store_stamp WHERE text=?) AND (s.id IS NULL OR typeof(s.name)<>'blob' OR s.name>=? AND s.name<?)`,
		[]any{after, []byte(q.Stamp), from, to}, func(scan func(...any) error) error {
			var id, seq, space int64
			err := scan(&id, &seq, &space)
			if err == nil && space == 0 {
				err = missingRecord(seq)
			}
			ids = append(ids, id)
			return err
		})
	if err != nil {
		return err
	}
	for page := range slices.Chunk(ids, pageSize) {
		if _, err := l.compare(q, best, byID, page, func(int64) {}); err != nil {
			return err
		}
	}
	return nil
}

// likely compares the index's candidates.
func (l *look) likely(q *store.Query, s scope, best *topHits, x *nearby) error {
	last, err := lastVector(l.c)
	if err != nil {
		return err
	}
	left := max(l.limits.compared, comparedPer*q.Depth)
	page := map[int64]string{} // namespaces by ID
	seen := map[int64]bool{}
	flush := func() error {
		n, err := l.compare(q, best, byID, slices.Sorted(maps.Keys(page)), func(id int64) { delete(page, id) })
		left -= n
		for id, name := range page {
			if id <= last && !l.indexes.tentative { // a greater ID is too new for this transaction
				x.lost(id, name)
			}
		}
		clear(page)
		return err
	}
	for name, id := range x.index.Likely(s.name, q.Vector, left) {
		if seen[id] {
			continue
		}
		seen[id], page[id] = true, name
		if len(page) == min(pageSize, left) {
			if err := flush(); err != nil || left <= 0 {
				return err
			}
		}
	}
	if len(page) == 0 {
		return nil
	}
	return flush()
}

// Columns by which vectors are looked up.
const (
	byID  = "v.id"
	bySeq = "v.seq"
)

// compare offers the given items that are live and pass the filter to the best hits, and
// returns their number. It calls there with the ID of each row found.
func (l *look) compare(q *store.Query, best *topHits, by string, numbers []int64, there func(id int64)) (n int, err error) {
	if err := l.ended(); err != nil {
		return 0, err
	}
	if l.decision != nil && by == byID {
		if numbers, err = l.decided(numbers, there); err != nil || len(numbers) == 0 {
			return 0, err
		}
	} else if l.filters(q) {
		if numbers, err = l.filtered(q, by, numbers, there); err != nil || len(numbers) == 0 {
			return 0, err
		}
	}
	var reworded int64
	read := map[int64]keptVector{}
	if by == byID {
		if _, err := l.c.Row("SELECT seq FROM sqlite_sequence WHERE name='store_stamp'", nil, &reworded); err != nil {
			return 0, err
		}
		if n, numbers, err = l.compareKept(best, numbers, reworded, there); err != nil || len(numbers) == 0 {
			return n, err
		}
	}
	err = l.c.Each("SELECT v.id, v.seq, v.stamp, l.seq, l.expires, l.ended, l.sum, v.data, v.sum FROM json_each(?) j CROSS JOIN store_vector v LEFT JOIN store_life l ON l.seq=v.seq WHERE "+by+"=j.value", []any{list(numbers)},
		func(scan func(...any) error) error {
			var id, seq, stamp, life, expires, ended int64
			var data []byte
			var lifeHas, sum int64
			if err := scan(&id, &seq, &stamp, &life, &expires, &ended, &lifeHas, &data, &sum); err != nil {
				return err
			}
			there(id)
			if !database.Intact(sum, vectorSum(seq, stamp, data)) {
				return database.Changed("vectors of store record %d", seq)
			}
			if life != 0 {
				if !database.Intact(lifeHas, lifeSum(life, expires, ended)) {
					return database.Changed("lifetime of store record %d", seq)
				}
			}
			if expires != 0 && expires <= l.at {
				return nil
			}
			if life == 0 {
				read[id] = keptVector{seq, data}
			}
			n++
			return best.offer(seq, data)
		})
	if err == nil && by == byID && !l.indexes.tentative {
		l.vectors.keep(read, reworded)
	}
	return n, err
}

// filtered returns the numbers of the items that pass the filter. It does not read the
// vectors, because most are often not needed.
func (l *look) filtered(q *store.Query, by string, numbers []int64, there func(id int64)) (passed []int64, err error) {
	err = l.c.Each("SELECT v.id, j.value, r.seq, r.value, r.meta, r.sum FROM json_each(?) j CROSS JOIN store_vector v CROSS JOIN store_record r WHERE "+by+"=j.value AND r.seq=v.seq", []any{list(numbers)},
		func(scan func(...any) error) error {
			var id, number, seq int64
			var value, meta []byte
			var sum int64
			if err := scan(&id, &number, &seq, &value, &meta, &sum); err != nil {
				return err
			}
			there(id)
			if err := l.verifyValue(seq, true, value, meta, sum); err != nil {
				return err
			}
			passes, err := l.passes(q, value, meta)
			if passes {
				passed = append(passed, number)
			}
			return err
		})
	return passed, err
}

// nearestThen compares the items of a past state, which has no index, or those that pass
// a selective filter.
func (l *look) nearestThen(q *store.Query, s scope, best *topHits) error {
	for page := range slices.Chunk(slices.Concat(s.past, s.few), pageSize) {
		var seqs []int64
		err := l.c.Each("SELECT v.seq FROM json_each(?) j CROSS JOIN store_vector v WHERE v.seq=j.value AND v.stamp=(SELECT id FROM store_stamp WHERE text=?)",
			[]any{list(page), []byte(q.Stamp)}, func(scan func(...any) error) error {
				var seq int64
				err := scan(&seq)
				seqs = append(seqs, seq)
				return err
			})
		if err != nil {
			return err
		}
		if _, err := l.compare(q, best, bySeq, seqs, func(int64) {}); err != nil {
			return err
		}
	}
	return nil
}
