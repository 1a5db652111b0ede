package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"

	guuid "github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/ledger"
)

// Ledger returns the backend of a server's ledger in the same schema. It is closed with
// the DB. Any number of processes can use it at the same time. Unless
// [Options].PoolerSafe is set, it is a [ledger.Witness] and opens one more connection;
// session locks do not work behind a transaction pooler.
//
// A transaction takes an advisory lock, which Postgres releases at its end, and sends all
// its writes together with the COMMIT. If the lock is free, the methods of a
// [ledger.Ledger] take this many round trips:
//
//	CreateRun  2; 3 with a Key, or if it interrupts other runs
//	Finish     2; 3 if the worker claims the thread's next run, 4 if more runs are queued after it
//	Beat       3
//	Claim      3 to find runs, plus 1 if there are fewer than wanted;
//	           3 for each run, 4 if more runs are queued after it
func (db *DB) Ledger() ledger.Backend {
	if db.poolerSafe {
		return &db.ledger
	}
	return &witness{ledgerBackend: &db.ledger}
}

// A ledgerBackend stores the rows and events of a server.
type ledgerBackend struct {
	db    *DB
	sql   ledgerStatements
	locks ledgerLocks
	// breaks records when attending connections broke.
	breaks breaks
}

var (
	_ ledger.Backend   = (*ledgerBackend)(nil)
	_ ledger.Preloader = (*ledgerBackend)(nil)
	_ ledger.Counter   = (*ledgerBackend)(nil)
)

// ledgerStatements contains the statements whose text does not depend on a query.
type ledgerStatements struct {
	get, getAll, body, put, remove, rarest                    string
	addEvents, events, eventsOfRun, dropEvents, dropRun, trim string
}

// ledgerColumns lists the columns of a row r that scanLedgerRow reads. ledgerBody follows
// them if the body is read too.
const (
	ledgerColumns = "r.kind, r.id, r.parent, r.worker, r.open, r.due, r.created, r.terms, r.doc, r.xmin"
	ledgerBody    = ", r.body"
)

// ledgerByKey returns a FROM clause for the rows r with the given IDs, each read through
// the index. Without the OFFSET, Postgres scans the whole table while it is small and
// keeps that plan after the table has grown.
func ledgerByKey(ids, condition string) string {
	return " FROM " + ids + ", LATERAL (SELECT s.*, s.xmin AS xmin FROM {schema}.server_row s WHERE " + condition + " OFFSET 0) r"
}

// byIDs returns a statement that reads the rows of n IDs. It has a parameter for each ID
// instead of an array parameter, because Postgres then plans it only once: it assumes
// that arrays are long.
func (b *ledgerBackend) byIDs(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("SELECT %s FROM {schema}.server_row r WHERE r.id = $%d", ledgerColumns, i+1)
	}
	return b.in(strings.Join(all, " UNION ALL "))
}

// in inserts the schema into a statement.
func (b *ledgerBackend) in(query string) string {
	return strings.ReplaceAll(query, "{schema}", b.db.quoted)
}

// init initializes the backend of a DB whose schema is set.
func (b *ledgerBackend) init(db *DB) {
	b.db = db
	const events = "SELECT run, first, last, data FROM {schema}.server_event WHERE thread = $1 AND (last, run) > ($2, $3)"
	b.sql = ledgerStatements{
		get:    b.in("SELECT " + ledgerColumns + ledgerBody + " FROM {schema}.server_row r WHERE r.id = $1 AND r.kind = $2"),
		getAll: b.in("SELECT " + ledgerColumns + ledgerByKey("unnest($1::smallint[], $2::uuid[]) AS u(kind, id)", "s.id = u.id AND s.kind = u.kind")),
		body:   b.in("SELECT r.body FROM {schema}.server_row r WHERE r.id = $1 AND r.kind = $2"),
		put:    b.in("SELECT {schema}.server_put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"),
		remove: b.in("SELECT {schema}.server_delete($1, $2)"),
		// The inner ORDER BY matches the index; without it, Postgres may scan the table.
		rarest: b.in(`SELECT u.n FROM unnest($2::bigint[]) WITH ORDINALITY AS u(term, n), LATERAL (
			SELECT count(*) AS rows FROM (SELECT FROM {schema}.server_term t WHERE t.kind = $1 AND t.term = u.term ORDER BY t.created, t.id LIMIT 10000) l) c
			ORDER BY c.rows, u.n LIMIT 1`),

		addEvents: b.in(`INSERT INTO {schema}.server_event (thread, run, first, last, created, data)
			VALUES ($1, $2, $3, $4, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $5) ON CONFLICT DO NOTHING`),
		events:      b.in(events + fmt.Sprintf(" ORDER BY last, run LIMIT %d", eventsPage)),
		eventsOfRun: b.in(events + fmt.Sprintf(" AND run = $4 ORDER BY last, run LIMIT %d", eventsPage)),
		dropEvents:  b.in("DELETE FROM {schema}.server_event WHERE thread = $1"),
		dropRun:     b.in("DELETE FROM {schema}.server_event WHERE thread = $1 AND run = $2"),
		// Two processes that trim concurrently share the work.
		trim: b.in(`DELETE FROM {schema}.server_event WHERE ctid = ANY (ARRAY (
			SELECT e.ctid FROM {schema}.server_event e WHERE e.created < $1 ORDER BY e.created LIMIT $2 FOR UPDATE SKIP LOCKED))`),
	}
}

// Get implements [ledger.Backend].
func (b *ledgerBackend) Get(ctx context.Context, kind ledger.Kind, id guuid.UUID) (row *ledger.Row, err error) {
	err = b.db.read(ctx, func(c *pgx.Conn) error {
		row = nil
		rows, err := ledgerRows(ctx, c, b.sql.get, []any{[16]byte(id), int16(kind)}, true)
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
func (b *ledgerBackend) lockKey(id guuid.UUID) int64 {
	h := fnv.New64a()
	h.Write([]byte("treadle ledger of " + b.db.schema + "\x00"))
	h.Write(id[:])
	return int64(h.Sum64())
}

// ledgerLocks lets only one goroutine of this process at a time wait for each database
// lock, so goroutines that wait for the same lock do not exhaust the connection pool.
type ledgerLocks struct {
	mu   sync.Mutex
	used map[int64]*ledgerLock
}

type ledgerLock struct {
	held  chan struct{} // has capacity for one holder
	users int           // number of goroutines that hold it or wait for it
}

// lock waits for a lock until ctx ends.
func (l *ledgerLocks) lock(ctx context.Context, key int64) (unlock func(), err error) {
	l.mu.Lock()
	if l.used == nil {
		l.used = map[int64]*ledgerLock{}
	}
	of := l.used[key]
	if of == nil {
		of = &ledgerLock{held: make(chan struct{}, 1)}
		l.used[key] = of
	}
	of.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if of.users--; of.users == 0 {
			delete(l.used, key)
		}
	}
	select {
	case of.held <- struct{}{}:
		return func() { <-of.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("postgres: wait for a lock of the ledger: %w", ctx.Err())
	}
}
