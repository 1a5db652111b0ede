package items

import (
	"context"
	"maps"
	"slices"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/store"
)

// sweepPage is the number of records that a sweep processes per transaction, while other
// writers wait.
const sweepPage = 512

// Sweep implements [store.Backend].
func (s *Backend) Sweep(ctx context.Context, sweep store.Sweep) (expired, dropped int, err error) {
	for more := true; more; {
		var n, gone int
		err = s.db.Write(ctx, func(c *database.Conn) (err error) {
			n, gone, err = s.expire(c, sweep)
			return err
		})
		if err != nil {
			return expired, dropped, err
		}
		expired, dropped, more = expired+n, dropped+gone, n == sweepPage
		if n > 0 {
			s.news.Tell()
		}
	}
	if sweep.Before.IsZero() {
		return expired, dropped, nil
	}
	over, err := s.over(ctx, sweep)
	if err != nil {
		return expired, dropped, err
	}
	for page := range slices.Chunk(over, sweepPage) {
		var n int
		err := s.db.Write(ctx, func(c *database.Conn) (err error) {
			n, err = s.newWriting(c, sweep.Now).age(page, sweep.Before.UnixMicro())
			return err
		})
		if err != nil {
			return expired, dropped, err
		}
		dropped += n
	}
	if len(over) > 0 {
		from, to := saved.Span("")
		err = s.db.Write(ctx, func(c *database.Conn) error { return tidy(c, from, to, 0) })
	}
	return expired, dropped, err
}

// expire ends one page of expired items.
func (s *Backend) expire(c *database.Conn, sweep store.Sweep) (expired, dropped int, err error) {
	due, err := readRecords(c, "SELECT "+recordColumns+" FROM store_life l CROSS JOIN store_record r WHERE r.seq=l.seq AND l.ended IS NULL AND l.expires<=? ORDER BY l.seq LIMIT ?+0",
		sweep.Now.UnixMicro(), sweepPage)
	if err != nil {
		return 0, 0, err
	}
	w := s.newWriting(c, sweep.Now)
	for _, r := range due {
		line, err := w.line(r.Namespace, r.Key)
		if err != nil {
			return 0, 0, err
		}
		end := &store.Record{Kind: store.Expired, Namespace: r.Namespace, Key: r.Key, Updated: sweep.Now}
		n, err := w.add(line, end, &store.Indexed{}, sweep.Keep)
		if err != nil {
			return 0, 0, err
		}
		dropped += n
	}
	return len(due), dropped, w.fold()
}

// over returns the records that ended before the sweep's bound. They are all selected
// before any is removed.
func (s *Backend) over(ctx context.Context, sweep store.Sweep) (seqs []int64, err error) {
	err = s.db.Read(ctx, func(c *database.Conn) error {
		seqs = nil
		return c.Each("SELECT seq FROM store_life WHERE ended<? ORDER BY seq", []any{sweep.Before.UnixMicro()}, func(scan func(...any) error) error {
			var seq int64
			err := scan(&seq)
			seqs = append(seqs, seq)
			return err
		})
	})
	return seqs, err
}

// age drops the given records that ended before the bound.
func (w *writing) age(seqs []int64, before int64) (dropped int, err error) {
	type record struct {
		seq, space, ended, next int64
		key                     []byte
		kind                    int
	}
	var old []record
	err = w.c.Each(`SELECT r.seq, r.space, r.key, r.kind, l.ended,
			(SELECT min(seq) FROM store_record n WHERE n.space=r.space AND n.key=r.key AND n.seq>r.seq AND n.key<>x'')
		FROM json_each(?) j CROSS JOIN store_record r CROSS JOIN store_life l WHERE r.seq=j.value AND l.seq=r.seq AND l.ended<?`, []any{list(seqs), before},
		func(scan func(...any) error) error {
			var r record
			err := scan(&r.seq, &r.space, &r.key, &r.kind, &r.ended, &r.next)
			old = append(old, r)
			return err
		})
	if err != nil {
		return 0, err
	}
	for _, r := range old {
		if r.kind != saved.ItemPut && r.next == 0 {
			folded, compacted, err := storeState(w.c)
			if err != nil {
				return 0, err
			}
			if err := setStoreState(w.c, folded, max(compacted, r.seq)); err != nil {
				return 0, err
			}
		}
		// If the clock went back, an earlier record may remain. Its successor is now the
		// record after this one.
		if err := w.endBefore(r.space, r.key, r.seq, r.ended); err != nil {
			return 0, err
		}
		if err := w.drop([]int64{r.seq}); err != nil {
			return 0, err
		}
	}
	return len(old), nil
}

// endBefore sets the end of the preceding record, if there is one.
func (w *writing) endBefore(space int64, key []byte, seq, ended int64) error {
	var before, expires, was, sum int64
	ok, err := w.c.Row(`SELECT seq, expires, ended, sum FROM store_life
		WHERE seq=(SELECT max(seq) FROM store_record WHERE space=? AND key=? AND seq<? AND key<>x'')`, []any{space, key, seq}, &before, &expires, &was, &sum)
	if err != nil || !ok {
		return err
	}
	if !database.Intact(sum, lifeSum(before, expires, was)) {
		return database.Changed("lifetime of store record %d", before)
	}
	return setLife(w.c, before, expires, ended)
}

// Reindex implements [store.Backend].
func (s *Backend) Reindex(ctx context.Context, by map[int64]store.Indexed) error {
	seqs := slices.Sorted(maps.Keys(by))
	return s.db.Write(ctx, func(c *database.Conn) error {
		w := s.newWriting(c, fromMicros(0))
		for _, seq := range seqs {
			x := by[seq]
			if err := w.reindex(seq, &x); err != nil {
				return err
			}
		}
		return w.parts()
	})
}

func (w *writing) reindex(seq int64, x *store.Indexed) error {
	var space, created, updated, ttl, old, ended int64
	var kind int
	var key, paths []byte
	var seal int64
	there, err := w.c.Row("SELECT r.space, r.key, r.kind, r.created, r.updated, r.lifetime, r.stamp, r.paths, r.seal, l.ended IS NOT NULL FROM "+recordTables+" WHERE r.seq=?", []any{seq},
		&space, &key, &kind, &created, &updated, &ttl, &old, &paths, &seal, &ended)
	if err != nil || !there {
		return err
	}
	if !database.Intact(seal, sealSum(seq, space, key, kind, created, updated, ttl, old, paths)) {
		return database.Changed("store record %d, key %q", seq, key)
	}
	stamp, err := w.stamp(x.Stamp)
	if err != nil {
		return err
	}
	terms, words := encodeTerms(x.Terms)
	_, err = w.c.Change("UPDATE store_record SET stamp=?, words=?, paths=?, terms=?, seal=? WHERE seq=?", zeroNull(stamp), words, orNull([]byte(x.Paths)), sealTerms(seq, words, terms),
		sealSum(seq, space, key, kind, created, updated, ttl, stamp, []byte(x.Paths)), seq)
	if err != nil {
		return err
	}
	if _, err := w.c.Change("DELETE FROM store_vector WHERE seq=?", seq); err != nil {
		return err
	}
	if err := w.addVectors(seq, stamp, x.Vectors); err != nil {
		return err
	}
	if ended != 0 {
		_, err = w.c.Change("UPDATE store_vector SET id=-id WHERE seq=?", seq)
		return err
	}
	if err := w.newWords(); err != nil {
		return err
	}
	return w.rewords(seq, space, terms)
}

// rewords replaces the words of an item in the index, if they are in the index.
func (w *writing) rewords(seq, space int64, terms []byte) error {
	folded, _, err := storeState(w.c)
	if err != nil || seq > folded {
		return err
	}
	if _, err := w.c.Change("DELETE FROM store_words WHERE rowid=?", seq); err != nil {
		return err
	}
	if len(terms) == 0 {
		return nil
	}
	return w.addWords(seq, space, terms)
}

// newWords notifies processes that cache the words of items of a change. It does so by
// skipping a stamp number: stamps identify the ways in which items are indexed, and gaps
// between their numbers do no harm.
func (w *writing) newWords() error {
	if w.reworded {
		return nil
	}
	w.reworded = true
	_, err := w.c.Change("UPDATE sqlite_sequence SET seq=seq+1 WHERE name='store_stamp'")
	return err
}
