package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/ledger"
)

// ledgerWriterEnv makes the test binary a process that creates and ends runs until it
// is killed. It is the path of the file.
const ledgerWriterEnv = "TREADLE_SQLITE_LEDGER_WRITER"

// killedLease is that of the process, and short, so that nobody waits for it.
const killedLease = 200 * time.Millisecond

// After kill -9 at any moment every run that was accepted is there and can be ended,
// once, and those that had ended have ended.
func TestKilledWorkerLosesNoRun(t *testing.T) {
	kills := 8
	if race.Enabled {
		kills = 2 // the writer takes ten times as long
	}
	db := open(t, filepath.Join(t.TempDir(), "test.db"))
	l := ledger.New(db.Ledger(), &ledger.Options{Lease: time.Minute})
	rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), 3))
	for round := range kills {
		accepted, ended := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
		for _, line := range killtest.Lines(t, ledgerWriterEnv+"="+db.conn.Path, 1+rnd.IntN(200)) {
			what, id, _ := strings.Cut(line, "\t")
			switch what {
			case "accepted":
				accepted[uuid.MustParse(id)] = true
			case "ended":
				ended[uuid.MustParse(id)] = true
			}
		}
		for id := range accepted {
			r, err := l.Run(t.Context(), uuid.Nil, id, nil)
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
	checkFile(t, db)
}

// endAll takes over all runs and ends them.
func endAll(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	worker := uuid.New()
	for start := time.Now(); ; {
		if _, err := l.Beat(t.Context(), worker, "successor"); err != nil {
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
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the lease of the process that was killed ends by the clock
	}
}

// runUntilKilled is the other process.
func runUntilKilled(path string) {
	go killtest.EndWithParent()
	db, err := openTest(path, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l := ledger.New(db.Ledger(), &ledger.Options{Lease: killedLease})
	var mu sync.Mutex
	ack := func(what string, id uuid.UUID) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(os.Stdout, "%s\t%s\n", what, id)
	}
	errs := make(chan error)
	ctx := context.Background()
	worker := uuid.New()
	if _, err := l.Beat(ctx, worker, "killed"); err != nil {
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
func runOnThread(ctx context.Context, l *ledger.Ledger, worker uuid.UUID, ack func(string, uuid.UUID)) error {
	thread := uuid.New()
	var held *ledger.Run
	for {
		c, err := l.CreateRun(ctx, &ledger.NewRun{Run: &ledger.Run{Thread: thread}, Create: &ledger.Thread{}, Worker: worker})
		switch {
		case errors.Is(err, ledger.ErrFull):
			thread = uuid.New()
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
