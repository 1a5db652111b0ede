package postgres

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	guuid "github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
	"github.com/treadle-go/treadle/store"
)

// poolOf returns the configuration of a pool with n connections.
func poolOf(t testing.TB, url string, n int32) *pgxpool.Config {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = n
	return config
}

func TestNewRejectsUnusablePools(t *testing.T) {
	mode := func(m pgx.QueryExecMode) func(*pgx.ConnConfig) {
		return func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = m }
	}
	const setMode = "set DefaultQueryExecMode in the pool's ConnConfig to pgx.QueryExecMode"
	for _, c := range []struct {
		set  func(*pgx.ConnConfig)
		opts Options
		want string
	}{
		{mode(pgx.QueryExecModeSimpleProtocol), Options{}, `unsupported query exec mode "simple protocol": ` + setMode + "CacheStatement or"},
		{mode(pgx.QueryExecModeExec), Options{}, `unsupported query exec mode "exec": ` + setMode + "CacheStatement or"},
		{mode(pgx.QueryExecModeCacheStatement), Options{PoolerSafe: true}, `query exec mode "cache statement" with Options.PoolerSafe: ` + setMode + "CacheDescribe"},
		{mode(pgx.QueryExecModeDescribeExec), Options{PoolerSafe: true}, `query exec mode "describe exec" with Options.PoolerSafe: ` + setMode + "CacheDescribe"},
		{func(c *pgx.ConnConfig) { c.StatementCacheCapacity = 0 }, Options{}, "statement cache disabled: set StatementCacheCapacity"},
		{func(c *pgx.ConnConfig) { c.DescriptionCacheCapacity = 0 }, Options{}, "description cache disabled: set DescriptionCacheCapacity"},
		{func(*pgx.ConnConfig) {}, Options{MaxConns: 3}, "Options.MaxConns applies only to Open: set MaxConns in the pgxpool.Config"},
		{func(*pgx.ConnConfig) {}, Options{Schema: "pg_x"}, `invalid schema name "pg_x"`},
	} {
		config := poolOf(t, "postgres://localhost:1/nowhere", 1)
		c.set(config.ConnConfig)
		if _, err := New(t.Context(), newPool(t, config), &c.opts); err == nil || !strings.HasPrefix(err.Error(), "postgres: new: "+c.want) {
			t.Errorf("error %v, want postgres: new: %s", err, c.want)
		}
	}
	if _, err := New(t.Context(), nil, nil); err == nil || err.Error() != "postgres: new: nil pool" {
		t.Errorf("nil pool: %v", err)
	}
	if _, err := Open(t.Context(), "postgres://localhost:1/nowhere?description_cache_capacity=0", nil); err == nil || !strings.Contains(err.Error(), "description_cache_capacity in the URL") {
		t.Errorf("URL without a description cache: %v", err)
	}
}

func TestNewChecksSchema(t *testing.T) {
	pool := newPool(t, poolOf(t, pgtest.URL(t), 2))
	if _, err := New(t.Context(), pool, nil); !errors.Is(err, ErrSchema) {
		t.Errorf("missing schema: %v, want %v", err, ErrSchema)
	}
	db := openOn(t, pool, &Options{Migrate: true})
	if openOn(t, pool, nil).conn.Log != slog.Default() || db.conn.Log != slog.Default() {
		t.Error("without a Logger, warnings are not sent to slog.Default()")
	}
}

// Close ends calls that wait for a connection, waits for calls that hold one, and leaves
// the pool open.
func TestCloseKeepsSharedPool(t *testing.T) {
	pool := newPool(t, poolOf(t, pgtest.URL(t), 1))
	db := openOn(t, pool, &Options{Migrate: true})
	p := next(checkpoint.Key{Thread: "thread"}, 0, item(0))
	if err := db.Put(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	held, ended := make(chan struct{}), make(chan struct{})
	var done atomic.Bool
	call, waiter := make(chan error), make(chan error)
	go func() {
		call <- db.conn.Read(t.Context(), func(*pgx.Conn) error {
			close(held)
			<-ended
			done.Store(true)
			return nil
		})
	}()
	<-held
	go func() { // finds the pool's only connection in use
		_, err := db.Get(t.Context(), p.Key)
		waiter <- err
	}()
	closed := make(chan error)
	go func() { closed <- db.Close() }()
	if err := <-waiter; !errors.Is(err, ErrClosed) {
		t.Errorf("call that waited for a connection: %v, want %v", err, ErrClosed)
	}
	close(ended)
	if err := <-call; err != nil {
		t.Errorf("call that held a connection: %v", err)
	}
	if err := <-closed; err != nil || !done.Load() {
		t.Errorf("closed with %v, before a call that held a connection had ended: %v", err, !done.Load())
	}
	if _, err := db.Get(t.Context(), p.Key); !errors.Is(err, ErrClosed) {
		t.Errorf("call after Close: %v, want %v", err, ErrClosed)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool after Close: %v", err)
	}
	wantLine(t, openOn(t, pool, nil), "thread", []checkpoint.ID{p.ID})
}

// Settings of a program's connections do not matter to the DB.
func TestNewToleratesSessionSettings(t *testing.T) {
	for name, settings := range map[string]string{
		"strict":      "SET search_path = ''; SET default_transaction_isolation = 'serializable'; SET default_transaction_deferrable = on",
		"unusual":     "SET bytea_output = 'escape'; SET DateStyle = 'German'; SET TimeZone = 'Asia/Kathmandu'; SET extra_float_digits = -15; SET IntervalStyle = 'sql_standard'",
		"planner":     "SET plan_cache_mode = 'force_generic_plan'; SET enable_indexscan = off; SET jit_above_cost = 0",
		"unprepared":  "",
		"own timeout": "SET statement_timeout = '1min'; SET lock_timeout = '30s'; SET idle_in_transaction_session_timeout = '20s'",
	} {
		t.Run(name, func(t *testing.T) {
			config := poolOf(t, pgtest.URL(t), 3)
			config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
				_, err := c.Exec(ctx, settings)
				return err
			}
			if settings == "" {
				config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
			}
			db := openOn(t, newPool(t, config), &Options{Migrate: true})
			var ids []checkpoint.ID
			key := checkpoint.Key{Thread: "thread"}
			for i := range 40 {
				p := next(key, i, item(i))
				if err := db.Put(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				key, ids = p.Key, append(ids, p.ID)
			}
			wantLine(t, db, "thread", ids)
			if _, err := db.Prune(t.Context(), "thread", checkpoint.Retention{KeepLast: 3}); err != nil {
				t.Error(err)
			}
			databasetest.ExerciseStore(t, storeOf(t, db, &store.Options{Embedder: store.NewHashEmbedder(8)}))
			databasetest.ExerciseLedger(t, db.Ledger())
			checkTables(t, db)
			databasetest.CheckLedger(t, db.conn)
		})
	}
}

// The connections of the bus and of workers, which are not in the pool, are opened as the
// connections of the pool are.
func TestPoolHooksApplyOutsidePool(t *testing.T) {
	config := poolOf(t, pgtest.URL(t), 2)
	var before, after atomic.Int32
	name := config.ConnConfig.Database
	config.ConnConfig.Database = "unknown" // as a password that expires
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		before.Add(1)
		c.Database = name
		return nil
	}
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		after.Add(1)
		_, err := c.Exec(ctx, "SET application_name = 'hooked'")
		return err
	}
	config.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {
		t.Error("the pool's handler received a notification of the bus")
	}
	db := openOn(t, newPool(t, config), &Options{Migrate: true})
	b := openBus(t, db)
	got := make(chan string, 1)
	stop, err := b.Listen("topic", func(payload []byte) { got <- string(payload) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := b.Signal(t.Context(), "topic", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if payload := <-got; payload != "hello" {
		t.Errorf("payload %q", payload)
	}
	w, ok := db.Ledger().(ledger.Witness)
	if !ok {
		t.Fatal("the ledger is not a witness")
	}
	if err := w.Attend(t.Context(), guuid.New()); err != nil {
		t.Fatal(err)
	}
	var other int
	if err := db.conn.Pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name <> 'hooked'").Scan(&other); err != nil || other != 0 {
		t.Errorf("%d connections without the hook, %v", other, err)
	}
	if n := before.Load(); n < 3 || n != after.Load() {
		t.Errorf("%d calls of BeforeConnect and %d of AfterConnect, want at least 3 each", n, after.Load())
	}
}

// By default, pgx closes a connection when the context of a statement ends. With the
// handler that New recommends, the outcome is known.
func TestCanceledPutOnSharedPool(t *testing.T) {
	for name, recommended := range map[string]bool{"default": false, "recommended": true} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.URL(t)
			config := poolOf(t, url, 4)
			if recommended {
				config.ConnConfig.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
					return &pgconn.CancelRequestContextWatcherHandler{Conn: c, CancelRequestDelay: 50 * time.Millisecond, DeadlineDelay: 5 * time.Second}
				}
			}
			db := openOn(t, newPool(t, config), &Options{Migrate: true})
			first := next(checkpoint.Key{Thread: "thread"}, 0, item(0))
			if err := db.Put(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			tx, err := db.conn.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "SELECT FROM "+db.conn.Quoted+".line FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- db.Put(ctx, next(first.Key, 1, item(1))) }()
			databasetest.WaitForLock(t, db.conn, ".put(")
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, ErrOutcomeUnknown) == recommended {
				t.Errorf("error %v, want %v and an outcome that is known: %v", err, context.Canceled, recommended)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			for running := true; running; { // without its client, the statement still runs
				err := db.conn.Pool.QueryRow(t.Context(), `SELECT count(*) > 0 FROM pg_stat_activity
					WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active' AND strpos(query, '.put(') > 0`).Scan(&running)
				if err != nil {
					t.Fatal(err)
				}
			}
			cp, err := db.Get(t.Context(), checkpoint.Key{Thread: "thread"})
			if err != nil || recommended && cp.ID != first.ID {
				t.Errorf("head %v, %v after the cancellation, want %v", cp, err, first.ID)
			}
			ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := db.Put(ctx, next(cp.Key, 2, item(2))); err != nil {
				t.Errorf("put after the cancellation: %v", err)
			}
		})
	}
}
