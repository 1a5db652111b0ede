package ledger

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
)

// ledgerWriterEnv makes the test binary a process that creates and finishes runs until it is
// killed. Its value is the URL, a space, and the schema.
const ledgerWriterEnv = "TREADLE_TEST_LEDGER_WRITER"

// killedLease is the lease of the killed process. The test does not wait for its end: Postgres
// notices the end of the connection.
const killedLease = time.Hour

func TestKilledWorkerLosesNoRun(t *testing.T) {
	url := pgtest.URL(t)
	db := fresh(t, url, database.Options{})
	kills := 8
	if race.Enabled {
		kills = 2 // the writer takes ten times as long
	}
	killtest.CheckLedger(t, ledger.New(db.Ledger(), &ledger.Options{Lease: time.Minute}), ledgerWriterEnv+"="+url+" "+db.conn.Schema, kills)
	databasetest.CheckLedger(t, db.conn)
}

// runUntilKilled is the main function of the other process.
func runUntilKilled(at string) {
	url, schema, _ := strings.Cut(at, " ")
	conn, err := database.Open(context.Background(), url, &database.Options{Schema: schema})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	killtest.UseLedger(ledger.New(newTestDB(conn).Ledger(), &ledger.Options{Lease: killedLease}))
}
