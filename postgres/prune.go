package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

// What removes checkpoints holds the thread and its lines, and works in two
// steps: the rows and their pending writes go, then the chunks that no row
// refers to any more. A record that stays is not written, so it stays as it is,
// with the parent it names gone or not.

// Prune implements [checkpoint.Pruner].
func (db *DB) Prune(ctx context.Context, thread string, keep checkpoint.Retention) (removed int, err error) {
	err = db.write(ctx, func(c *pgx.Conn) error {
		return inTx(ctx, c, func(tx pgx.Tx) error {
			removed = 0
			r := &remover{db, ctx, tx}
			tid, lines, err := r.lock(thread)
			if err != nil {
				return err
			}
			oldest := time.Now().Add(-keep.MaxAge)
			for _, l := range lines {
				n, err := r.prune(l, keep, oldest)
				if err != nil {
					return err
				}
				removed += n
			}
			if removed == 0 {
				return nil
			}
			return r.exec(db.sql.collectRuns, tid)
		})
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// remover works in a transaction.
type remover struct {
	db  *DB
	ctx context.Context
	tx  pgx.Tx
}

func (r *remover) exec(query string, args ...any) error {
	_, err := r.tx.Exec(r.ctx, query, args...)
	return err
}

// lineRow is a line that is held.
type lineRow struct {
	id   int64
	head checkpoint.ID
}

// lock holds a thread and its lines, or says ErrNotFound.
func (r *remover) lock(thread string) (tid int64, lines []lineRow, err error) {
	err = r.tx.QueryRow(r.ctx, r.db.sql.lockThread, name(thread)).Scan(&tid)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil, fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, thread)
	}
	if err != nil {
		return 0, nil, err
	}
	if err := r.exec(r.db.sql.lockLines, tid); err != nil {
		return 0, nil, err
	}
	rows, err := r.tx.Query(r.ctx, r.db.sql.linesOf, tid)
	if err != nil {
		return 0, nil, err
	}
	var l lineRow
	var head pgtype.UUID
	_, err = pgx.ForEachRow(rows, []any{&l.id, &head}, func() error {
		l.head = head.Bytes
		lines = append(lines, l)
		return nil
	})
	return tid, lines, err
}

// ids reads ids of checkpoints.
func (r *remover) ids(query string, args ...any) (ids []checkpoint.ID, err error) {
	rows, err := r.tx.Query(r.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	var id pgtype.UUID
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		ids = append(ids, id.Bytes)
		return nil
	})
	return ids, err
}

// prune removes what the rules do not keep.
func (r *remover) prune(l lineRow, keep checkpoint.Retention, oldest time.Time) (int, error) {
	all, err := r.ids(r.db.sql.idsOf, l.id)
	if err != nil {
		return 0, err
	}
	interrupted := map[checkpoint.ID]bool{}
	if keep.KeepInterrupted {
		ids, err := r.ids(r.db.sql.interrupted, l.id)
		if err != nil {
			return 0, err
		}
		for _, id := range ids {
			interrupted[id] = true
		}
	}
	var gone []pgtype.UUID
	for i, id := range all {
		if id != l.head &&
			len(all)-i > keep.KeepLast &&
			(keep.MaxAge == 0 || id.Time().Before(oldest)) &&
			!interrupted[id] {
			gone = append(gone, uuid(id))
		}
	}
	return len(gone), r.remove(l.id, gone)
}

// remove takes checkpoints of a line away, and what nobody needs then.
func (r *remover) remove(line int64, gone []pgtype.UUID) error {
	if len(gone) == 0 {
		return nil
	}
	if err := r.exec(r.db.sql.deleteCheckpoints, line, gone); err != nil {
		return err
	}
	if err := r.exec(r.db.sql.deletePending, line, gone); err != nil {
		return err
	}
	live, err := r.liveChunks(line)
	if err != nil {
		return err
	}
	// Of a chain that is still in use the rows beyond the last chunk in use go.
	var chains, seqs []int64 // the first dead row of each chain that has any
	rows, err := r.tx.Query(r.ctx, r.db.sql.chunkPlaces, line)
	if err != nil {
		return err
	}
	var chain, seq int64
	_, err = pgx.ForEachRow(rows, []any{&chain, &seq}, func() error {
		hi, ok := live[chain]
		if ok && seq <= hi || len(chains) > 0 && chains[len(chains)-1] == chain {
			return nil
		}
		chains, seqs = append(chains, chain), append(seqs, seq)
		return nil
	})
	if err != nil {
		return err
	}
	if len(chains) > 0 {
		if err := r.exec(r.db.sql.deleteChunks, line, chains, seqs); err != nil {
			return err
		}
	}
	return r.exec(r.db.sql.recount, line)
}

// liveChunks are the chains of a line that its checkpoints refer to, each with
// the last chunk that is in use.
func (r *remover) liveChunks(line int64) (map[int64]int64, error) {
	rows, err := r.tx.Query(r.ctx, r.db.sql.bases, line)
	if err != nil {
		return nil, err
	}
	bases := map[int64]*base{}
	var chain int64
	var data []byte
	_, err = pgx.ForEachRow(rows, []any{&chain, &data}, func() error {
		k, ok := saved.ParseChunk(data)
		if !ok {
			return fmt.Errorf("%w: chain %d is unreadable", ErrDamaged, chain)
		}
		data = nil // the base has it
		bases[chain], err = parseBase(chain, k)
		return err
	})
	if err != nil {
		return nil, err
	}
	if rows, err = r.tx.Query(r.ctx, r.db.sql.records, line); err != nil {
		return nil, err
	}
	live := map[int64]int64{}
	var id pgtype.UUID
	var on *int64
	var record, echo []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &on, &record, &echo}, func() error {
		var b *base
		if on != nil {
			if b = bases[*on]; b == nil {
				return fmt.Errorf("%w: the base of checkpoint %s is missing", ErrDamaged, checkpoint.ID(id.Bytes))
			}
		}
		m, err := parseManifest(record, id.Bytes, b)
		if err != nil {
			return err
		}
		m.need(live)
		return needEcho(echo, live)
	})
	return live, err
}

// DeleteRuns implements [checkpoint.RunDeleter].
func (db *DB) DeleteRuns(ctx context.Context, thread string, runs []string) (removed int, err error) {
	var names [][]byte
	for _, run := range runs {
		if run != "" {
			names = append(names, name(run))
		}
	}
	if len(names) == 0 {
		return 0, nil
	}
	err = db.write(ctx, func(c *pgx.Conn) error {
		return inTx(ctx, c, func(tx pgx.Tx) error {
			removed = 0
			r := &remover{db, ctx, tx}
			tid, lines, err := r.lock(thread)
			if errors.Is(err, checkpoint.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			numbers, err := r.numbers(db.sql.runsNamed, tid, names)
			if err != nil {
				return err
			}
			for _, l := range lines {
				if err := r.removeWritesOf(l.id, runs); err != nil {
					return err
				}
				n, err := r.removeRuns(l, numbers)
				if err != nil {
					return err
				}
				removed += n
			}
			if err := r.exec(db.sql.collectRuns, tid); err != nil {
				return err
			}
			return r.exec(db.sql.deleteThreadRow, tid)
		})
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

func (r *remover) numbers(query string, args ...any) (all []int64, err error) {
	rows, err := r.tx.Query(r.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// removeWritesOf removes what the given runs recorded in a line.
func (r *remover) removeWritesOf(line int64, runs []string) error {
	rows, err := r.tx.Query(r.ctx, r.db.sql.writesIn, line)
	if err != nil {
		return err
	}
	var gone []int64
	var ord int64
	var kind, data []byte
	_, err = pgx.ForEachRow(rows, []any{&ord, &kind, &data}, func() error {
		if run := saved.ParseWrite("", kind, data).RunID; run != "" && slices.Contains(runs, run) {
			gone = append(gone, ord)
		}
		return nil
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	return r.exec(r.db.sql.dropWrites, line, gone)
}

func (r *remover) removeRuns(l lineRow, runs []int64) (int, error) {
	ids, err := r.ids(r.db.sql.idsOfRuns, l.id, runs)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	gone := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		gone[i] = uuid(id)
	}
	if err := r.remove(l.id, gone); err != nil || !slices.Contains(ids, l.head) {
		return len(ids), err
	}
	all, err := r.ids(r.db.sql.idsOf, l.id)
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return len(ids), r.exec(r.db.sql.deleteLine, l.id)
	}
	// The new head may not extend its chains: chunks after its own may still be
	// there, if another branch has them. The new rev takes that right from it, and
	// from every process that remembers it as a head.
	return len(ids), r.exec(r.db.sql.headBack, l.id)
}
