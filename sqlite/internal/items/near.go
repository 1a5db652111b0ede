package items

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/treadle-go/treadle/internal/vecindex"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/store"
)

// nearness holds the vector indexes. The signatures of all vectors that a search may
// compare are in memory, in one index for each stamp. An index starts with the signatures
// stored in the file (parts.go); the vectors themselves are read from the file. An
// index contains row IDs. It covers the IDs up to a certain number, because IDs grow; a
// search reads the few later rows one by one. The index does not track removed rows: a
// search finds no row under their IDs.
//
//	search: hold ──> the index has enough? ──yes──> RLock ──> BEGIN, search, ROLLBACK ──> RUnlock
//	                        └──no──> catch up, a page at a time: read, then Lock and add
//
// Rows that a search found to be removed are deleted from the index under Lock. A search
// begins its transaction while it holds RLock, so its snapshot is newer than those
// removals: it never misses an item that an older snapshot would contain. The lock is
// never taken while holding a connection, because an in-memory database has only one.
type nearness struct {
	busy chan struct{} // a semaphore, held while catching up

	mu      sync.RWMutex
	byStamp map[string]*nearby
}

// A nearby is the index of the vectors of one stamp.
type nearby struct {
	index *vecindex.Index
	mean  *mean
	upto  int64 // the greatest ID covered
	built int   // number of vectors when the mean was computed
	since int   // number of vectors added since

	mu   sync.Mutex
	gone map[int64]string // IDs without rows, with their namespaces
}

// sampled is the number of vectors from which the mean is computed.
const sampled = 4096

// indexes holds the indexes that the searches of a batch use.
type indexes struct {
	near      *nearness // nil if they use none
	tentative bool      // the transaction may be rolled back, so nothing it reads is cached
}

// hold prepares the indexes that the searches of a batch need. They do not change until
// release is called.
func (s *Backend) hold(ctx context.Context, b *store.Batch) (*indexes, error) {
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

// ensure catches up if an index lags too far behind.
func (s *Backend) ensure(ctx context.Context, stamp string) error {
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
	c := catchUp{Backend: s, stamp: stamp, start: time.Now()}
	return c.all(ctx)
}

func (s *Backend) due(ctx context.Context, stamp string) (bool, error) {
	x := s.near.get(stamp)
	var last int64
	err := s.db.Read(ctx, func(c *database.Conn) (err error) {
		last, err = lastVector(c)
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

// lastVector returns the greatest ID ever assigned to a row with vectors.
func lastVector(c *database.Conn) (id int64, err error) {
	_, err = c.Row("SELECT seq FROM sqlite_sequence WHERE name='store_vector'", nil, &id)
	return id, err
}

// A catchUp adds the missing vectors to an index.
type catchUp struct {
	*Backend
	stamp string
	start time.Time
	told  time.Time
	added int

	replaced int64 // the ID of the stored mean, if it can no longer be used
}

func (u *catchUp) all(ctx context.Context) error {
	x := u.near.get(u.stamp)
	if x != nil && x.since <= max(x.built, u.limits.behind) {
		return u.add(ctx, x, &u.near.mu)
	}
	// Build a new index: the first one, or one with a better mean and without removed
	// rows.
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
		u.db.Log.InfoContext(ctx, "sqlite: built vector index", "path", u.db.Path, "vectors", x.index.Len(), "took", time.Since(u.start))
	}
	return nil
}

// sign returns an empty index with the mean of some vectors, or nil if there are none.
func (u *catchUp) sign(ctx context.Context) (*nearby, error) {
	var sample [][]float32
	var stamp int64
	err := u.db.Read(ctx, func(c *database.Conn) error {
		last, err := lastVector(c)
		if err != nil {
			return err
		}
		if stamp, err = stampID(c, u.stamp); err != nil || stamp == 0 {
			return err
		}
		return c.Each("SELECT data FROM store_vector WHERE id>0 AND id%?=0 AND stamp=(SELECT id FROM store_stamp WHERE text=?)",
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

// A nearRow is a row of vectors to be added to an index.
type nearRow struct {
	id      int64
	name    string
	vectors [][]float32
}

// add adds the rows that x lacks and deletes removed rows. The lock guards x.
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

// tell logs from time to time that the index is being built.
func (u *catchUp) tell(ctx context.Context) {
	if quiet := u.limits.quiet; time.Since(u.start) > quiet && time.Since(u.told) > quiet {
		u.told = time.Now()
		u.db.Log.InfoContext(ctx, "sqlite: building vector index", "path", u.db.Path, "added", u.added)
	}
}

// page reads the rows after an ID. The result last is the ID up to which the rows are
// complete.
func (u *catchUp) page(ctx context.Context, after int64) (rows []nearRow, last int64, err error) {
	err = u.db.Read(ctx, func(c *database.Conn) (err error) {
		if last, err = lastVector(c); err != nil {
			return err
		}
		return c.Each(`SELECT v.id, v.seq, v.stamp, s.name, v.data, v.sum FROM store_vector v LEFT JOIN store_record r ON r.seq=v.seq LEFT JOIN store_space s ON s.id=r.space
			WHERE v.id>? AND v.stamp=(SELECT id FROM store_stamp WHERE text=?) ORDER BY v.id LIMIT ?+0`, []any{after, []byte(u.stamp), u.limits.page},
			func(scan func(...any) error) error {
				var r nearRow
				var seq, stamp int64
				var data []byte
				var sum int64
				if err := scan(&r.id, &seq, &stamp, &r.name, &data, &sum); err != nil {
					return err
				}
				if r.name == "" { // no item is in the root namespace
					return missingRecord(seq)
				}
				if !database.Intact(sum, vectorSum(seq, stamp, data)) {
					return database.Changed("vectors of store record %d", seq)
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

// forget deletes the removed rows from the index.
func (x *nearby) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(x.gone)) {
		x.index.Remove(x.gone[id], id)
	}
	clear(x.gone)
}

// lost records that an ID no longer has a row.
func (x *nearby) lost(id int64, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.gone[id] = name
}
