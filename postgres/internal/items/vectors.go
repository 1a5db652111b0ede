package items

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/store"
)

// surplus is the number of candidates collected beyond those that a query asks for.
// Candidates are compared in single precision but ranked in double precision, so the
// order may differ near the last place.
const surplus = 16

// nearest returns the items most similar to a query.
func (l *look) nearest(q *store.Query, s scope) ([]store.Candidate, error) {
	id := l.p.stamps[q.Stamp]
	if id == nil {
		return nil, nil
	}
	var seqs []int64
	var err error
	switch {
	case l.p.indexed[q]:
		seqs, err = l.likely(q, s, *id)
	case l.past || l.p.server.vector == "":
		seqs, err = l.compared(q, s, *id)
	default:
		seqs, err = l.asked(q, s, *id)
	}
	if err != nil || len(seqs) == 0 {
		return nil, err
	}
	return l.withVectors(seqs)
}

// withVectors returns records with their vectors.
func (l *look) withVectors(seqs []int64) ([]store.Candidate, error) {
	var all []store.Candidate
	var seq int64
	var field []byte
	var data []float32
	err := l.each("SELECT v.seq, v.field, v.data FROM {schema}.store_vector v WHERE v.seq = ANY ($1) ORDER BY v.seq, v.n", []any{seqs}, []any{&seq, &field, &data}, func() error {
		if len(all) == 0 || all[len(all)-1].Seq != seq {
			all = append(all, store.Candidate{Seq: seq})
		}
		c := &all[len(all)-1]
		c.Vectors = append(c.Vectors, store.Vector{Field: string(field), Data: data})
		data = nil
		return nil
	})
	return all, err
}

// asked finds the nearest items with pgvector. If there are many vectors, it uses the
// index. If the index returns too few items, because of a filter or expired items, asked
// compares all vectors instead.
func (l *look) asked(q *store.Query, s scope, stamp int32) ([]int64, error) {
	a := asking{
		look: l, q: q, scope: s, n: q.Depth + surplus,
		// The stamp is a literal: Postgres uses a partial index only if the statement
		// implies the index's condition.
		where:    fmt.Sprintf(" WHERE v.stamp = %d AND v.name >= $2 AND v.name < $3", stamp),
		distance: fmt.Sprintf("(v.data::%[1]s.vector(%[2]d)) OPERATOR(%[1]s.<#>) $4::real[]::%[1]s.vector(%[2]d)", l.p.server.vector, len(q.Vector)),
		args:     []any{l.at, s.from, s.to, q.Vector},
	}
	few, err := l.few(s, stamp)
	if err != nil {
		return nil, err
	}
	if !few && a.n <= maxIndexed {
		if seqs, err := a.index(); err != nil || len(seqs) == a.n {
			return seqs, err
		}
	}
	return a.all()
}

// An asking is a search for the n nearest items with pgvector.
type asking struct {
	*look
	q               *store.Query
	scope           scope
	n               int
	where, distance string
	args            []any // arguments 1 to 4
}

// index queries the index for more items than needed, because some results may belong to
// the same item, have expired, or not pass the filter.
func (a *asking) index() ([]int64, error) {
	if err := a.tune(a.n); err != nil {
		return nil, err
	}
	inner := "SELECT v.seq, " + a.distance + " AS d FROM {schema}.store_vector v" + a.where + " ORDER BY d LIMIT $5"
	seqs, _, err := a.nearby(inner, "LEFT JOIN {schema}.store_life l ON l.seq = m.seq WHERE "+isLive, append(slices.Clone(a.args), 4*a.n))
	if err != nil {
		return nil, err
	}
	return seqs, a.untune()
}

// all compares all vectors. With a filter, it may need more rows than it first asks for.
func (a *asking) all() (seqs []int64, err error) {
	join := " LEFT JOIN {schema}.store_life l ON l.seq = v.seq"
	if len(a.scope.args) > 0 {
		join += " JOIN {schema}.store_item i ON i.seq = v.seq"
	}
	inner := "SELECT v.seq, min(" + a.distance + ") AS d FROM {schema}.store_vector v" + join + a.where + " AND " + isLive + a.scope.narrowed(6) +
		" GROUP BY v.seq ORDER BY d, v.seq DESC LIMIT $5"
	for _, limit := range []any{4 * a.n, nil} {
		var rows int
		seqs, rows, err = a.nearby(inner, "", append(append(slices.Clone(a.args), limit), a.scope.args...))
		if err != nil || len(seqs) == a.n || rows < 4*a.n {
			break
		}
	}
	return seqs, err
}

// nearby reads up to n of the nearest items that pass the filter. It also returns the
// number of rows read.
func (a *asking) nearby(inner, outer string, args []any) (seqs []int64, rows int, err error) {
	var seq int64
	var value, meta []byte
	columns, join, dest := "SELECT m.seq", "", []any{&seq}
	filtered := a.q.Filter().Op != ""
	if filtered {
		columns, join, dest = columns+", r.value, r.meta", " JOIN {schema}.store_record r ON r.seq = m.seq ", append(dest, &value, &meta)
	}
	seen := map[int64]bool{}
	err = a.each(columns+" FROM ("+inner+") m "+join+outer+" ORDER BY m.d, m.seq DESC", args, dest, func() error {
		rows++
		if len(seqs) < a.n && !seen[seq] && (!filtered || a.q.Match(value, meta)) {
			seqs = append(seqs, seq)
		}
		seen[seq] = true
		return nil
	})
	return seqs, rows, err
}

const (
	// Up to fewVectors vectors, comparing all is faster than using an index.
	fewVectors = 5000
	// maxIndexed is the maximum number of items to request from the index.
	maxIndexed = 1000
)

// few reports whether the number of vectors in scope is small.
func (l *look) few(s scope, stamp int32) (bool, error) {
	var n int
	most := fewVectors
	if l.p.backend.few != nil {
		most = *l.p.backend.few
	}
	err := l.q.QueryRow(l.ctx, l.p.backend.db.In("SELECT count(*) FROM (SELECT FROM {schema}.store_vector v WHERE v.stamp = $1 AND v.name >= $2 AND v.name < $3 LIMIT $4) v"), stamp, s.from, s.to, most+1).Scan(&n)
	return n <= most, err
}

// tune makes the index search thorough and forces its use, even if the server's
// statistics do not show that sorting everything is slower. The settings end with the
// transaction; untune resets the setting that affects other queries.
func (l *look) tune(n int) error {
	return l.q.QueryRow(l.ctx, "SELECT set_config('hnsw.ef_search', $1, true), set_config('hnsw.iterative_scan', 'strict_order', true), set_config('enable_sort', 'off', true)",
		fmt.Sprint(min(1000, max(200, 4*n)))).Scan(nil, nil, nil)
}

func (l *look) untune() error {
	return l.q.QueryRow(l.ctx, "SELECT set_config('enable_sort', 'on', true)").Scan(nil)
}

// compared finds the nearest items by comparing all vectors in scope.
func (l *look) compared(q *store.Query, s scope, stamp int32) ([]int64, error) {
	columns, from, filtered := "SELECT v.seq, coalesce(v.raw, array_send(v.data))", " FROM {schema}.store_vector v", q.Filter().Op != ""
	if filtered {
		columns, from = columns+", r.value, r.meta", from+" JOIN {schema}.store_record r ON r.seq = v.seq"
	}
	if len(s.args) > 0 {
		from += " JOIN {schema}.store_item i ON i.seq = v.seq"
	}
	where, args := " WHERE v.seq = ANY ($1) AND v.stamp = $2", []any{s.past, stamp}
	if !l.past {
		where = " LEFT JOIN {schema}.store_life l ON l.seq = v.seq WHERE " + isLive + " AND v.name >= $2 AND v.name < $3 AND v.stamp = $4" + s.narrowed(5)
		args = append([]any{l.at, s.from, s.to, stamp}, s.args...)
	}
	rows, err := l.q.Query(l.ctx, l.p.backend.db.In(columns+from+where), args...)
	if err != nil {
		return nil, err
	}
	return nearestOf(q, rows, filtered)
}

// nearestOf returns the rows nearest to a query. It reads vectors in their wire format,
// because most are discarded after the comparison.
func nearestOf(q *store.Query, rows pgx.Rows, filtered bool) ([]int64, error) {
	defer rows.Close()
	var seq int64
	var value, meta []byte
	dest := []any{&seq, nil}
	if filtered {
		dest = append(dest, &value, &meta)
	}
	best := map[int64]float32{}
	for rows.Next() {
		similarity, err := similarityOf(q.Vector, rows.RawValues()[1])
		if err != nil {
			return nil, err
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		if filtered && !q.Match(value, meta) {
			continue
		}
		if before, ok := best[seq]; !ok || similarity > before {
			best[seq] = similarity
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return nearestIn(q, best), nil
}

// rawVector encodes a vector with four bytes per number.
func rawVector(v []float32) []byte {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.BigEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return raw
}

// similarityOf returns the dot product of a query and an encoded vector. The vector is
// encoded by rawVector or is a real[] in Postgres's binary format: a header of five
// 4-byte numbers, then the size and value of each element.
func similarityOf(query []float32, raw []byte) (float32, error) {
	const number, head = 4, 20
	switch len(raw) {
	case number * len(query):
		return dot(query, raw, 0, number), nil
	case head + 2*number*len(query):
		return dot(query, raw[head:], number, 2*number), nil
	}
	return 0, fmt.Errorf("%w: unreadable vectors of an item", database.ErrDamaged)
}

// dot returns the dot product of a and an encoded vector whose numbers start at offset at
// and are step bytes apart. It uses four sums, which a processor can compute in parallel.
func dot(a []float32, b []byte, at, step int) float32 {
	number := func(i int) float32 { return math.Float32frombits(binary.BigEndian.Uint32(b[at+i*step:])) }
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * number(i)
		s1 += a[i+1] * number(i+1)
		s2 += a[i+2] * number(i+2)
		s3 += a[i+3] * number(i+3)
	}
	for ; i < len(a); i++ {
		s0 += a[i] * number(i)
	}
	return s0 + s1 + s2 + s3
}
