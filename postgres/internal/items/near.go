package items

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/internal/vecindex"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/store"
)

// nearness holds the in-process vector indexes. Without pgvector, searches among many
// vectors use an index of vector signatures, one for each stamp. The index covers the
// records up to a certain number, because records become visible in order; a search reads
// the few later ones from the database. The index does not track removed records: a
// search finds no vectors under their numbers.
//
//	search: hold ──> the index has enough? ──yes──> RLock ──> BEGIN, search, COMMIT ──> RUnlock
//	                        └──no──> catch up: read, then Lock and add
//
// Records that a search found to be removed are deleted from the index under Lock. A
// search begins its transaction while it holds RLock, so its snapshot is newer than those
// removals: it never misses an item that an older snapshot would contain.
type nearness struct {
	once sync.Once
	busy chan struct{} // a semaphore, held while catching up

	mu      sync.RWMutex
	byStamp map[int32]*nearby
}

// A nearby is the index of the vectors of one stamp.
type nearby struct {
	index     *vecindex.Index
	upto      int64 // the greatest record number covered
	reindexed int64 // the stamp's reindex counter
	built     int   // number of vectors when the mean was computed
	since     int   // number of vectors added since

	mu   sync.Mutex
	gone map[int64]string // numbers without vectors, with their names
}

const (
	behindMost = 64 // records, see behind
	// sampled is the number of vectors from which the mean is computed.
	sampled = 4096
	// A search compares at least comparedLeast of the candidates, and comparedPer for
	// each requested item.
	comparedLeast = 400
	comparedPer   = 4
)

// hold prepares the indexes that the searches of a batch need. They do not change until
// release is called.
func (s *Backend) hold(ctx context.Context, p *prepared) (release func(), err error) {
	release = func() {}
	if p.batch.Past() || p.server == nil || p.server.vector != "" {
		return release, nil
	}
	wanted := false
	for _, q := range p.batch.Searches {
		id := p.stamps[q.Stamp]
		if q.Vector == nil || id == nil {
			continue
		}
		few, err := s.fewUnder(ctx, p, q, *id)
		if err != nil {
			return nil, err
		}
		if few {
			continue
		}
		if err := s.ensure(ctx, *id); err != nil {
			return nil, err
		}
		if p.indexed == nil {
			p.indexed = map[*store.Query]bool{}
		}
		p.indexed[q], wanted = true, true
	}
	if !wanted {
		return release, nil
	}
	s.near.mu.RLock()
	return s.near.mu.RUnlock, nil
}

// fewUnder reports whether a search has few candidate vectors.
func (s *Backend) fewUnder(ctx context.Context, p *prepared, q *store.Query, stamp int32) (few bool, err error) {
	err = s.db.Read(ctx, func(c *pgx.Conn) error {
		l := newLook(ctx, c, p)
		scope, err := l.scope(q)
		if err != nil {
			return err
		}
		if few, err = l.few(scope, stamp); err != nil || few || len(scope.args) == 0 {
			return err
		}
		// The filter may be selective.
		var n int
		err = database.Each(ctx, c, s.db.In("SELECT count(*) FROM (SELECT FROM {schema}.store_item i WHERE i.name >= $1 AND i.name < $2"+scope.narrowed(4)+" LIMIT $3) i"),
			append([]any{pgx.QueryExecModeCacheDescribe, scope.from, scope.to, fewFiltered + 1}, scope.args...), []any{&n}, func() error { return nil })
		few = n <= fewFiltered
		return err
	})
	return few, err
}

// fewFiltered is the maximum number of filtered items that are compared one by one.
const fewFiltered = 1000

// ensure catches up if an index lags too far behind.
func (s *Backend) ensure(ctx context.Context, stamp int32) error {
	s.near.once.Do(func() { s.near.busy = make(chan struct{}, 1) })
	if due, err := s.due(ctx, stamp); err != nil || !due {
		return err
	}
	select {
	case s.near.busy <- struct{}{}:
		defer func() { <-s.near.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if due, err := s.due(ctx, stamp); err != nil || !due { // another goroutine has caught up
		return err
	}
	return s.catchUp(ctx, stamp)
}

// A storeState is the number of the last visible record and the number of times that a
// stamp was reindexed.
type storeState struct{ seq, reindexed int64 }

func (s *Backend) stateOf(ctx context.Context, q database.Querier, stamp int32) (now storeState, err error) {
	err = q.QueryRow(ctx, s.db.In("SELECT st.seq, t.reindexed FROM {schema}.store_state st, {schema}.store_stamp t WHERE t.id = $1"), stamp).Scan(&now.seq, &now.reindexed)
	return now, err
}

func (s *Backend) due(ctx context.Context, stamp int32) (bool, error) {
	var now storeState
	err := s.db.Read(ctx, func(c *pgx.Conn) (err error) {
		now, err = s.stateOf(ctx, c, stamp)
		return err
	})
	if err != nil {
		return false, err
	}
	s.near.mu.RLock()
	defer s.near.mu.RUnlock()
	x := s.near.byStamp[stamp]
	if x == nil || x.outdated(now) {
		return true, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return now.seq-x.upto > s.behind() || len(x.gone) > int(s.behind()), nil
}

// outdated reports whether records were reindexed or the database was restored to an
// earlier state.
func (x *nearby) outdated(now storeState) bool {
	return x.reindexed != now.reindexed || now.seq < x.upto
}

// behind returns the maximum number of records that an index may lack, or contain
// although they were removed.
func (s *Backend) behind() int64 {
	if s.few != nil {
		return 0 // in tests
	}
	return behindMost
}

// catchUp adds the missing vectors to an index or builds a new index.
func (s *Backend) catchUp(ctx context.Context, stamp int32) error {
	s.near.mu.RLock()
	known := s.near.byStamp[stamp]
	s.near.mu.RUnlock()
	var x *nearby
	var now storeState
	var rows []signedRow
	err := s.db.Read(ctx, func(c *pgx.Conn) error {
		return database.Snapshot(ctx, c, func(q database.Querier) (err error) {
			if now, err = s.stateOf(ctx, q, stamp); err != nil {
				return err
			}
			x = known
			if x == nil || x.outdated(now) || x.since > max(x.built, behindMost) {
				// Build a new index: the first one, or one with a better mean and without
				// removed records.
				if x, err = s.sampled(ctx, q, stamp, now); err != nil || x == nil {
					return err
				}
			}
			rows, err = s.signed(ctx, q, stamp, x, now.seq)
			return err
		})
	})
	if err != nil || x == nil {
		return err
	}
	if x != known {
		x.add(rows, now.seq)
		x.built, x.since = x.index.Len(), 0
	}
	// Lock only now, without a connection: a holder of the lock may be waiting for one.
	s.near.mu.Lock()
	defer s.near.mu.Unlock()
	if x == known {
		x.forget()
		x.add(rows, now.seq)
		return nil
	}
	if s.near.byStamp == nil {
		s.near.byStamp = map[int32]*nearby{}
	}
	s.near.byStamp[stamp] = x
	return nil
}

// sampled returns an empty index with the mean of some vectors, or nil if there are none.
func (s *Backend) sampled(ctx context.Context, q database.Querier, stamp int32, now storeState) (*nearby, error) {
	var sample [][]float32
	var data []float32
	err := database.Each(ctx, q, s.db.In("SELECT v.data FROM {schema}.store_vector v WHERE v.seq % $1 = 0 AND v.stamp = $2 AND v.name IS NOT NULL"),
		[]any{now.seq/sampled + 1, stamp}, []any{&data}, func() error {
			sample = append(sample, data)
			data = nil
			return nil
		})
	if err != nil || len(sample) == 0 {
		return nil, err
	}
	return &nearby{index: vecindex.Signed(sample...), reindexed: now.reindexed, gone: map[int64]string{}}, nil
}

// A signedRow is a vector to be added to an index.
type signedRow struct {
	seq       int64
	name      string
	signature []uint64
}

// signed reads the vectors up to a record number that an index lacks.
func (s *Backend) signed(ctx context.Context, q database.Querier, stamp int32, x *nearby, upto int64) (all []signedRow, err error) {
	var seq int64
	var encoded, raw []byte
	names := map[string]string{} // shares one string among all rows of a namespace
	err = database.Each(ctx, q, s.db.In("SELECT v.seq, v.name, coalesce(v.raw, array_send(v.data)) FROM {schema}.store_vector v WHERE v.seq > $1 AND v.seq <= $2 AND v.stamp = $3 AND v.name IS NOT NULL"),
		[]any{x.upto, upto, stamp}, []any{&seq, &encoded, &raw}, func() error {
			v, err := vectorOf(raw, x.index.Dimension())
			if err != nil {
				return err
			}
			name, ok := names[string(encoded)]
			if !ok {
				name = string(encoded)
				names[name] = name
			}
			all = append(all, signedRow{seq, name, x.index.Signature(v)})
			return nil
		})
	return all, err
}

func (x *nearby) add(rows []signedRow, upto int64) {
	for _, r := range rows {
		x.index.AddSigned(r.name, r.seq, r.signature)
	}
	x.since += len(rows)
	x.upto = upto
}

// forget deletes the removed records from the index.
func (x *nearby) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, seq := range slices.Sorted(maps.Keys(x.gone)) {
		x.index.Remove(x.gone[seq], seq)
	}
	clear(x.gone)
}

// likely returns the nearest items in scope among the index's candidates.
func (l *look) likely(q *store.Query, s scope, stamp int32) ([]int64, error) {
	near := &l.p.backend.near
	x := near.byStamp[stamp]
	if x == nil {
		return l.compared(q, s, stamp)
	}
	c := comparing{look: l, q: q, stamp: stamp, best: map[int64]float32{}}
	late, err := l.lateSeqs(s, stamp, x.upto)
	if err != nil {
		return nil, err
	}
	if _, err := c.compare(late); err != nil {
		return nil, err
	}
	left := max(comparedLeast, comparedPer*q.Depth)
	page := map[int64]string{} // names by record number
	seen := map[int64]bool{}
	for _, seq := range late { // a reindexed record may be in both
		seen[seq] = true
	}
	flush := func() error {
		n, err := c.compare(slices.Sorted(maps.Keys(page)))
		if err != nil {
			return err
		}
		left -= n
		for seq := range c.there {
			delete(page, seq)
		}
		if len(page) > 0 {
			err = l.noteGone(x, page)
		}
		clear(page)
		return err
	}
	for name, seq := range x.index.Likely(q.Prefix.Encode(), q.Vector, left) {
		if seen[seq] {
			continue
		}
		seen[seq], page[seq] = true, name
		if len(page) == left {
			if err := flush(); err != nil {
				return nil, err
			}
			if left <= 0 {
				break
			}
		}
	}
	if len(page) > 0 {
		if err := flush(); err != nil {
			return nil, err
		}
	}
	return c.nearest(), nil
}

// lateSeqs returns the records in scope that an index does not cover yet.
func (l *look) lateSeqs(s scope, stamp int32, upto int64) (seqs []int64, err error) {
	var seq int64
	err = l.each("SELECT DISTINCT v.seq FROM {schema}.store_vector v WHERE v.seq > $1 AND v.stamp = $2 AND v.name >= $3 AND v.name < $4",
		[]any{upto, stamp, s.from, s.to}, []any{&seq}, func() error {
			seqs = append(seqs, seq)
			return nil
		})
	return seqs, err
}

// noteGone notes that some records no longer have vectors, unless they are too new for
// this transaction to see.
func (l *look) noteGone(x *nearby, page map[int64]string) error {
	if len(l.p.batch.Writes) > 0 {
		return nil // the writes may be rolled back
	}
	var last int64
	if err := l.q.QueryRow(l.ctx, l.p.backend.db.In("SELECT seq FROM {schema}.store_state")).Scan(&last); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for seq, name := range page {
		if seq <= last {
			x.gone[seq] = name
		}
	}
	return nil
}

// A comparing compares vectors with a query's vector.
type comparing struct {
	*look
	q     *store.Query
	stamp int32
	best  map[int64]float32 // similarities of the items that pass the filter
	there map[int64]bool    // records of the last call that have vectors
}

// compare compares the given items that are live and pass the filter, and returns the
// number of new ones.
func (c *comparing) compare(seqs []int64) (int, error) {
	c.there = make(map[int64]bool, len(seqs))
	if len(seqs) == 0 {
		return 0, nil
	}
	var seq int64
	var live bool
	var value, meta []byte
	filtered := c.q.Filter().Op != ""
	columns, join, dest := "SELECT coalesce(v.raw, array_send(v.data)), v.seq, "+isLive, "", []any{nil, &seq, &live}
	if filtered {
		columns, join, dest = columns+", r.value, r.meta", " JOIN {schema}.store_record r ON r.seq = v.seq", append(dest, &value, &meta)
	}
	rows, err := c.look.q.Query(c.ctx, c.p.backend.db.In(columns+" FROM {schema}.store_vector v LEFT JOIN {schema}.store_life l ON l.seq = v.seq"+join+
		" WHERE v.seq = ANY ($2) AND v.stamp = $3 AND v.name IS NOT NULL"), c.at, seqs, c.stamp)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	before := len(c.best)
	for rows.Next() {
		similarity, err := similarityOf(c.q.Vector, rows.RawValues()[0])
		if err != nil {
			return 0, err
		}
		if err := rows.Scan(dest...); err != nil {
			return 0, err
		}
		c.there[seq] = true
		if !live || filtered && !c.q.Match(value, meta) {
			continue
		}
		if known, ok := c.best[seq]; !ok || similarity > known {
			c.best[seq] = similarity
		}
	}
	return len(c.best) - before, rows.Err()
}

// nearest returns the most similar items, best first.
func (c *comparing) nearest() []int64 { return nearestIn(c.q, c.best) }

// nearestIn returns the items with the greatest similarities, best first.
func nearestIn(q *store.Query, best map[int64]float32) []int64 {
	seqs := slices.Collect(maps.Keys(best))
	slices.SortFunc(seqs, func(a, b int64) int { return cmp.Or(cmp.Compare(best[b], best[a]), cmp.Compare(b, a)) })
	return seqs[:min(len(seqs), q.Depth+surplus)]
}

// vectorOf decodes a vector in either encoding that similarityOf accepts.
func vectorOf(raw []byte, dimension int) ([]float32, error) {
	const number, head = 4, 20
	at, step := 0, number
	switch len(raw) {
	case number * dimension:
	case head + 2*number*dimension:
		at, step = head+number, 2*number
	default:
		return nil, fmt.Errorf("%w: unreadable vectors of an item", database.ErrDamaged)
	}
	v := make([]float32, dimension)
	for i := range v {
		v[i] = math.Float32frombits(binary.BigEndian.Uint32(raw[at+i*step:]))
	}
	return v, nil
}
