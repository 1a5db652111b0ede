package postgres

import (
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/bus/bustest"
	"github.com/treadle-go/treadle/internal/test/netfault"
)

// openBus returns a bus of a DB that is closed with the test.
func openBus(t *testing.T, db *DB) bus.Bus {
	t.Helper()
	b := db.Bus()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close the bus: %v", err)
		}
	})
	return b
}

func TestBus(t *testing.T) {
	for name, m := range suiteModes() {
		t.Run(name, func(t *testing.T) {
			server := quick(t)
			db := m.fresh(t, server)
			m.Schema = db.conn.Schema
			other := m.open(t, server)
			bustest.Run(t, func(t *testing.T, n int) []bus.Bus {
				all := []bus.Bus{openBus(t, db)}
				for range n - 1 {
					all = append(all, openBus(t, other))
				}
				return all
			})
		})
	}
}

func TestSchemasHaveSeparateBuses(t *testing.T) {
	server := quick(t)
	a, b := openBus(t, fresh(t, server, Options{})), openBus(t, fresh(t, server, Options{}))
	got := make(chan string, 10)
	stop, err := a.Listen("topic", func(payload []byte) { got <- string(payload) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for from, payload := range map[bus.Bus]string{b: "foreign", a: "own"} {
		if err := from.Signal(t.Context(), "topic", []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	if payload := <-got; payload != "own" || len(got) > 0 {
		t.Errorf("got %q", payload)
	}
}

// Many callers have the same to say at the same moment. Each is heard after its call, and few notifications are sent.
func TestIdenticalSignalsAreCoalesced(t *testing.T) {
	server := quick(t)
	b := openBus(t, fresh(t, server, Options{}))
	var heard atomic.Int64
	last := make(chan struct{})
	stop, err := b.Listen("wake", func(payload []byte) {
		heard.Add(1)
		if string(payload) == "last" {
			close(last)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	const callers = 500
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for range callers {
		wg.Go(func() {
			<-begin
			if err := b.Signal(t.Context(), "wake", []byte("same")); err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	wg.Wait()
	if err := b.Signal(t.Context(), "wake", []byte("last")); err != nil {
		t.Fatal(err)
	}
	<-last
	if n := heard.Load(); n < 2 || n > callers/10 {
		t.Errorf("%d identical signals made %d notifications", callers, n-1)
	}
}

func TestSignalRejectsLongPayload(t *testing.T) {
	b := openBus(t, fresh(t, quick(t), Options{}))
	err := b.Signal(t.Context(), "topic", make([]byte, 6000))
	if err == nil || !strings.Contains(err.Error(), "more than the 7999 that Postgres allows") {
		t.Errorf("the error is %v", err)
	}
	if err := b.Signal(t.Context(), "topic", make([]byte, 5900)); err != nil {
		t.Error(err)
	}
}

func TestBusClosesWithDB(t *testing.T) {
	db := fresh(t, quick(t), Options{})
	b := db.Bus()
	if _, err := b.Listen("topic", func([]byte) {}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Signal(t.Context(), "topic", nil); !errors.Is(err, bus.ErrClosed) || !errors.Is(err, ErrClosed) {
		t.Errorf("Signal: %v", err)
	}
	// Its goroutines end: see TestMain.
}

func TestBusIgnoresOtherNotifications(t *testing.T) {
	server := quick(t)
	db := fresh(t, server, Options{})
	b := openBus(t, db)
	got := make(chan string, 10)
	stop, err := b.Listen("topic", func(payload []byte) { got <- string(payload) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	c, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "no dot", "!.!", "dG9waWM.!"} {
		if _, err := c.Exec(t.Context(), "SELECT pg_notify($1, $2)", b.(*notifyBus).channel, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := b.Signal(t.Context(), "topic", []byte("good")); err != nil {
		t.Fatal(err)
	}
	if payload := <-got; payload != "good" {
		t.Errorf("got %q", payload)
	}
}

func TestBusReconnects(t *testing.T) {
	server := quick(t)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p := netfault.New(t, u.Host)
	u.Host = p.Addr()
	far := fresh(t, server, Options{})
	near := open(t, u.String(), &Options{Schema: far.conn.Schema})
	a, b := openBus(t, near), openBus(t, far)
	bustest.Outage(t, a, b, p.Cut, p.Heal)
	bustest.Outage(t, a, b, p.Swallow, p.Heal)
	// The server ends all connections, as it does when it is restarted.
	c, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Outage(t, a, b, func() {
		if _, err := c.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"); err != nil {
			t.Error(err)
		}
	}, func() {})
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
