package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
	"github.com/treadle-go/treadle/store"
)

func TestSchemaNames(t *testing.T) {
	url := pgtest.URL(t)
	for _, name := range []string{`it's "odd"; DROP`, `Treadle`, `back\slash'`, "a\nb", "鹦鹉", strings.Repeat("x", 63)} {
		db := open(t, url, &Options{Schema: name, Migrate: true})
		p := next(checkpoint.Key{Thread: "thread"}, 0, item(0))
		if err := db.Put(t.Context(), p); err != nil {
			t.Errorf("schema %q: %v", name, err)
		}
		wantLine(t, open(t, url, &Options{Schema: name}), "thread", []checkpoint.ID{p.ID})
		var n int
		if err := db.conn.Pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = $1", name).Scan(&n); err != nil || n != 1 {
			t.Errorf("there are %d schemas %q, %v", n, name, err)
		}
	}
	for _, name := range []string{"pg_x", "a\x00b", "\xff", "a$b", strings.Repeat("x", 64)} {
		if _, err := Open(t.Context(), url, &Options{Schema: name, Migrate: true}); err == nil || !strings.Contains(err.Error(), "invalid schema name") {
			t.Errorf("schema %q: %v", name, err)
		}
		if sql := Migrations(name); !strings.HasPrefix(sql, "-- invalid schema name") {
			t.Errorf("the migrations of schema %q are %s", name, sql)
		}
	}
}

// The role of a program has no right but those that the documentation names,
// and a search_path that leads nowhere. The DBA has run the SQL.
func TestDocumentedGrantsSuffice(t *testing.T) {
	server := pgtest.URL(t)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	role := "role_" + strings.TrimPrefix(u.Path, "/treadle_")
	databasetest.RunScript(t, server, Migrations(""))
	databasetest.RunScript(t, server, strings.ReplaceAll(`
		CREATE ROLE app LOGIN PASSWORD 'secret';
		ALTER ROLE app SET search_path = '';
		REVOKE ALL ON ALL FUNCTIONS IN SCHEMA treadle FROM PUBLIC;
		REVOKE ALL ON SCHEMA public FROM PUBLIC`, "app", role))
	t.Cleanup(func() {
		c, err := pgx.Connect(context.Background(), server)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = c.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role, pgx.QueryExecModeSimpleProtocol)
		if err := errors.Join(err, c.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	u.User = url.UserPassword(role, "secret")
	if _, err := Open(t.Context(), u.String(), nil); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "run the GRANTs") {
		t.Errorf("without rights: %v, want %v", err, ErrSchema)
	}
	databasetest.RunScript(t, server, strings.ReplaceAll(`
		GRANT USAGE ON SCHEMA treadle TO app;
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA treadle TO app;
		GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA treadle TO app`, "app", role))
	// Options.Migrate is no harm where nothing is to be done.
	db := open(t, u.String(), &Options{Migrate: true})
	ctx := t.Context()
	key := checkpoint.Key{Thread: "thread"}
	for i := range 40 { // a pack and more
		p := next(key, i, item(i))
		p.RunID, p.Metadata = fmt.Sprint("run ", i/10), []byte(`{"k":1}`)
		p.Pending = []checkpoint.Write{{Task: "t", Kind: checkpoint.Done, Data: []byte("x")}}
		if err := db.Put(ctx, p); err != nil {
			t.Fatal(err)
		}
		key = p.Key
	}
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	ok("writes", db.PutWrites(ctx, key, 0, []checkpoint.Write{{Task: "t", Kind: checkpoint.Failed, Data: []byte("x")}}))
	ok("copy", db.CopyThread(ctx, "thread", "copy"))
	_, err = db.Prune(ctx, "copy", checkpoint.Retention{KeepLast: 3})
	ok("prune", err)
	_, err = db.DeleteRuns(ctx, "thread", []string{"run 3"})
	ok("delete runs", err)
	_, err = db.Size(ctx, "thread")
	ok("size", err)
	ok("fence", db.Fence(ctx, "thread", 3))
	for th, err := range db.Threads(ctx) {
		ok("threads", err)
		ok("delete", db.DeleteThread(ctx, th.Name))
	}
	cache := db.Cache()
	ok("set", cache.Set(ctx, "s", "k", []byte("v"), 1))
	_, _, err = cache.Get(ctx, "s", "k")
	ok("get", err)
	ok("clear", cache.Clear(ctx))
	ok("clear a space", cache.Clear(ctx, "s"))
	databasetest.ExerciseStore(t, storeOf(t, db, &store.Options{Embedder: store.NewHashEmbedder(8)}))
	databasetest.ExerciseLedger(t, db.Ledger())
	checkTables(t, db)
	databasetest.CheckLedger(t, db.conn)
}

// Prepared statements are the only state that calls leave in a session, and none in
// pooler-safe mode.
func TestSessionsKeepNoState(t *testing.T) {
	for name, m := range allModes() {
		t.Run(name, func(t *testing.T) {
			m.MaxConns = 1
			db := m.fresh(t, pgtest.URL(t))
			key := checkpoint.Key{Thread: "thread"}
			for i := range 3 {
				p := next(key, i, item(i))
				if err := db.Put(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				key = p.Key
			}
			wantLine(t, db, "thread", idsOf(t, db))
			databasetest.ExerciseStore(t, storeOf(t, db, &store.Options{Embedder: store.NewHashEmbedder(8)}))
			databasetest.ExerciseLedger(t, db.Ledger())
			if _, err := db.Prune(t.Context(), "thread", checkpoint.Retention{}); err != nil {
				t.Fatal(err)
			}
			for what, query := range map[string]string{
				"prepared statements": "SELECT count(*) FROM pg_prepared_statements",
				"advisory locks":      "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
				"settings":            "SELECT count(*) FROM pg_settings WHERE source = 'session'",
				"channels":            "SELECT count(*) FROM pg_listening_channels()",
			} {
				var n int
				if err := db.conn.Pool.QueryRow(t.Context(), query, pgx.QueryExecModeSimpleProtocol).Scan(&n); err != nil {
					t.Fatal(err)
				}
				if want := !m.PoolerSafe && what == "prepared statements"; (n > 0) != want {
					t.Errorf("the session has %d %s", n, what)
				}
			}
		})
	}
}

func idsOf(t *testing.T, db *DB) (ids []checkpoint.ID) {
	for cp, err := range db.List(t.Context(), checkpoint.Query{Thread: "thread"}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append([]checkpoint.ID{cp.ID}, ids...)
	}
	return ids
}
