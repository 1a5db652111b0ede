package sqlite

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/treadle-go/treadle/internal/vecindex"
	"github.com/treadle-go/treadle/store"
)

// The signatures of all vectors that a search may compare are in the process,
// one index for each way they were made, which begins with the signatures that are in
// the file (store_parts.go); the vectors themselves are read from the file. An index has the ids of rows. It knows those up to a number, since
// ids grow; a search reads the few that came later one by one. It does not know
// which have gone: a search finds no row under their ids.
//
//	search: hold ──> the index has enough? ──yes──> RLock ──> BEGIN, search, ROLLBACK ──> RUnlock
//	                        └──no──> catch up, a page at a time: read, then Lock and add
//
// What a search found to be gone is removed under Lock. A search begins its
// transaction with RLock held, so it sees a state in which that was so: it
// never misses an item that an older state had. The lock is never taken while
// holding a connection, because in memory there is only one.
type nearness struct {
	busy chan struct{} // whoever is in it catches up

	mu      sync.RWMutex
	byStamp map[string]*nearby
}

// A nearby is the index of the vectors of one stamp.
type nearby struct {
	index *vecindex.Index
	mean  *mean
	upto  int64 // the greatest id it knows
	built int   // how many vectors there were when the mean was taken
	since int   // how many were added

	mu   sync.Mutex
	gone map[int64]string // ids that had no row, with their namespaces
}

// sampled is how many vectors the mean is taken of.
const sampled = 4096

// indexes are those that the searches of a batch use.
type indexes struct {
	near      *nearness // nil if they use none
	tentative bool      // the transaction may be rolled back, so nothing it sees is learnt
}

// hold makes the indexes ready that queries need. They do not change until they
// are released.
func (s *backend) hold(ctx context.Context, b *store.Batch) (*indexes, error) {
	if b.Past() {
		return &indexes{}, nil
	}
	stamps := map[string]bool{}
	for _, q := range b.Searches {
		if q.Vector != nil {
			stamps[q.Stamp] = true
		}
	}
	if len(stamps) == 0 {
		return &indexes{}, nil
	}
	for stamp := range stamps {
		if err := s.ensure(ctx, stamp); err != nil {
			return nil, err
		}
	}
	s.near.mu.RLock()
	return &indexes{near: &s.near}, nil
}

func (x *indexes) release() {
	if x.near != nil {
		x.near.mu.RUnlock()
	}
}

// ensure catches up if an index is too far behind.
func (s *backend) ensure(ctx context.Context, stamp string) error {
	if due, err := s.due(ctx, stamp); err != nil || !due {
		return err
	}
	select {
	case s.near.busy <- struct{}{}:
		defer func() { <-s.near.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if due, err := s.due(ctx, stamp); err != nil || !due { // somebody else has done it
		return err
	}
	c := catchUp{backend: s, stamp: stamp, start: time.Now()}
	return c.all(ctx)
}

func (s *backend) due(ctx context.Context, stamp string) (bool, error) {
	x := s.near.get(stamp)
	var last int64
	err := s.db.read(ctx, func(c *conn) (err error) {
		last, err = c.lastVector()
		return err
	})
	if err != nil {
		return false, err
	}
	s.near.mu.RLock()
	defer s.near.mu.RUnlock()
	if x == nil {
		return last > int64(s.limits.behind), nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return last-x.upto > int64(s.limits.behind) || len(x.gone) > s.limits.behind, nil
}

func (n *nearness) get(stamp string) *nearby {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.byStamp[stamp]
}

// lastVector is the greatest id that a row with vectors has ever had.
func (c *conn) lastVector() (id int64, err error) {
	_, err = c.row("SELECT seq FROM sqlite_sequence WHERE name='store_vector'", nil, &id)
	return id, err
}

// catchUp adds to an index what it lacks.
type catchUp struct {
	*backend
	stamp string
	start time.Time
	told  time.Time
	added int

	replaced int64 // the id of the mean in the file, if it cannot be used any more
}

func (u *catchUp) all(ctx context.Context) error {
	x := u.near.get(u.stamp)
	if x != nil && x.since <= max(x.built, u.limits.behind) {
		return u.add(ctx, x, &u.near.mu)
	}
	// A new one: the first, or one with a better mean and without what is gone.
	x, err := u.restore(ctx)
	restored := x != nil
	if err == nil && !restored {
		x, err = u.sign(ctx)
	}
	if err != nil || x == nil {
		return err
	}
	made, err := u.parts(ctx, x, false)
	if err != nil {
		return err
	}
	u.keepParts(ctx, x.mean, restored, made, x.upto)
	if err := u.add(ctx, x, new(sync.RWMutex)); err != nil {
		return err
	}
	x.built, x.since = x.index.Len(), 0
	u.near.mu.Lock()
	defer u.near.mu.Unlock()
	if u.near.byStamp == nil {
		u.near.byStamp = map[string]*nearby{}
	}
	u.near.byStamp[u.stamp] = x
	if !u.told.IsZero() {
		u.db.log.InfoContext(ctx, "sqlite: the index of vectors is ready", "path", u.db.path, "vectors", x.index.Len(), "took", time.Since(u.start))
	}
	return nil
}

// sign makes an empty index with the mean of some vectors, or nil if there are
// none.
func (u *catchUp) sign(ctx context.Context) (*nearby, error) {
	var sample [][]float32
	var stamp int64
	err := u.db.read(ctx, func(c *conn) error {
		last, err := c.lastVector()
		if err != nil {
			return err
		}
		if stamp, err = c.stampID(u.stamp); err != nil || stamp == 0 {
			return err
		}
		return c.each("SELECT data FROM store_vector WHERE id>0 AND id%?=0 AND stamp=(SELECT id FROM store_stamp WHERE text=?)",
			[]any{last/sampled + 1, []byte(u.stamp)}, func(scan func(...any) error) error {
				var data []byte
				if err := scan(&data); err != nil {
					return err
				}
				vectors, err := decodeVectors(data)
				for _, v := range vectors {
					sample = append(sample, v.Data)
				}
				return err
			})
	})
	if err != nil || len(sample) == 0 {
		return nil, err
	}
	m := newMean(stamp, sample)
	return &nearby{index: m.index, mean: m, gone: map[int64]string{}}, nil
}

// A nearRow is a row of vectors on its way into an index.
type nearRow struct {
	id      int64
	name    string
	vectors [][]float32
}

// add adds the rows that x lacks, and takes out what is gone. The lock is that of
// x.
func (u *catchUp) add(ctx context.Context, x *nearby, lock *sync.RWMutex) error {
	lock.Lock()
	x.forget()
	lock.Unlock()
	for {
		rows, last, err := u.page(ctx, x.upto)
		if err != nil {
			return err
		}
		lock.Lock()
		for _, r := range rows {
			x.index.Add(r.name, r.id, r.vectors...)
			x.since += len(r.vectors)
		}
		x.upto = last
		lock.Unlock()
		u.added += len(rows)
		if len(rows) < u.limits.page {
			return nil
		}
		u.tell(ctx)
	}
}

// tell tells the log now and then that the index is being built.
func (u *catchUp) tell(ctx context.Context) {
	if quiet := u.limits.quiet; time.Since(u.start) > quiet && time.Since(u.told) > quiet {
		u.told = time.Now()
		u.db.log.InfoContext(ctx, "sqlite: the index of vectors is being built", "path", u.db.path, "added", u.added)
	}
}

// page reads the rows after an id, and up to what id they are all.
func (u *catchUp) page(ctx context.Context, after int64) (rows []nearRow, last int64, err error) {
	err = u.db.read(ctx, func(c *conn) (err error) {
		if last, err = c.lastVector(); err != nil {
			return err
		}
		return c.each(`SELECT v.id, v.seq, v.stamp, s.name, v.data, v.sum FROM store_vector v LEFT JOIN store_record r ON r.seq=v.seq LEFT JOIN store_space s ON s.id=r.space
			WHERE v.id>? AND v.stamp=(SELECT id FROM store_stamp WHERE text=?) ORDER BY v.id LIMIT ?+0`, []any{after, []byte(u.stamp), u.limits.page},
			func(scan func(...any) error) error {
				var r nearRow
				var seq, stamp int64
				var data []byte
				var sum sum
				if err := scan(&r.id, &seq, &stamp, &r.name, &data, &sum); err != nil {
					return err
				}
				if r.name == "" { // no item is in the root
					return missingRecord(seq)
				}
				if !c.intact(sum, vectorSum(seq, stamp, data)) {
					return changed("the vectors of record %d of the store", seq)
				}
				vectors, err := decodeVectors(data)
				for _, v := range vectors {
					r.vectors = append(r.vectors, v.Data)
				}
				rows = append(rows, r)
				return err
			})
	})
	if len(rows) == u.limits.page {
		last = rows[u.limits.page-1].id
	}
	return rows, last, err
}

// forget takes out what is gone.
func (x *nearby) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(x.gone)) {
		x.index.Remove(x.gone[id], id)
	}
	clear(x.gone)
}

// lost notes that there is nothing under an id any more.
func (x *nearby) lost(id int64, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.gone[id] = name
}
