package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	guuid "github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
)

// ledgerWriterEnv makes the test binary a process that creates and ends runs until it
// is killed. It is the URL, and the schema behind a space.
const ledgerWriterEnv = "TREADLE_TEST_LEDGER_WRITER"

// killedLease is that of the process. Nobody waits for its end: Postgres notices that of
// the connection.
const killedLease = time.Hour

// After kill -9 at any moment every run that was accepted is there and can be ended,
// once and without a wait for the lease, and those that had ended have ended.
func TestKilledWorkerLosesNoRun(t *testing.T) {
	kills := 8
	if race.Enabled {
		kills = 2 // the writer takes ten times as long
	}
	url := pgtest.URL(t)
	db := fresh(t, url, database.Options{})
	l := ledger.New(db.Ledger(), &ledger.Options{Lease: time.Minute})
	rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), 3))
	for round := range kills {
		accepted, ended := map[guuid.UUID]bool{}, map[guuid.UUID]bool{}
		for _, line := range killtest.Lines(t, ledgerWriterEnv+"="+url+" "+db.conn.Schema, 1+rnd.IntN(200)) {
			what, id, _ := strings.Cut(line, "\t")
			switch what {
			case "accepted":
				accepted[guuid.MustParse(id)] = true
			case "ended":
				ended[guuid.MustParse(id)] = true
			}
		}
		for id := range accepted {
			r, err := l.Run(t.Context(), guuid.Nil, id, nil)
			if err != nil {
				t.Errorf("after kill %d run %s, which was accepted: %v", round, id, err)
			} else if ended[id] && r.Status != ledger.Success {
				t.Errorf("after kill %d run %s, which had ended, is %s", round, id, r.Status)
			}
		}
		endAll(t, l)
		if t.Failed() {
			return
		}
	}
	if _, n, err := l.Threads(t.Context(), &ledger.ThreadQuery{Status: ledger.Busy}); n != 0 || err != nil {
		t.Errorf("at last %d threads are busy, %v", n, err)
	}
	databasetest.CheckLedger(t, db.conn)
}

// endAll takes over all runs and ends them.
func endAll(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	worker := guuid.New()
	for start := time.Now(); ; {
		if _, err := l.Beat(t.Context(), worker, "successor"); err != nil {
			t.Fatal(err)
		}
		if _, err := l.EndLeases(t.Context(), worker); err != nil {
			t.Fatal(err)
		}
		runs, failed, err := l.TakeOver(t.Context(), worker, nil, 1000)
		if err != nil || len(failed) > 0 {
			t.Fatalf("the take-over: %v have failed, %v", failed, err)
		}
		claimed, err := l.Claim(t.Context(), worker, nil, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range append(runs, claimed...) {
			if _, err := l.Finish(t.Context(), &ledger.End{Run: r, Worker: worker, Status: ledger.Success}); err != nil {
				t.Errorf("the end of run %s: %v", r.ID, err)
			}
		}
		open := 0
		for _, err := range l.OpenRuns(t.Context(), nil) {
			if open++; err != nil {
				t.Fatal(err)
			}
		}
		if open == 0 {
			return
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("%d runs do not end", open)
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the server has to notice the end of the connection
	}
}

// runUntilKilled is the other process.
func runUntilKilled(at string) {
	go killtest.EndWithParent()
	url, schema, _ := strings.Cut(at, " ")
	conn, err := database.Open(context.Background(), url, &database.Options{Schema: schema})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	db := newTestDB(conn)
	l := ledger.New(db.Ledger(), &ledger.Options{Lease: killedLease})
	var mu sync.Mutex
	ack := func(what string, id guuid.UUID) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(os.Stdout, "%s\t%s\n", what, id)
	}
	errs := make(chan error)
	ctx := context.Background()
	worker := guuid.New()
	if _, err := l.Beat(ctx, worker, "killed"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := l.Attend(ctx, worker); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			if _, err := l.Beat(ctx, worker, "killed"); err != nil {
				errs <- err
			}
		}
	}()
	for range 3 {
		go func() { errs <- runOnThread(ctx, l, worker, ack) }()
	}
	fmt.Fprintln(os.Stderr, <-errs)
	os.Exit(1)
}

// runOnThread creates two runs on a thread at a time and ends one.
func runOnThread(ctx context.Context, l *ledger.Ledger, worker guuid.UUID, ack func(string, guuid.UUID)) error {
	thread := guuid.New()
	var held *ledger.Run
	for {
		c, err := l.CreateRun(ctx, &ledger.NewRun{Run: &ledger.Run{Thread: thread}, Create: &ledger.Thread{}, Worker: worker})
		switch {
		case errors.Is(err, ledger.ErrFull):
			thread = guuid.New()
			continue
		case err != nil:
			return err
		}
		ack("accepted", c.Run.ID)
		if c.Claimed {
			held = c.Run
			continue
		}
		if held == nil {
			continue // the lease was over for a moment
		}
		next, err := l.Finish(ctx, &ledger.End{Run: held, Worker: worker, Status: ledger.Success, Claim: true})
		if err != nil {
			return err
		}
		ack("ended", held.ID)
		held = next
	}
}
