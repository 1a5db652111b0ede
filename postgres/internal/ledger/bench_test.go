package ledger

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	guuid "github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/ledger/ledgertest"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
)

var benchKwargs = json.RawMessage(`{"input":{"messages":[{"role":"user","content":"What is the weather in Paris today?"}]},"config":{"configurable":{"user":"ada"}},"stream_mode":["values"]}`)

// benchLedger returns a ledger with one worker. Unless sync is set nobody waits for the disk,
// which may take longer than what is measured.
func benchLedger(b *testing.B, sync bool) (*testDB, *ledger.Ledger, guuid.UUID) {
	url := databasetest.Quick(b)
	if sync {
		url = pgtest.URL(b)
	}
	db := fresh(b, url, database.Options{MaxConns: 16})
	l := ledger.New(db.Ledger(), &ledger.Options{Lease: 24 * time.Hour})
	return db, l, databasetest.Beat(b, l)
}

// report tells the median of some times.
func report(b *testing.B, took []time.Duration, unit string) {
	b.ReportMetric(float64(databasetest.Median(took).Nanoseconds())/1000, unit)
}

// BenchmarkLedger is what a run of a thread, or a temporary one, costs the ledger: its
// creation, claimed by its creator, and its end.
func BenchmarkLedger(b *testing.B) {
	for name, of := range map[string]struct{ temporary, sync bool }{
		"thread/sync=off": {}, "thread/sync=on": {sync: true}, "temporary/sync=off": {temporary: true},
	} {
		b.Run(name, func(b *testing.B) {
			_, l, worker := benchLedger(b, of.sync)
			threads := benchThreads(b, l, 100)
			var creating, finishing []time.Duration
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				begun := time.Now()
				c, err := l.CreateRun(b.Context(), &ledger.NewRun{
					Run:            &ledger.Run{Thread: threads[i%len(threads)], Graph: "agent", Kwargs: benchKwargs, Temporary: of.temporary},
					ThreadMetadata: ledger.Object{"graph_id": "agent"},
					Worker:         worker,
				})
				if err != nil || !c.Claimed {
					b.Fatal(c, err)
				}
				created := time.Now()
				if _, err := l.Finish(b.Context(), &ledger.End{Run: c.Run, Worker: worker, Status: ledger.Success, Seq: c.Run.Seq + 10, Claim: true}); err != nil {
					b.Fatal(err)
				}
				creating, finishing = append(creating, created.Sub(begun)), append(finishing, time.Since(created))
			}
			report(b, creating, "p50-µs/create")
			report(b, finishing, "p50-µs/finish")
		})
	}
}

func benchThreads(b *testing.B, l *ledger.Ledger, n int) []guuid.UUID {
	threads := make([]guuid.UUID, n)
	for i := range threads {
		t := &ledger.Thread{Metadata: ledger.Object{"owner": "ada", "graph_id": "agent"}}
		if err := l.CreateThread(b.Context(), t); err != nil {
			b.Fatal(err)
		}
		threads[i] = t.ID
	}
	return threads
}

// multiply makes n threads like one that has a pending run.
func multiply(b *testing.B, db *testDB, thread, run guuid.UUID, n int) {
	b.Helper()
	execIn(b, db, `WITH made AS MATERIALIZED (SELECT n, gen_random_uuid() AS thread, gen_random_uuid() AS run FROM generate_series(1, $3::int) AS n),
		threads AS (INSERT INTO {schema}.server_row (id, created, due, parent, worker, kind, open, terms, doc, body)
			SELECT m.thread, r.created - m.n, r.due + m.n, r.parent, NULL, r.kind, r.open, r.terms,
				convert_to(replace(convert_from(r.doc, 'UTF8'), r.id::text, m.thread::text), 'UTF8'), r.body
			FROM made m, {schema}.server_row r WHERE r.id = $1 AND r.kind = 3)
		INSERT INTO {schema}.server_row (id, created, due, parent, worker, kind, open, terms, doc, body)
			SELECT m.run, r.created - m.n, r.due + m.n, m.thread, NULL, r.kind, r.open, r.terms,
				convert_to(replace(replace(convert_from(r.doc, 'UTF8'), r.id::text, m.run::text), $1::text, m.thread::text), 'UTF8'), r.body
			FROM made m, {schema}.server_row r WHERE r.id = $2 AND r.kind = 4`, [16]byte(thread), [16]byte(run), n)
}

// BenchmarkClaim claims the next run of a queue.
func BenchmarkClaim(b *testing.B) {
	for _, pending := range []int{0, 100_000} {
		b.Run(fmt.Sprint(pending), func(b *testing.B) {
			db, l, worker := benchLedger(b, false)
			if pending > 0 {
				runsWait(b, db, l, pending)
			}
			threads := benchThreads(b, l, 100)
			var took []time.Duration
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, err := l.CreateRun(b.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: threads[i%len(threads)], Graph: "agent", Kwargs: benchKwargs}})
				if err != nil {
					b.Fatal(err)
				}
				begun := time.Now()
				runs, err := l.Claim(b.Context(), worker, nil, 1)
				if err != nil || len(runs) != 1 {
					b.Fatal(runs, err)
				}
				took = append(took, time.Since(begun))
				if _, err := l.Finish(b.Context(), &ledger.End{Run: runs[0], Worker: worker, Status: ledger.Success}); err != nil {
					b.Fatal(err)
				}
			}
			report(b, took, "p50-µs/claim")
		})
	}
}

// manyThreads makes n threads. All have the metadata graph_id, half of them kind as well,
// one in 1,000 owner, and the oldest ten rare.
func manyThreads(b *testing.B, db *testDB, l *ledger.Ledger, n int) {
	b.Helper()
	t := &ledger.Thread{Metadata: ledger.Object{}}
	for _, group := range []struct {
		key, value  string
		made, where string
	}{
		{"graph_id", "agent", "17e14", "n % 2 = 1"},
		{"kind", "chat", "17e14", "n % 2 = 0 AND n % 1000 <> 0"},
		{"owner", "ada", "17e14", "n % 1000 = 0"},
		{"rare", "yes", "16e14", "n <= 10"},
	} {
		t.ID, t.Metadata[group.key] = guuid.Nil, group.value
		if err := l.CreateThread(b.Context(), t); err != nil {
			b.Fatal(err)
		}
		execIn(b, db, `INSERT INTO {schema}.server_row (id, created, kind, open, terms, doc)
			SELECT gen_random_uuid(), `+group.made+`::bigint + n, r.kind, r.open, r.terms, r.doc
			FROM {schema}.server_row r, generate_series(1, $2::int) AS n WHERE r.id = $1 AND `+group.where, [16]byte(t.ID), n)
		execIn(b, db, "SELECT {schema}.server_delete('{3}', ARRAY[$1::uuid])", [16]byte(t.ID))
	}
	execIn(b, db, "INSERT INTO {schema}.server_term (kind, term, created, id) SELECT r.kind, u.term, r.created, r.id FROM {schema}.server_row r, unnest(r.terms) AS u(term) WHERE r.kind = 3 ORDER BY 1, 2, 3")
	execIn(b, db, "VACUUM ANALYZE {schema}.server_row")
	execIn(b, db, "VACUUM ANALYZE {schema}.server_term")
}

// BenchmarkThreadSearch reads the first page of the threads that match a filter.
func BenchmarkThreadSearch(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db, l, _ := benchLedger(b, false)
			manyThreads(b, db, l, n)
			for name, filter := range map[string]ledger.Object{
				"no filter":                   nil,
				"one that all match":          {"graph_id": "agent"},
				"one that half match":         {"kind": "chat"},
				"one that a thousandth match": {"owner": "ada"},
				"one that the oldest match":   {"rare": "yes"},
				"three":                       {"graph_id": "agent", "kind": "chat", "owner": "ada"},
				"one that none match":         {"owner": "nobody"},
			} {
				b.Run(name, func(b *testing.B) {
					var took []time.Duration
					b.ReportAllocs()
					for b.Loop() {
						begun := time.Now()
						page, _, err := l.Threads(b.Context(), &ledger.ThreadQuery{Filter: ledger.Filter{Contains: filter}, Page: ledger.Page{Limit: 10, Ahead: 1}})
						if err != nil || len(page) != 10 && name != "one that none match" {
							b.Fatal(page, err)
						}
						took = append(took, time.Since(begun))
					}
					report(b, took, "p50-µs/page")
				})
			}
		})
	}
}

// BenchmarkQueue is what a process does now and then beside 100,000 runs that wait: it
// counts them for /metrics, and looks for threads whose time is over, for the next
// thing to do, and for a run of a graph that nobody waits for.
func BenchmarkQueue(b *testing.B) {
	for _, pending := range []int{0, 100_000} {
		db, l, worker := benchLedger(b, false)
		if pending > 0 {
			runsWait(b, db, l, pending)
		}
		for _, of := range []struct {
			name string
			do   func() error
		}{
			{"metrics", func() error { _, err := l.Queue(b.Context()); return err }},
			{"expired", func() error { _, err := l.Expired(b.Context(), 100); return err }},
			{"next due", func() error { _, err := l.NextDue(b.Context()); return err }},
			{"claim another graph", func() error { _, err := l.Claim(b.Context(), worker, []string{"another"}, 1); return err }},
		} {
			b.Run(fmt.Sprint(of.name, "/", pending), func(b *testing.B) {
				var took []time.Duration
				for b.Loop() {
					begun := time.Now()
					if err := of.do(); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(begun))
				}
				report(b, took, "p50-µs")
			})
		}
	}
}

// runsWait makes threads that each have a pending run.
func runsWait(b *testing.B, db *testDB, l *ledger.Ledger, n int) {
	b.Helper()
	c, err := l.CreateRun(b.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: guuid.New(), Graph: "agent", Kwargs: benchKwargs}, Create: &ledger.Thread{}})
	if err != nil {
		b.Fatal(err)
	}
	multiply(b, db, c.Run.Thread, c.Run.ID, n)
	execIn(b, db, "VACUUM ANALYZE {schema}.server_row")
}

// BenchmarkTextSearch searches for text among 10,000 threads.
func BenchmarkTextSearch(b *testing.B) {
	db, _, _ := benchLedger(b, false)
	ledgertest.Benchmark(b, db.Ledger(), func() { // as autovacuum does
		execIn(b, db, "VACUUM ANALYZE {schema}.server_row")
		execIn(b, db, "VACUUM ANALYZE {schema}.server_term")
	})
}
