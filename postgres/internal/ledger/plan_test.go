package ledger

import (
	"strings"
	"testing"
	"time"

	guuid "github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
)

// planOf is how Postgres executes a statement.
func planOf(t *testing.T, db *testDB, query string, args []any) string {
	t.Helper()
	rows, err := db.conn.Pool.Query(t.Context(), "EXPLAIN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// ledgerQueries are those that a ledger makes, but for those of one row.
func ledgerQueries() map[string]*ledger.Query {
	id, now := guuid.New(), time.Now()
	return map[string]*ledger.Query{
		"threads":                  {Kind: ledger.Threads},
		"threads, the oldest":      {Kind: ledger.Threads, Order: ledger.OldestFirst},
		"busy threads":             {Kind: ledger.Threads, Open: true},
		"threads by metadata":      {Kind: ledger.Threads, Terms: []uint64{1, 2}},
		"threads by ids":           {Kind: ledger.Threads, IDs: []guuid.UUID{id, guuid.New()}},
		"due threads":              {Kind: ledger.Threads, Open: true, DueBy: now, Order: ledger.DueFirst},
		"expired threads":          {Kind: ledger.Threads, Parent: id, DueBy: now, Order: ledger.DueFirst, Limit: 100},
		"next thread":              {Kind: ledger.Threads, Open: true, Order: ledger.DueFirst, Limit: 1},
		"runs of a thread":         {Kind: ledger.Runs, Parent: id},
		"open runs of a thread":    {Kind: ledger.Runs, Parent: id, Open: true, Order: ledger.OldestFirst},
		"next run of a thread":     {Kind: ledger.Runs, Parent: id, Order: ledger.DueFirst, Limit: 1, Bodies: true},
		"due temporary runs":       {Kind: ledger.Runs, Parent: id, DueBy: now, Order: ledger.DueFirst},
		"run with a key":           {Kind: ledger.Runs, Parent: id, Terms: []uint64{1}, Bodies: true},
		"runs with their kwargs":   {Kind: ledger.Runs, IDs: []guuid.UUID{id, guuid.New()}, Bodies: true},
		"open runs":                {Kind: ledger.Runs, Open: true},
		"runs":                     {Kind: ledger.Runs},
		"runs of a graph":          {Kind: ledger.Runs, Terms: []uint64{1}},
		"runs before another":      {Kind: ledger.Runs, After: &ledger.Position{At: now, ID: id}},
		"spans of a run":           {Kind: ledger.Spans, Parent: id, Order: ledger.OldestFirst, After: &ledger.Position{At: now, ID: id}},
		"old spans":                {Kind: ledger.Spans, DueBy: now, Order: ledger.DueFirst, Limit: 100},
		"texts":                    {Kind: ledger.Texts, Terms: []uint64{1, 2}, After: &ledger.Position{At: now, ID: id}},
		"unindexed threads":        {Kind: ledger.Unindexed, DueBy: now, Order: ledger.DueFirst, Limit: 100},
		"runs of a worker":         {Kind: ledger.Runs, Worker: id, Open: true, Order: ledger.OldestFirst},
		"ordered runs of a worker": {Kind: ledger.Runs, Worker: id, Terms: []uint64{1}},
		"versions":                 {Kind: ledger.Versions, Parent: id},
		"assistants":               {Kind: ledger.Assistants},
		"due crons":                {Kind: ledger.Crons, DueBy: now, Order: ledger.DueFirst, Limit: 10},
		"crons of a thread":        {Kind: ledger.Crons, Parent: id},
		"due hooks":                {Kind: ledger.Hooks, DueBy: now, Order: ledger.DueFirst, Limit: 10},
		"workers that attend":      {Kind: ledger.Workers, Open: true},
		"dead workers":             {Kind: ledger.Workers, DueBy: now, Order: ledger.DueFirst},
	}
}

// A plan is kept for some time, also when a table that was empty has grown. So no
// query reads a whole table, neither in a schema that is new nor in one that has grown
// and was not analyzed, and none sorts its rows once it was.
func TestLedgerQueriesUseIndexes(t *testing.T) {
	db := fresh(t, databasetest.Quick(t), database.Options{})
	execIn(t, db, "ALTER TABLE {schema}.server_row SET (autovacuum_enabled = false)")
	execIn(t, db, "ALTER TABLE {schema}.server_term SET (autovacuum_enabled = false)")
	check := func(state string) {
		t.Helper()
		for name, q := range ledgerQueries() {
			for _, begun := range []bool{false, true} {
				f := db.backend.newFind(q)
				f.begun, f.at = begun, time.Now()
				query, args := f.statement(firstPage)
				plan := planOf(t, db, query, args)
				sorts := strings.Contains(plan, "Sort") && q.IDs == nil && state == "analyzed"
				if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Hash") || sorts {
					t.Errorf("%s: %s, %v:\n%s\n%s", state, name, begun, query, plan)
				}
			}
		}
		ids := []pgtype.UUID{orNullID(guuid.New()), orNullID(guuid.New())}
		for query, args := range map[string][]any{
			db.backend.byIDs(2):        {ids[0], ids[1]},
			db.backend.sql.getAll:      {[]int16{3, 4}, ids},
			db.backend.sql.rarest:      {int16(3), []int64{1, 2}},
			db.backend.sql.events:      {ids[0], 1, ids[1]},
			db.backend.sql.eventsOfRun: {ids[0], 1, ids[1], ids[0]},
			db.backend.sql.dropRun:     {ids[0], ids[1]},
		} {
			if plan := planOf(t, db, query, args); strings.Contains(plan, "Seq Scan") {
				t.Errorf("%s: %s\n%s", state, query, plan)
			}
		}
	}
	check("empty")
	grow := func(n int) {
		execIn(t, db, `WITH made AS (INSERT INTO {schema}.server_row (id, created, due, parent, worker, kind, open, terms, doc)
			SELECT gen_random_uuid(), n, CASE WHEN n % 3 = 0 THEN n END, CASE WHEN n % 2 = 0 THEN gen_random_uuid() END, CASE WHEN n % 7 = 0 THEN gen_random_uuid() END,
				1 + n % 11, n % 5 = 0, ARRAY[n % 3, n + 3], convert_to(repeat('x', 300), 'UTF8') FROM generate_series(1, $1::int) AS n RETURNING kind, id, created, terms)
			INSERT INTO {schema}.server_term (kind, term, created, id) SELECT m.kind, u.term, m.created, m.id FROM made m, unnest(m.terms) AS u(term)`, n)
	}
	grow(20_000)
	check("grown")
	execIn(t, db, "ANALYZE {schema}.server_row, {schema}.server_term")
	check("analyzed")
}
