package pgtesttest

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/treadle-go/treadle/internal/test/netfault"
	"github.com/treadle-go/treadle/internal/test/pgtest"
)

// fixture is a table, a direct connection, and a proxy.
type fixture struct {
	t      *testing.T
	proxy  *netfault.Postgres
	direct *pgx.Conn
	url    string // through the proxy
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	address := pgtest.URL(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, proxy: netfault.NewPostgres(t, u.Host)}
	f.direct = f.connect(address)
	if _, err := f.direct.Exec(t.Context(), "CREATE TABLE item (name text)"); err != nil {
		t.Fatal(err)
	}
	u.Host = f.proxy.Addr()
	f.url = u.String()
	return f
}

func (f *fixture) connect(address string) *pgx.Conn {
	f.t.Helper()
	c, err := pgx.Connect(f.t.Context(), address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close(context.Background()) }) // may be cut
	return c
}

// items returns the committed names.
func (f *fixture) items() []string {
	f.t.Helper()
	rows, err := f.direct.Query(f.t.Context(), "SELECT name FROM item ORDER BY name")
	if err != nil {
		f.t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.t.Fatal(err)
	}
	return names
}

// insert inserts two names in one transaction, whose last round trip has the second
// INSERT and the COMMIT.
func insert(ctx context.Context, c *pgx.Conn, a, b string) error {
	var begin, end pgx.Batch
	begin.Queue("BEGIN")
	begin.Queue("INSERT INTO item VALUES ($1)", a)
	if err := c.SendBatch(ctx, &begin).Close(); err != nil {
		return err
	}
	end.Queue("INSERT INTO item VALUES ($1)", b)
	end.Queue("COMMIT")
	return c.SendBatch(ctx, &end).Close()
}

// inserts reports whether a transaction inserts a name.
func inserts(tx *netfault.Transaction, name string) bool {
	return slices.ContainsFunc(tx.Statements, func(s netfault.Statement) bool {
		return strings.HasPrefix(s.SQL, "INSERT") && len(s.Params) == 1 && string(s.Params[0]) == name
	})
}

// once returns a decision that breaks the commit of a transaction that inserts a name.
func once(name string, fault *netfault.Fault) func(*netfault.Transaction) *netfault.Fault {
	var only sync.Once
	return func(tx *netfault.Transaction) (f *netfault.Fault) {
		if tx.Commits && inserts(tx, name) {
			only.Do(func() { f = fault })
		}
		return f
	}
}

func TestPostgresBreaksCommit(t *testing.T) {
	for name, c := range map[string]struct {
		fault          netfault.Fault
		fails, commits bool
	}{
		"lost response":  {netfault.Fault{When: netfault.LostResponse}, true, true},
		"before server":  {netfault.Fault{When: netfault.BeforeServer}, true, false},
		"after response": {netfault.Fault{When: netfault.AfterResponse}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			executed := make(chan bool, 1)
			c.fault.Done = func(ok bool) { executed <- ok }
			f.proxy.Decide(once("a", &c.fault))
			near := f.connect(f.url)
			if err := insert(t.Context(), near, "x", "y"); err != nil {
				t.Fatal(err)
			}
			if err := insert(t.Context(), near, "a", "b"); (err != nil) != c.fails {
				t.Errorf("commit: %v", err)
			}
			if ok := <-executed; ok != c.commits {
				t.Errorf("executed %t, want %t", ok, c.commits)
			}
			want := []string{"x", "y"}
			if c.commits {
				want = []string{"a", "b", "x", "y"}
			}
			if got := f.items(); !slices.Equal(got, want) {
				t.Errorf("items %v, want %v", got, want)
			}
			if err := near.Ping(t.Context()); err == nil {
				t.Error("connection survived")
			}
			if err := f.connect(f.url).Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A statement outside a transaction block commits by itself.
func TestPostgresBreaksAutocommit(t *testing.T) {
	f := newFixture(t)
	f.proxy.Decide(once("a", &netfault.Fault{When: netfault.LostResponse}))
	if _, err := f.connect(f.url).Exec(t.Context(), "INSERT INTO item VALUES ($1)", "a"); err == nil {
		t.Error("response was delivered")
	}
	if got := f.items(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("items %v", got)
	}
}

func TestPostgresInjectsError(t *testing.T) {
	f := newFixture(t)
	f.proxy.Decide(func(tx *netfault.Transaction) *netfault.Fault {
		if tx.Commits && inserts(tx, "a") {
			return &netfault.Fault{Code: "53100"}
		}
		return nil
	})
	near := f.connect(f.url)
	for range 2 {
		err := insert(t.Context(), near, "a", "b")
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "53100" {
			t.Fatalf("error %v, want SQLSTATE 53100", err)
		}
		if near.PgConn().TxStatus() != 'E' {
			t.Errorf("transaction status %c, want E", near.PgConn().TxStatus())
		}
		if _, err := near.Exec(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
	if err := insert(t.Context(), near, "x", "y"); err != nil {
		t.Fatal(err)
	}
	if got := f.items(); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("items %v", got)
	}
}

func TestPostgresOutageBreaksStatements(t *testing.T) {
	for name, o := range map[string]netfault.Outage{"refused": netfault.Refused, "swallowed": netfault.Swallowed, "severed": netfault.Severed} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			near, other := f.connect(f.url), f.connect(f.url)
			f.proxy.Decide(once("a", &netfault.Fault{When: netfault.LostResponse, Outage: o}))
			if err := insert(t.Context(), near, "a", "b"); err == nil {
				t.Fatal("response was delivered")
			}
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := other.Ping(short); err == nil {
				t.Error("another connection survived")
			}
			if o != netfault.Swallowed { // a swallowed connection attempt never ends
				c, err := pgx.Connect(t.Context(), f.url)
				if (err == nil) != (o == netfault.Severed) {
					t.Errorf("connect: %v", err)
				}
				if err == nil {
					if err := c.Ping(t.Context()); err == nil {
						t.Error("statement was executed")
					}
				}
			}
			f.proxy.Heal()
			if err := f.connect(f.url).Ping(t.Context()); err != nil {
				t.Error(err)
			}
			if got := f.items(); !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("items %v", got)
			}
		})
	}
}

func TestPostgresOutageEnds(t *testing.T) {
	f := newFixture(t)
	f.proxy.Begin(netfault.Refused, time.Millisecond)
	for {
		c, err := pgx.Connect(t.Context(), f.url)
		if err == nil {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			return
		}
	}
}
