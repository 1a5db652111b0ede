package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/postgres/internal/database"
)

// DeleteThread implements [checkpoint.Saver].
func (db *DB) DeleteThread(ctx context.Context, thread string) error {
	_, err := db.conn.Repeat(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, db.sql.deleteThread, database.Bytea(thread))
		return err
	})
	return err
}

// CopyThread implements [checkpoint.Copier]. The copy's epoch starts at 0.
func (db *DB) CopyThread(ctx context.Context, from, to string) error {
	var status int
	err := db.conn.Write(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, db.sql.copyThread, database.Bytea(from), database.Bytea(to)).Scan(&status)
	})
	switch {
	case err != nil:
		return err
	case status == statusNotFound:
		return fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, from)
	case status != statusDone:
		return fmt.Errorf("%w: thread %q exists", checkpoint.ErrConflict, to)
	}
	return nil
}

// Fence implements [checkpoint.Fencer].
func (db *DB) Fence(ctx context.Context, thread string, epoch uint64) error {
	if epoch > math.MaxInt64 {
		return fmt.Errorf("postgres: fence %d exceeds the bigint range", epoch)
	}
	var status int
	var present int64
	err := db.conn.Write(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, db.sql.fence, database.Bytea(thread), int64(epoch)).Scan(&status, &present)
	})
	if err != nil {
		return err
	}
	if status == statusFenced {
		return fmt.Errorf("%w: thread %q is at epoch %d, not below %d", checkpoint.ErrFenced, thread, present, epoch)
	}
	return nil
}

// Size implements [checkpoint.Sizer]. It counts the bytes of all records, chunks, pending
// writes, and metadata, but not of indexes.
func (db *DB) Size(ctx context.Context, thread string) (n int64, err error) {
	err = db.conn.Read(ctx, func(c *pgx.Conn) error { return c.QueryRow(ctx, db.sql.size, database.Bytea(thread)).Scan(&n) })
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, thread)
	}
	return n, err
}

// threadPage is the page size of Threads.
const threadPage = 256

// Threads implements [checkpoint.ThreadLister]. It does not hold a connection between
// pages.
func (db *DB) Threads(ctx context.Context) iter.Seq2[checkpoint.Thread, error] {
	return func(yield func(checkpoint.Thread, error) bool) {
		query, args := db.sql.threads, []any{threadPage}
		for {
			page, err := db.threads(ctx, query, args)
			if err != nil {
				yield(checkpoint.Thread{}, err)
				return
			}
			for _, t := range page {
				if !yield(t, nil) {
					return
				}
			}
			if len(page) < threadPage {
				return
			}
			query, args = db.sql.threadsAfter, []any{threadPage, database.Bytea(page[len(page)-1].Name)}
		}
	}
}

func (db *DB) threads(ctx context.Context, query string, args []any) (page []checkpoint.Thread, err error) {
	err = db.conn.Read(ctx, func(c *pgx.Conn) error {
		page = page[:0]
		rows, err := c.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		var t checkpoint.Thread
		var raw []byte
		var head *string
		_, err = pgx.ForEachRow(rows, []any{&raw, &head, &t.Checkpoints, &t.Bytes}, func() (err error) {
			t.Name, t.Head = string(raw), checkpoint.ID{}
			if head != nil {
				t.Head, err = checkpoint.ParseID(*head)
			}
			page = append(page, t)
			return err
		})
		return err
	})
	return page, err
}
