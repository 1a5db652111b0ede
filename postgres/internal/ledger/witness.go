package ledger

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	guuid "github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/database"
)

const (
	// attendCheck is the interval at which an attending connection is pinged. If the
	// server closes the connection, that is noticed immediately.
	attendCheck = 5 * time.Second
	// attendPause is the time after a broken connection during which no worker is
	// reported as gone, because the others may have lost their connections at the same
	// time.
	attendPause = 5 * time.Second
)

// A witness is a ledger whose workers attend: each holds a session lock, which Postgres
// releases when the connection ends. The lock is shared, so a worker can take it again
// even if the server has not yet closed its old connection.
type witness struct{ *backend }

var (
	_ ledger.Witness   = (*witness)(nil)
	_ ledger.Preloader = (*witness)(nil)
)

// breaks records when an attending connection was last found broken.
type breaks struct {
	mu   sync.Mutex
	last time.Time
}

func (b *breaks) note() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = time.Now()
}

func (b *breaks) recent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.last.IsZero() && time.Since(b.last) < attendPause
}

// workerKeys returns the two keys of a worker's lock. Locks with two keys do not conflict
// with locks with one.
func (w *witness) workerKeys(worker guuid.UUID) (a, b int32) {
	h := fnv.New64a()
	h.Write([]byte("treadle worker of " + w.db.Schema + "\x00"))
	h.Write(worker[:])
	sum := h.Sum64()
	return int32(sum >> 32), int32(sum)
}

// Attend implements [ledger.Witness]. It opens a connection outside the pool.
func (w *witness) Attend(ctx context.Context, worker guuid.UUID) error {
	c, err := w.attend(ctx, worker)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx) // the DB may be closed before ctx ends
	started := w.db.Start(func() {
		defer cancel()
		w.keepAttending(ctx, c, worker)
	}, func() {
		select {
		case <-w.db.Done():
			cancel()
		case <-ctx.Done():
		}
	})
	if !started {
		cancel()
		database.CloseNow(c)
		return database.ErrClosed
	}
	return nil
}

// attend opens a connection that holds a worker's lock.
func (w *witness) attend(ctx context.Context, worker guuid.UUID) (*pgx.Conn, error) {
	if w.db.Closed() {
		return nil, database.ErrClosed
	}
	c, err := w.db.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("postgres: connect worker %s: %w", worker, err)
	}
	a, b := w.workerKeys(worker)
	if _, err := c.Exec(ctx, "SELECT pg_advisory_lock_shared($1, $2)", a, b); err != nil {
		database.CloseNow(c)
		return nil, fmt.Errorf("postgres: lock worker %s: %w", worker, err)
	}
	return c, nil
}

// keepAttending waits until the connection breaks and replaces it, until ctx ends.
func (w *witness) keepAttending(ctx context.Context, c *pgx.Conn, worker guuid.UUID) {
	for {
		err := idle(ctx, c)
		database.CloseNow(c)
		for wait := database.FirstWait; ; wait = min(2*wait, database.LastWait) {
			if ctx.Err() != nil {
				return
			}
			w.breaks.note()
			w.db.Log.WarnContext(ctx, "postgres: worker connection broken, reconnecting", "schema", w.db.Schema, "worker", worker, "error", err)
			if c, err = w.attend(ctx, worker); err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
		w.breaks.note()
	}
}

// idle returns when the connection breaks or ctx ends.
func idle(ctx context.Context, c *pgx.Conn) error {
	for {
		quiet, cancel := context.WithTimeout(ctx, attendCheck)
		_, err := c.WaitForNotification(quiet) // none is expected
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			continue
		case c.IsClosed():
			return err
		}
		asked, cancel := context.WithTimeout(ctx, attendCheck)
		err = c.Ping(asked)
		cancel()
		if err != nil {
			return err
		}
	}
}

// Gone implements [ledger.Witness].
func (w *witness) Gone(ctx context.Context, workers []guuid.UUID) ([]guuid.UUID, error) {
	var gone []guuid.UUID
	err := w.db.Read(ctx, func(c *pgx.Conn) error {
		gone = nil
		// The columns of pg_locks are unsigned.
		rows, err := c.Query(ctx, `SELECT classid::bigint, objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted
			AND database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())`)
		if err != nil {
			return err
		}
		held := map[[2]int32]bool{}
		var a, b int64
		if _, err := pgx.ForEachRow(rows, []any{&a, &b}, func() error {
			held[[2]int32{int32(uint32(a)), int32(uint32(b))}] = true
			return nil
		}); err != nil {
			return err
		}
		for _, worker := range workers {
			if a, b := w.workerKeys(worker); !held[[2]int32{a, b}] {
				gone = append(gone, worker)
			}
		}
		return nil
	})
	if err != nil || w.breaks.recent() {
		return nil, err
	}
	return gone, nil
}
