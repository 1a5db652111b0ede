package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pgtest"
	"github.com/treadle-go/treadle/store"
)

// run executes a script as a DBA would.
func runScript(t *testing.T, url, script string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	if _, err := c.PgConn().Exec(t.Context(), script).ReadAll(); err != nil {
		t.Fatalf("%v\n%s", err, script)
	}
}

func TestASchemaThatDoesNotFitIsAClearError(t *testing.T) {
	server := pgtest.URL(t)
	const how = ": open with Options.Migrate, or have the SQL of postgres.Migrations run"
	wantErr := func(what, want string) {
		t.Helper()
		db, err := Open(t.Context(), server, nil)
		if err == nil {
			err = db.Close()
			t.Errorf("%s: it opened (%v)", what, err)
			return
		}
		if !errors.Is(err, ErrSchema) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %v, ending in\n%s", what, err, ErrSchema, want)
		}
	}
	wantErr("no schema", `there is no schema "treadle" with treadle's tables in this database`+how)
	runScript(t, server, "CREATE SCHEMA treadle")
	wantErr("an empty schema", `there is no schema "treadle" with treadle's tables in this database`+how)
	runScript(t, server, migrationsUpTo("treadle", `"treadle"`, 1))
	wantErr("an older schema", fmt.Sprintf(`schema "treadle" has version 1 and this program needs %d%s`, len(scripts), how))
	// From version 1 to the newest, with what it has.
	runScript(t, server, "INSERT INTO treadle.thread (name, epoch) VALUES ('old', 5)")
	db := open(t, server, &Options{Migrate: true})
	if err := db.Put(t.Context(), next(checkpoint.Key{Thread: "old"}, 0)); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("a put in the thread from before: %v, want %v", err, checkpoint.ErrFenced)
	}
	p := next(checkpoint.Key{Thread: "old"}, 0, item(0))
	p.Fence = 5
	if err := db.Put(t.Context(), p); err != nil {
		t.Error(err)
	}
	// Again, in every way there is.
	runScript(t, server, Migrations(""))
	if err := db.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	wantLine(t, open(t, server, nil), "old", []checkpoint.ID{p.ID})

	runScript(t, server, "INSERT INTO treadle.migration (version) VALUES (99)")
	later := fmt.Sprintf(`schema "treadle" has version 99, but this program supports versions up to %d: a later release has migrated it; use that release`, len(scripts))
	wantErr("a newer schema", later)
	if err := db.Migrate(t.Context()); !errors.Is(err, ErrSchema) {
		t.Errorf("migrate of a newer schema: %v, want %v", err, ErrSchema)
	}
}

func TestManyMayMigrateAtOnce(t *testing.T) {
	url := pgtest.URL(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			db, err := Open(t.Context(), url, &Options{Migrate: true})
			if err != nil {
				t.Error(err)
				return
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestASchemaMayHaveAnyName(t *testing.T) {
	url := pgtest.URL(t)
	for _, name := range []string{`it's "odd"; DROP`, `Treadle`, `back\slash'`, "a\nb", "鹦鹉", strings.Repeat("x", 63)} {
		db := open(t, url, &Options{Schema: name, Migrate: true})
		p := next(checkpoint.Key{Thread: "thread"}, 0, item(0))
		if err := db.Put(t.Context(), p); err != nil {
			t.Errorf("schema %q: %v", name, err)
		}
		wantLine(t, open(t, url, &Options{Schema: name}), "thread", []checkpoint.ID{p.ID})
		var n int
		if err := db.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = $1", name).Scan(&n); err != nil || n != 1 {
			t.Errorf("there are %d schemas %q, %v", n, name, err)
		}
	}
	for _, name := range []string{"pg_x", "a\x00b", "\xff", "a$b", strings.Repeat("x", 64)} {
		if _, err := Open(t.Context(), url, &Options{Schema: name, Migrate: true}); err == nil || !strings.Contains(err.Error(), "the schema's name") {
			t.Errorf("schema %q: %v", name, err)
		}
		if sql := Migrations(name); !strings.HasPrefix(sql, "-- the schema's name") {
			t.Errorf("the migrations of schema %q are %s", name, sql)
		}
	}
}

// The role of a program has no right but those that the documentation names,
// and a search_path that leads nowhere. The DBA has run the SQL.
func TestARoleThatMayOnlyReadAndWriteIsEnough(t *testing.T) {
	server := pgtest.URL(t)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	role := "role_" + strings.TrimPrefix(u.Path, "/treadle_")
	runScript(t, server, Migrations(""))
	runScript(t, server, strings.ReplaceAll(`
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
	if _, err := Open(t.Context(), u.String(), nil); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "see the GRANTs") {
		t.Errorf("without rights: %v, want %v", err, ErrSchema)
	}
	runScript(t, server, strings.ReplaceAll(`
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
	exercise(t, storeOf(t, db, &store.Options{Embedder: store.NewHashEmbedder(8)}))
	exerciseLedger(t, db.Ledger())
	checkTables(t, db)
	checkLedger(t, db)
}

// In pooler-safe mode a session has nothing that the next one would miss.
func TestPoolerSafeLeavesNothingInTheSession(t *testing.T) {
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			o.MaxConns = 1
			db := fresh(t, pgtest.URL(t), o)
			key := checkpoint.Key{Thread: "thread"}
			for i := range 3 {
				p := next(key, i, item(i))
				if err := db.Put(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				key = p.Key
			}
			wantLine(t, db, "thread", idsOf(t, db))
			exercise(t, storeOf(t, db, &store.Options{Embedder: store.NewHashEmbedder(8)}))
			if o.PoolerSafe { // otherwise it has a session
				exerciseLedger(t, db.Ledger())
			}
			if _, err := db.Prune(t.Context(), "thread", checkpoint.Retention{}); err != nil {
				t.Fatal(err)
			}
			for what, query := range map[string]string{
				"prepared statements": "SELECT count(*) FROM pg_prepared_statements",
				"advisory locks":      "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
				"settings":            "SELECT count(*) FROM pg_settings WHERE source = 'session'",
				"channels":            "SELECT count(*) FROM pg_listening_channels()",
			} {
				var n int
				if err := db.pool.QueryRow(t.Context(), query, pgx.QueryExecModeSimpleProtocol).Scan(&n); err != nil {
					t.Fatal(err)
				}
				if want := !o.PoolerSafe && (what == "prepared statements" || what == "settings"); (n > 0) != want {
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
