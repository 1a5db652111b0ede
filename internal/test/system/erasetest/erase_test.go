package erasetest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver, for a reader

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/reduce"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// inFiles returns which of Ann's words are in which files of a directory.
func inFiles(t testing.TB, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // SQLite removes its log when it closes the file
		}
		raw = bytes.ToLower(raw)
		for _, word := range secrets {
			if n := bytes.Count(raw, []byte(word)); n > 0 {
				found = append(found, fmt.Sprintf("%s %d times in %s", word, n, filepath.Base(path)))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func openSQLite(t testing.TB, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

var key = checkpoint.EncryptionKey{ID: 1, Secret: []byte("an example key of 32 bytes......")}

// After an erasure, no file contains a word of the person, and the data of others
// is complete, including texts that both had.
func TestErasureScrubsFiles(t *testing.T) {
	for name, keys := range map[string][]checkpoint.EncryptionKey{"in the clear": nil, "encrypted": {key}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db := openSQLite(t, filepath.Join(dir, "agent.db"))
			w := newWorld(t, db, keys...)
			bob := w.settle("bob", bobText)
			w.settle("ann", annText)
			if len(inFiles(t, dir)) == 0 {
				t.Fatal("files do not contain the words before the erasure")
			}
			dry, err := w.erasure("ann").DryRun(t.Context())
			w.ok(err)
			w.wantFound("the dry run", dry.Found)
			report, err := w.erasure("ann").Run(t.Context())
			w.ok(err)
			if report.Found != dry.Found || report.Left != (memory.Holdings{}) || !report.CacheCleared || !report.Scrubbed || len(report.Threads) != 4 {
				t.Errorf("erased: %v\nthe dry run: %v\nthe report: %+v", report.Found, dry.Found, report)
			}
			if found := inFiles(t, dir); found != nil {
				t.Errorf("there are still %v", found)
			}
			text := fmt.Sprintf("%s %+v %s", report, report, w.json(report))
			for _, word := range append(secrets, "quokkas", "Reykjavik") {
				if strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
					t.Errorf("report contains %q: %s", word, text)
				}
			}
			again, err := w.erasure("ann").Run(t.Context())
			w.ok(err)
			if again.Found != (memory.Holdings{}) {
				t.Errorf("second erasure found %v", again.Found)
			}
			w.wantBob(bob)
			w.ok(db.Close())
			if found := inFiles(t, dir); found != nil {
				t.Errorf("when the file is closed there are %v", found)
			}
			checked, err := sqlite.Open(filepath.Join(dir, "agent.db"), &sqlite.Options{Check: true})
			w.ok(err)
			w.ok(checked.Close())
		})
	}
}

// What is encrypted is in no file to begin with: only the server's rows and events are in
// the clear, and the names of keys, namespaces and threads.
func TestEncryptedDataIsInNoFile(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, openSQLite(t, filepath.Join(dir, "agent.db")), key)
	w.ledger = ledger.New(ledger.NewMemory(), nil)
	_, err := w.ledger.Beat(t.Context(), w.worker, "test")
	w.ok(err)
	w.settle("ann", annText)
	w.ok(w.db.Cache().Clear(t.Context())) // the results of nodes are not encrypted
	w.ok(w.db.Scrub(t.Context()))
	if found := inFiles(t, dir); found != nil {
		t.Errorf("there are %v", found)
	}
	items, err := w.store.Search(t.Context(), namespaceOf("ann"), &store.SearchOptions{Query: "zebrapox", Ranking: store.Keyword})
	if err != nil || len(items) == 0 || !strings.Contains(string(items[0].Value), "Zebrapox") {
		t.Errorf("search finds %v, %v", items, err)
	}
}

func TestEraseWaitsForReader(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.db")
	w := newWorld(t, openSQLite(t, path))
	bob := w.settle("bob", bobText)
	w.settle("ann", annText)
	other, err := sql.Open("sqlite", path)
	w.ok(err)
	defer func() { w.ok(other.Close()) }()
	reader, err := other.BeginTx(t.Context(), nil)
	w.ok(err)
	var n int
	w.ok(reader.QueryRowContext(t.Context(), "SELECT count(*) FROM store_record").Scan(&n))
	ended := make(chan error)
	go func() {
		for t.Context().Err() == nil { // until the rows are gone for others
			var left int
			err := other.QueryRowContext(t.Context(), "SELECT count(*) FROM thread").Scan(&left)
			if err != nil || left == 3 {
				break
			}
		}
		ended <- reader.Rollback()
	}()
	_, err = w.erasure("ann").Run(t.Context())
	w.ok(errors.Join(err, <-ended))
	if found := inFiles(t, dir); found != nil {
		t.Errorf("there are still %v", found)
	}
	w.wantBob(bob)
}

// eraserEnv is the environment variable that turns the test binary into a process
// that erases Ann. It contains the path of the file.
const eraserEnv = "TREADLE_ERASER"

// Whenever the process is killed, the next one erases the remaining data.
func TestKilledErasureIsCompletedByNext(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.db")
	db := openSQLite(t, path)
	w := newWorld(t, db)
	bob := w.settle("bob", bobText)
	for _, n := range []int{1, 6, 11, 16} { // 1 is before anything is erased, 16 is after most
		w.settle("ann", annText)
		killtest.Lines(t, eraserEnv+"="+path, n)
		report, err := w.erasure("ann").Run(t.Context())
		w.ok(err)
		if report.Found.Changes > settled.Changes || !report.Scrubbed {
			t.Errorf("killed at %d: %+v", n, report)
		}
		if found := inFiles(t, dir); found != nil {
			t.Errorf("killed at %d: there are still %v", n, found)
		}
		w.wantBob(bob)
	}
}

// eraseUntilKilled erases in the child process. It writes a line for each step.
func eraseUntilKilled(path string) {
	go killtest.EndWithParent()
	fmt.Fprintln(os.Stderr, eraseSlowly(path))
	os.Exit(1)
}

func eraseSlowly(path string) error {
	db, err := sqlite.Open(path, nil)
	if err != nil {
		return err
	}
	s, err := db.Store(nil)
	if err != nil {
		return err
	}
	e := &memory.Erasure{
		Person: "ann", Namespaces: []store.Namespace{namespaceOf("ann"), {"forks", "ann"}}, Threads: []string{"ann 1", "ann 2"}, Metadata: map[string]any{"user_id": "ann"},
		Saver: told{db}, Store: s, Ledger: ledger.New(toldLedger{db.Ledger()}, nil), Journals: []store.Namespace{journal},
	}
	if _, err = e.Run(context.Background()); err != nil {
		return err
	}
	for {
		fmt.Fprintln(os.Stdout, "done")
	}
}

// told is a saver that prints its calls.
type told struct{ *sqlite.DB }

func (s told) DeleteThread(ctx context.Context, thread string) error {
	fmt.Fprintln(os.Stdout, "delete", thread)
	return s.DB.DeleteThread(ctx, thread)
}

func (s told) Scrub(ctx context.Context) error {
	fmt.Fprintln(os.Stdout, "scrub")
	return s.DB.Scrub(ctx)
}

// toldLedger is a ledger backend that prints its calls.
type toldLedger struct{ ledger.Backend }

func (b toldLedger) Update(ctx context.Context, lock uuid.UUID, fn func(ledger.Tx) error) error {
	fmt.Fprintln(os.Stdout, "update", lock)
	return b.Backend.Update(ctx, lock, fn)
}

// In Postgres, no row of any table contains a word of the person.
func TestErasureScrubsPostgresRows(t *testing.T) {
	url := pgtest.URL(t)
	db, err := postgres.Open(t.Context(), url, &postgres.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	w := newWorld(t, db)
	bob := w.settle("bob", bobText)
	w.settle("ann", annText)
	if len(inRows(t, url)) == 0 {
		t.Fatal("rows do not contain the words before the erasure")
	}
	report, err := w.erasure("ann").Run(t.Context())
	w.ok(err)
	w.wantFound("the report", report.Found)
	if found := inRows(t, url); found != nil {
		t.Errorf("there are still %v", found)
	}
	w.wantBob(bob)
}

// inRows returns which of Ann's words are in which tables, in columns of any type.
func inRows(t testing.TB, url string) (found []string) {
	t.Helper()
	ctx := t.Context()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	rows, err := c.Query(ctx, `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'treadle' AND c.relkind = 'r'`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		rows, err := c.Query(ctx, "SELECT * FROM treadle."+pgx.Identifier{table}.Sanitize(), pgx.QueryResultFormats{pgx.BinaryFormatCode})
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			for _, raw := range rows.RawValues() {
				for _, word := range secrets {
					if bytes.Contains(bytes.ToLower(raw), []byte(word)) {
						found = append(found, word+" in "+table)
					}
				}
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// A run that continues after its thread was erased saves nothing.
func TestRunOnErasedThreadIsRejected(t *testing.T) {
	url := pgtest.URL(t)
	pg, err := postgres.Open(t.Context(), url, &postgres.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, saver := range map[string]checkpoint.Saver{"memory": checkpoint.NewMemory(), "sqlite": openSQLite(t, filepath.Join(t.TempDir(), "a.db")), "postgres": pg} {
		t.Run(name, func(t *testing.T) {
			erased := make(chan struct{})
			begun := make(chan struct{})
			b := treadle.New[note]("notes")
			treadle.AddNode(b, "wait", func(_ context.Context, n note) (struct{ Texts reduce.List[string] }, error) {
				close(begun)
				<-erased
				return struct{ Texts reduce.List[string] }{reduce.List[string]{annText}}, nil
			})
			b.Edge(treadle.Start, "wait")
			b.Edge("wait", treadle.End)
			g, err := b.Compile(&treadle.Options{Saver: saver})
			if err != nil {
				t.Fatal(err)
			}
			failed := make(chan error)
			go func() {
				_, err := g.Thread("ann").Run(t.Context(), note{Last: annText})
				failed <- err
			}()
			<-begun
			e := &memory.Erasure{Threads: []string{"ann"}, Saver: saver}
			if r, err := e.Run(t.Context()); err != nil || r.Found.SavedThreads != 1 {
				t.Errorf("erased: %v, %v", r, err)
			}
			close(erased)
			if err := <-failed; !errors.Is(err, checkpoint.ErrConflict) && !errors.Is(err, checkpoint.ErrNotFound) {
				t.Errorf("run ended with %v", err)
			}
			if r, err := e.DryRun(t.Context()); err != nil || r.Found != (memory.Holdings{}) {
				t.Errorf("then there are %v, %v", r, err)
			}
		})
	}
}
