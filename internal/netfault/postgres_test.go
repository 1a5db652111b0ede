package netfault

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/treadle-go/treadle/internal/pgtest"
)

// fixture is a table, a direct connection, and a proxy.
type fixture struct {
	t      *testing.T
	proxy  *Postgres
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
	f := &fixture{t: t, proxy: NewPostgres(t, u.Host)}
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
func (tx *Transaction) inserts(name string) bool {
	return slices.ContainsFunc(tx.Statements, func(s Statement) bool {
		return strings.HasPrefix(s.SQL, "INSERT") && len(s.Params) == 1 && string(s.Params[0]) == name
	})
}

// once returns a decision that breaks the commit of a transaction that inserts a name.
func once(name string, fault *Fault) func(*Transaction) *Fault {
	var only sync.Once
	return func(tx *Transaction) (f *Fault) {
		if tx.Commits && tx.inserts(name) {
			only.Do(func() { f = fault })
		}
		return f
	}
}

func TestPostgresBreaksCommit(t *testing.T) {
	for name, c := range map[string]struct {
		fault          Fault
		fails, commits bool
	}{
		"lost response":  {Fault{When: LostResponse}, true, true},
		"before server":  {Fault{When: BeforeServer}, true, false},
		"after response": {Fault{When: AfterResponse}, false, true},
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
	f.proxy.Decide(once("a", &Fault{When: LostResponse}))
	if _, err := f.connect(f.url).Exec(t.Context(), "INSERT INTO item VALUES ($1)", "a"); err == nil {
		t.Error("the response was delivered")
	}
	if got := f.items(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("items %v", got)
	}
}

func TestPostgresInjectsError(t *testing.T) {
	f := newFixture(t)
	f.proxy.Decide(func(tx *Transaction) *Fault {
		if tx.Commits && tx.inserts("a") {
			return &Fault{Code: "53100"}
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
	for name, o := range map[string]Outage{"refused": Refused, "swallowed": Swallowed, "severed": Severed} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			near, other := f.connect(f.url), f.connect(f.url)
			f.proxy.Decide(once("a", &Fault{When: LostResponse, Outage: o}))
			if err := insert(t.Context(), near, "a", "b"); err == nil {
				t.Fatal("the response was delivered")
			}
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := other.Ping(short); err == nil {
				t.Error("another connection survived")
			}
			if o != Swallowed { // a swallowed connection attempt never ends
				c, err := pgx.Connect(t.Context(), f.url)
				if (err == nil) != (o == Severed) {
					t.Errorf("connect: %v", err)
				}
				if err == nil {
					if err := c.Ping(t.Context()); err == nil {
						t.Error("a statement was executed")
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
	f.proxy.Begin(Refused, time.Millisecond)
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

func TestCommitsFollowsTransactionBlocks(t *testing.T) {
	for _, c := range []struct {
		open               bool
		sql                []string
		stillOpen, commits bool
	}{
		{false, []string{"SELECT 1"}, false, true},
		{false, []string{"BEGIN ISOLATION LEVEL READ COMMITTED", "SELECT 1"}, true, false},
		{true, []string{"SELECT 1"}, true, false},
		{true, []string{"SELECT 1", "COMMIT"}, false, true},
		{true, []string{"commit;"}, false, true},
		{true, []string{"ROLLBACK"}, false, false},
		{false, []string{"begin", "INSERT", "commit"}, false, true},
	} {
		var all []Statement
		for _, sql := range c.sql {
			all = append(all, Statement{SQL: sql})
		}
		if open, commits := after(c.open, all); open != c.stillOpen || commits != c.commits {
			t.Errorf("%v after open=%t: open=%t commits=%t", c.sql, c.open, open, commits)
		}
	}
}

// FuzzPostgresMessages feeds arbitrary bytes to the reader of client messages.
func FuzzPostgresMessages(f *testing.F) {
	message := func(kind byte, body string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body))), body...)
	}
	f.Add(slices.Concat(message('P', "s\x00SELECT $1\x00\x00\x00"), message('B', "\x00s\x00\x00\x00\x00\x01\x00\x00\x00\x01a\x00\x00"), message('E', "\x00\x00\x00\x00\x00")))
	f.Add(message('B', "\x00s\x00\x00\x01"))
	f.Add(message('Q', "COMMIT"))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		g := &pgConn{parsed: map[string]string{}, portals: map[string]Statement{}}
		in := bufio.NewReader(bytes.NewReader(raw))
		for {
			if len(raw) > 1<<16 {
				return
			}
			head, _ := in.Peek(5)
			if len(head) == 5 && binary.BigEndian.Uint32(head[1:]) > uint32(len(raw))+4 {
				return // a long message that does not come
			}
			m, err := readMessage(in)
			if err != nil || g.follow(m) != nil {
				return
			}
		}
	})
}
