package postgres

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/store"
)

// surplus is how many more of the nearest are collected than a query asks for:
// they are compared in single precision and ranked in double, so near the last
// place the two may differ.
const surplus = 16

// nearest are the items most similar to a query.
func (l *look) nearest(q *store.Query, s scope) ([]store.Candidate, error) {
	id := l.p.stamps[q.Stamp]
	if id == nil {
		return nil, nil
	}
	var seqs []int64
	var err error
	if l.past || l.p.server.vector == "" {
		seqs, err = l.compared(q, s, *id)
	} else {
		seqs, err = l.asked(q, s, *id)
	}
	if err != nil || len(seqs) == 0 {
		return nil, err
	}
	return l.withVectors(seqs)
}

// withVectors reads the vectors of records.
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

// asked has pgvector find the nearest. Where there are many vectors its index
// does; if that comes back with too few, because of a filter or of items that
// have expired, all are compared after all.
func (l *look) asked(q *store.Query, s scope, stamp int32) ([]int64, error) {
	// Numbers in place of arguments: an index of a part of the rows is used only
	// if it is plain that they are its.
	from := fmt.Sprintf(" FROM {schema}.store_vector v%%s WHERE v.stamp = %d AND v.name >= $2 AND v.name < $3", stamp)
	of := fmt.Sprintf("(v.data::%[1]s.vector(%[2]d)) OPERATOR(%[1]s.<#>) $4::real[]::%[1]s.vector(%[2]d)", l.p.server.vector, len(q.Vector))
	n := q.Depth + surplus
	args := []any{l.at, s.from, s.to, q.Vector}
	if few, err := l.few(s, stamp); err != nil {
		return nil, err
	} else if !few && n <= maxIndexed {
		if err := l.tune(n); err != nil {
			return nil, err
		}
		inner := "SELECT v.seq, " + of + " AS d" + fmt.Sprintf(from, "") + " ORDER BY d LIMIT $5"
		seqs, _, err := l.nearby(q, inner, "LEFT JOIN {schema}.store_life l ON l.seq = m.seq WHERE "+isLive, append(args, 4*n), n)
		if err != nil || len(seqs) == n {
			return seqs, err
		}
	}
	join := " LEFT JOIN {schema}.store_life l ON l.seq = v.seq"
	if len(s.args) > 0 {
		join += " JOIN {schema}.store_item i ON i.seq = v.seq"
	}
	inner := "SELECT v.seq, min(" + of + ") AS d" + fmt.Sprintf(from, join) + " AND " + isLive + s.narrowed(6) + " GROUP BY v.seq ORDER BY d, v.seq DESC LIMIT $5"
	// With a filter more may be needed than are returned: all, that is.
	for _, limit := range []any{4 * n, nil} {
		seqs, rows, err := l.nearby(q, inner, "", append(append(slices.Clone(args), limit), s.args...), n)
		if err != nil || len(seqs) == n || rows < 4*n {
			return seqs, err
		}
	}
	return nil, fmt.Errorf("%w: the nearest of %q are without end", ErrDamaged, q.Stamp) // never: the last has no limit
}

// nearby reads those of the nearest that pass the filter, until there are n. It
// says how many rows there were.
func (l *look) nearby(q *store.Query, inner, outer string, args []any, n int) (seqs []int64, rows int, err error) {
	var seq int64
	var value, meta []byte
	columns, join, dest := "SELECT m.seq", "", []any{&seq}
	filtered := q.Filter().Op != ""
	if filtered {
		columns, join, dest = columns+", r.value, r.meta", " JOIN {schema}.store_record r ON r.seq = m.seq ", append(dest, &value, &meta)
	}
	seen := map[int64]bool{}
	err = l.each(columns+" FROM ("+inner+") m "+join+outer+" ORDER BY m.d, m.seq DESC", args, dest, func() error {
		rows++
		if len(seqs) < n && !seen[seq] && (!filtered || q.Match(value, meta)) {
			seqs = append(seqs, seq)
		}
		seen[seq] = true
		return nil
	})
	return seqs, rows, err
}

const (
	// fewVectors are compared faster than looked up in an index.
	fewVectors = 2000
	// maxIndexed is how many the index is asked for at most.
	maxIndexed = 1000
)

// few reports whether there are not many vectors in scope.
func (l *look) few(s scope, stamp int32) (bool, error) {
	var n int
	most := l.p.shelf.fewVectors()
	err := l.q.QueryRow(l.ctx, l.p.shelf.in("SELECT count(*) FROM (SELECT FROM {schema}.store_vector v WHERE v.stamp = $1 AND v.name >= $2 AND v.name < $3 LIMIT $4) v"), stamp, s.from, s.to, most+1).Scan(&n)
	return n <= most, err
}

func (s *shelf) fewVectors() int {
	if s.few > 0 {
		return s.few
	}
	return fewVectors
}

// tune says, for this transaction, how thoroughly the index is searched.
func (l *look) tune(n int) error {
	var set string
	return l.q.QueryRow(l.ctx, "SELECT set_config('hnsw.ef_search', $1, true) || set_config('hnsw.iterative_scan', 'strict_order', true)",
		fmt.Sprint(min(1000, max(200, 4*n)))).Scan(&set)
}

// compared finds the nearest by comparing all vectors in scope.
func (l *look) compared(q *store.Query, s scope, stamp int32) ([]int64, error) {
	columns, from, filtered := "SELECT v.seq, v.data", " FROM {schema}.store_vector v", q.Filter().Op != ""
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
	rows, err := l.q.Query(l.ctx, l.p.shelf.in(columns+from+where), args...)
	if err != nil {
		return nil, err
	}
	return race(q, rows, filtered)
}

// race reads rows with vectors and returns those that are nearest to a query. It
// takes the vectors as they come over the wire: most are out of the race after
// this.
func race(q *store.Query, rows pgx.Rows, filtered bool) ([]int64, error) {
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
	seqs := make([]int64, 0, len(best))
	for seq := range best {
		seqs = append(seqs, seq)
	}
	slices.SortFunc(seqs, func(a, b int64) int { return cmp.Or(cmp.Compare(best[b], best[a]), cmp.Compare(b, a)) })
	return seqs[:min(len(seqs), q.Depth+surplus)], nil
}

// similarityOf is the product of a query and a real[] in Postgres's binary form:
// five numbers of four bytes ahead, then for each element its size and itself.
func similarityOf(query []float32, raw []byte) (float32, error) {
	const head, each = 20, 8
	if len(raw) < head || (len(raw)-head)%each != 0 {
		return 0, fmt.Errorf("%w: the vectors of an item are unreadable", ErrDamaged)
	}
	raw = raw[head:]
	if len(raw) != each*len(query) {
		return float32(math.Inf(-1)), nil
	}
	var s0, s1 float32
	for len(query) >= 2 && len(raw) >= 2*each {
		s0 += query[0] * math.Float32frombits(binary.BigEndian.Uint32(raw[4:8]))
		s1 += query[1] * math.Float32frombits(binary.BigEndian.Uint32(raw[12:16]))
		query, raw = query[2:], raw[2*each:]
	}
	for i, x := range query {
		s0 += x * math.Float32frombits(binary.BigEndian.Uint32(raw[each*i+4:]))
	}
	return s0 + s1, nil
}
