package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/ledger"
)

// ledgerWriterEnv makes the test binary a process that creates and finishes runs until it is
// killed. Its value is the path of the file.
const ledgerWriterEnv = "TREADLE_SQLITE_LEDGER_WRITER"

// killedLease is the lease of the killed process. It is short, because the test waits for its
// end.
const killedLease = 200 * time.Millisecond

func TestKilledWorkerLosesNoRun(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"))
	kills := 8
	if race.Enabled {
		kills = 2 // the writer takes ten times as long
	}
	killtest.CheckLedger(t, ledger.New(db.Ledger(), &ledger.Options{Lease: time.Minute}), ledgerWriterEnv+"="+db.conn.Path, kills)
	checkFile(t, db)
}

// runUntilKilled is the main function of the other process.
func runUntilKilled(path string) {
	db, err := openTest(path, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	killtest.UseLedger(ledger.New(db.Ledger(), &ledger.Options{Lease: killedLease}))
}
