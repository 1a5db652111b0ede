package ledger

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	guuid "github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
)

// tripCounter is between a DB and its server, and counts how often the DB says something
// after an answer.
type tripCounter struct {
	trips    atomic.Int64
	answered atomic.Bool
}

// Write sees what the DB says.
func (c *tripCounter) Write(b []byte) (int, error) {
	if c.answered.Swap(false) {
		c.trips.Add(1)
	}
	return len(b), nil
}

// countTrips returns the URL of a server whose round trips are counted.
func countTrips(t *testing.T, server string) (string, *tripCounter) {
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counter, host := &tripCounter{}, u.Host
	var wg sync.WaitGroup
	serve := func(c net.Conn) {
		defer c.Close()
		s, err := new(net.Dialer).DialContext(t.Context(), "tcp", host)
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		wg.Go(func() {
			_, _ = io.Copy(io.MultiWriter(counter, s), c) // ends when either side does
			_ = s.Close()
		})
		b := make([]byte, 64<<10)
		for {
			n, err := s.Read(b)
			if err != nil {
				return
			}
			counter.answered.Store(true)
			if _, err := c.Write(b[:n]); err != nil {
				return
			}
		}
	}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
	u.Host = l.Addr().String()
	return u.String(), counter
}

// The numbers are those that the documentation of DB.Ledger has.
func TestLedgerRoundTrips(t *testing.T) {
	for mode, o := range databasetest.Modes() {
		t.Run(mode, func(t *testing.T) {
			via, counter := countTrips(t, databasetest.Quick(t))
			o.MaxConns = 1
			db := fresh(t, via, o)
			l := ledger.New(db.Ledger(), &ledger.Options{Lease: time.Minute})
			worker := databasetest.Beat(t, l)
			thread := guuid.New()
			var measured bool
			trips := func(what string, want int64, do func() error) {
				t.Helper()
				before := counter.trips.Load()
				if err := do(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if n := counter.trips.Load() - before; measured && n != want {
					t.Errorf("%s takes %d round trips, want %d", what, n, want)
				}
			}
			var run, next *ledger.Run
			create := func(n *ledger.NewRun) func() error {
				return func() error {
					n.Run, n.Create = &ledger.Run{Thread: thread}, &ledger.Thread{Metadata: ledger.Object{"a": "b"}}
					c, err := l.CreateRun(t.Context(), n)
					if err == nil && c.Claimed {
						run = c.Run
					}
					return err
				}
			}
			finish := func(claim bool) func() error {
				return func() (err error) {
					next, err = l.Finish(t.Context(), &ledger.End{Run: run, Worker: worker, Status: ledger.Success, Claim: claim})
					return err
				}
			}
			claim := func(n int) func() error {
				return func() error {
					runs, err := l.Claim(t.Context(), worker, nil, n)
					if len(runs) > 0 {
						run = runs[0]
					}
					return err
				}
			}
			waiting := create(&ledger.NewRun{})
			for _, measured = range []bool{false, true} { // first statements are prepared
				trips("create a run that starts", 2, create(&ledger.NewRun{Worker: worker}))
				trips("finish the only run", 2, finish(true))
				trips("create", 2, create(&ledger.NewRun{Worker: worker}))
				trips("create a run that waits", 2, waiting)
				trips("finish and claim the last run", 3, finish(true))
				run = next
				trips("create a run that waits", 2, waiting)
				trips("create a run that waits", 2, waiting)
				trips("finish and claim", 4, finish(true))
				run = next
				trips("finish and leave", 2, finish(false))
				trips("claim the last run", 6, claim(1))
				trips("finish", 2, finish(false))
				trips("claim without a run", 4, claim(1))
				trips("create a run that waits", 2, waiting)
				trips("create a run that waits", 2, waiting)
				trips("claim a run", 7, claim(1))
				trips("finish and claim the last run", 3, finish(true))
				run = next
				trips("finish", 2, finish(false))
				trips("beat", 3, func() error {
					_, err := l.Beat(t.Context(), worker, "test")
					return err
				})
			}
		})
	}
}
