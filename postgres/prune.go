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
	"github.com/treadle-go/treadle/postgres/internal/database"
)

// Removing checkpoints locks the thread and its lines, then proceeds in two steps: it
// deletes the rows and their pending writes, then the chunks that no remaining row refers
// to. The remaining records are not rewritten, even if the parent they name is gone.

// Prune implements [checkpoint.Pruner].
func (db *DB) Prune(ctx context.Context, thread string, keep checkpoint.Retention) (removed int, err error) {
	err = db.conn.Write(ctx, func(c *pgx.Conn) error {
		return database.InTx(ctx, c, func(tx pgx.Tx) error {
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

// A remover removes checkpoints in a transaction.
type remover struct {
	db  *DB
	ctx context.Context
	tx  pgx.Tx
}

func (r *remover) exec(query string, args ...any) error {
	_, err := r.tx.Exec(r.ctx, query, args...)
	return err
}

// A lineRow is a locked line.
type lineRow struct {
	id   int64
	head checkpoint.ID
}

// lock locks a thread and its lines. It returns ErrNotFound if the thread does not exist.
func (r *remover) lock(thread string) (tid int64, lines []lineRow, err error) {
	err = r.tx.QueryRow(r.ctx, r.db.sql.lockThread, database.Bytea(thread)).Scan(&tid)
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

// ids returns the checkpoint IDs that a query selects.
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

// prune removes the checkpoints of a line that the retention rules do not keep.
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

// remove deletes checkpoints of a line and all data that is no longer needed.
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
	// If a chain is still in use, only the rows after its last used chunk are deleted.
	var chains, seqs []int64 // the first dead row of each chain that has one
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

// liveChunks returns the chains that the line's checkpoints refer to, each with its last
// used chunk.
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
			return fmt.Errorf("%w: unreadable chain %d", ErrDamaged, chain)
		}
		data = nil // retained by the base
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
				return fmt.Errorf("%w: missing base of checkpoint %s", ErrDamaged, checkpoint.ID(id.Bytes))
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
			names = append(names, database.Bytea(run))
		}
	}
	if len(names) == 0 {
		return 0, nil
	}
	err = db.conn.Write(ctx, func(c *pgx.Conn) error {
		return database.InTx(ctx, c, func(tx pgx.Tx) error {
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

// removeWritesOf removes the pending writes that the given runs recorded in a line.
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
	// The new head must not extend its chains, because chunks after its own may still
	// exist on another fork. Incrementing rev prevents that, even for processes that have
	// cached it as a head.
	return len(ids), r.exec(r.db.sql.headBack, l.id)
}
