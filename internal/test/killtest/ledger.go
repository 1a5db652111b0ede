package killtest

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

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// CheckLedger kills a number of processes that call [UseLedger] on the database of l; the
// environment variable env starts one. After kill -9 at any moment, every accepted run exists and can be
// finished, once, and every finished run is finished.
func CheckLedger(t *testing.T, l *ledger.Ledger, env string, kills int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), 3))
	for round := range kills {
		accepted, finished := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
		for _, line := range Lines(t, env, 1+rnd.IntN(200)) {
			what, id, _ := strings.Cut(line, "\t")
			switch what {
			case "accepted":
				accepted[uuid.MustParse(id)] = true
			case "finished":
				finished[uuid.MustParse(id)] = true
			}
		}
		for id := range accepted {
			r, err := l.Run(t.Context(), uuid.Nil, id, nil)
			if err != nil {
				t.Errorf("after kill %d: accepted run %s: %v", round, id, err)
			} else if finished[id] && r.Status != ledger.Success {
				t.Errorf("after kill %d: status of finished run %s is %s", round, id, r.Status)
			}
		}
		finishAll(t, l)
		if t.Failed() {
			return
		}
	}
	if _, n, err := l.Threads(t.Context(), &ledger.ThreadQuery{Status: ledger.Busy}); n != 0 || err != nil {
		t.Errorf("finally, %d threads are busy, %v", n, err)
	}
}

// finishAll takes over all runs and finishes them.
func finishAll(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	worker := uuid.New()
	for start := time.Now(); ; {
		if _, err := l.Beat(t.Context(), worker, "successor"); err != nil {
			t.Fatal(err)
		}
		if _, err := l.EndLeases(t.Context(), worker); err != nil {
			t.Fatal(err)
		}
		runs, failed, err := l.TakeOver(t.Context(), worker, nil, 1000)
		if err != nil || len(failed) > 0 {
			t.Fatalf("take over runs: failed runs %v, %v", failed, err)
		}
		claimed, err := l.Claim(t.Context(), worker, nil, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range append(runs, claimed...) {
			if _, err := l.Finish(t.Context(), &ledger.End{Run: r, Worker: worker, Status: ledger.Success}); err != nil {
				t.Errorf("finish run %s: %v", r.ID, err)
			}
		}
		open := 0
		for _, err := range l.OpenRuns(t.Context(), nil) {
			open++
			if err != nil {
				t.Fatal(err)
			}
		}
		if open == 0 {
			return
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("%d unfinished runs after a minute", open)
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the lease of the killed process expires, or the server notices its death, by the clock
	}
}

// UseLedger creates and finishes runs, and acknowledges them, until this process is killed. An
// error ends the process.
func UseLedger(l *ledger.Ledger) {
	go EndWithParent()
	fmt.Fprintln(os.Stderr, useLedger(l))
	os.Exit(1)
}

func useLedger(l *ledger.Ledger) error {
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
		return err
	}
	if err := l.Attend(ctx, worker); err != nil {
		return err
	}
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			if _, err := l.Beat(ctx, worker, "killed"); err != nil {
				errs <- err
			}
		}
	}()
	for range 3 {
		go func() { errs <- useThread(ctx, l, worker, ack) }()
	}
	return <-errs
}

// useThread creates two runs at a time on a thread and finishes one.
func useThread(ctx context.Context, l *ledger.Ledger, worker uuid.UUID, ack func(string, uuid.UUID)) error {
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
			continue // the lease had expired for a moment
		}
		next, err := l.Finish(ctx, &ledger.End{Run: held, Worker: worker, Status: ledger.Success, Claim: true})
		if err != nil {
			return err
		}
		ack("finished", held.ID)
		held = next
	}
}
