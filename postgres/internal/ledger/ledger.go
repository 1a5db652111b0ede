// Package ledger stores the rows and events of a server in a Postgres schema. It
// implements [ledger.Backend], whose suite is package ledgertest.
package ledger

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"

	guuid "github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/database"
)

// A backend stores the rows and events of a server.
type backend struct {
	db    *database.DB
	sql   statements
	locks locks
	// breaks records when attending connections broke.
	breaks breaks
	share  func(ledger.Memory)
}

var (
	_ ledger.Backend   = (*backend)(nil)
	_ ledger.Preloader = (*backend)(nil)
	_ ledger.Counter   = (*backend)(nil)
)

// statements contains the statements whose text does not depend on a query.
type statements struct {
	get, getAll, body, put, remove, rarest                    string
	addEvents, events, eventsOfRun, dropEvents, dropRun, trim string
}

// rowColumns lists the columns of a row r that scanRow reads. rowBody follows them if the
// body is read too.
const (
	rowColumns = "r.kind, r.id, r.parent, r.worker, r.open, r.due, r.created, r.terms, r.doc, r.xmin"
	rowBody    = ", r.body"
)

// byKey returns a FROM clause for the rows r with the given IDs, each read through the
// index. Without the OFFSET, Postgres scans the whole table while it is small and
// keeps that plan after the table has grown.
func byKey(ids, condition string) string {
	return " FROM " + ids + ", LATERAL (SELECT s.*, s.xmin AS xmin FROM {schema}.server_row s WHERE " + condition + " OFFSET 0) r"
}

// byIDs returns a statement that reads the rows of n IDs. It has a parameter for each ID
// instead of an array parameter, because Postgres then plans it only once: it assumes
// that arrays are long.
func (b *backend) byIDs(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("SELECT %s FROM {schema}.server_row r WHERE r.id = $%d", rowColumns, i+1)
	}
	return b.db.In(strings.Join(all, " UNION ALL "))
}

// New returns a backend for the schema of db. It is a [ledger.Witness] unless db is
// pooler-safe. The backend has no caches of its own: it passes the memory that a server
// shares with it to share.
func New(db *database.DB, share func(ledger.Memory)) ledger.Backend {
	b := newBackend(db, share)
	if db.PoolerSafe {
		return b
	}
	return &witness{backend: b}
}

func newBackend(db *database.DB, share func(ledger.Memory)) *backend {
	b := &backend{db: db, share: share}
	const events = "SELECT run, first, last, data FROM {schema}.server_event WHERE thread = $1 AND (last, run) > ($2, $3)"
	b.sql = statements{
		get:    b.db.In("SELECT " + rowColumns + rowBody + " FROM {schema}.server_row r WHERE r.id = $1 AND r.kind = $2"),
		getAll: b.db.In("SELECT " + rowColumns + byKey("unnest($1::smallint[], $2::uuid[]) AS u(kind, id)", "s.id = u.id AND s.kind = u.kind")),
		body:   b.db.In("SELECT r.body FROM {schema}.server_row r WHERE r.id = $1 AND r.kind = $2"),
		put:    b.db.In("SELECT {schema}.server_put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"),
		remove: b.db.In("SELECT {schema}.server_delete($1, $2)"),
		// The inner ORDER BY matches the index; without it, Postgres may scan the table.
		rarest: b.db.In(`SELECT u.n FROM unnest($2::bigint[]) WITH ORDINALITY AS u(term, n), LATERAL (
			SELECT count(*) AS rows FROM (SELECT FROM {schema}.server_term t WHERE t.kind = $1 AND t.term = u.term ORDER BY t.created, t.id LIMIT 10000) l) c
			ORDER BY c.rows, u.n LIMIT 1`),

		addEvents: b.db.In(`INSERT INTO {schema}.server_event (thread, run, first, last, created, data)
			VALUES ($1, $2, $3, $4, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $5) ON CONFLICT DO NOTHING`),
		events:      b.db.In(events + fmt.Sprintf(" ORDER BY last, run LIMIT %d", eventsPage)),
		eventsOfRun: b.db.In(events + fmt.Sprintf(" AND run = $4 ORDER BY last, run LIMIT %d", eventsPage)),
		dropEvents:  b.db.In("DELETE FROM {schema}.server_event WHERE thread = $1"),
		dropRun:     b.db.In("DELETE FROM {schema}.server_event WHERE thread = $1 AND run = $2"),
		// Two processes that trim concurrently share the work.
		trim: b.db.In(`DELETE FROM {schema}.server_event WHERE ctid = ANY (ARRAY (
			SELECT e.ctid FROM {schema}.server_event e WHERE e.created < $1 ORDER BY e.created LIMIT $2 FOR UPDATE SKIP LOCKED))`),
	}
	return b
}

// ShareMemory implements [ledger.MemorySharer].
func (b *backend) ShareMemory(m ledger.Memory) { b.share(m) }

// Get implements [ledger.Backend].
func (b *backend) Get(ctx context.Context, kind ledger.Kind, id guuid.UUID) (row *ledger.Row, err error) {
	err = b.db.Read(ctx, func(c *pgx.Conn) error {
		row = nil
		rows, err := readRows(ctx, c, b.sql.get, []any{[16]byte(id), int16(kind)}, true)
		if len(rows) > 0 {
			row = &rows[0].Row
		}
		return err
	})
	return row, err
}

// lockKey returns the key of an ID's advisory lock. Migrations use the same key space,
// and so may other schemas of the database, so the key is a hash. Two IDs with the same
// key merely wait for each other.
func (b *backend) lockKey(id guuid.UUID) int64 {
	h := fnv.New64a()
	h.Write([]byte("treadle ledger of " + b.db.Schema + "\x00"))
	h.Write(id[:])
	return int64(h.Sum64())
}

// locks lets only one goroutine of this process at a time wait for each database
// lock, so goroutines that wait for the same lock do not exhaust the connection pool.
type locks struct {
	mu   sync.Mutex
	used map[int64]*lockUse
}

type lockUse struct {
	held  chan struct{} // has capacity for one holder
	users int           // number of goroutines that hold it or wait for it
}

// lock waits for a lock until ctx ends.
func (l *locks) lock(ctx context.Context, key int64) (unlock func(), err error) {
	l.mu.Lock()
	if l.used == nil {
		l.used = map[int64]*lockUse{}
	}
	of := l.used[key]
	if of == nil {
		of = &lockUse{held: make(chan struct{}, 1)}
		l.used[key] = of
	}
	of.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		of.users--
		if of.users == 0 {
			delete(l.used, key)
		}
	}
	select {
	case of.held <- struct{}{}:
		return func() { <-of.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("postgres: wait for ledger lock: %w", ctx.Err())
	}
}
