package netfault

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Postgres is a [Proxy] for a Postgres server that can break a connection at a chosen
// transaction. It declines TLS, because it reads the clients' messages.
type Postgres struct {
	*Proxy
	decide  atomic.Pointer[func(*Transaction) *Fault]
	severed atomic.Int64 // number of statements
}

// A Transaction lists the statements that a client has executed since its transaction
// started, including those about to be forwarded.
type Transaction struct {
	Statements []Statement
	Commits    bool // the statements about to be forwarded commit it
}

// A Statement is one execution of an SQL statement.
type Statement struct {
	SQL    string
	Params [][]byte // as sent; nil for NULL
}

// A Moment is a point between a client's last statement and its response.
type Moment int

// Moments at which a [Fault] breaks a connection.
const (
	LostResponse  Moment = iota // the server has responded, but the client gets no response
	BeforeServer                // the server gets nothing
	AfterResponse               // the client has received its response
)

// An Outage is the state of the proxy after a fault.
type Outage int

// Outages affect all connections of the proxy, open and new.
const (
	NoOutage  Outage = iota
	Refused          // connections are closed
	Swallowed        // connections stay open, but nothing passes through
	// Severed lets clients connect but breaks their connections at the first statement.
	// An attempt takes milliseconds, so a client that retries a few times soon gives up.
	Severed
)

// leastSevered is the minimum number of statements that a severed outage breaks before it
// ends, so that even a slow client has used up its attempts by then. No outage lasts
// longer than mostSevered times its duration.
const leastSevered, mostSevered = 50, 5

// A Fault breaks one connection at a given moment, followed by an outage.
type Fault struct {
	When   Moment
	Outage Outage
	For    time.Duration // duration of the outage; 0 means until [Proxy.Heal]
	// Code is an SQLSTATE. If set, the server gets nothing, the client gets an error
	// response, and the connection stays open.
	Code string
	// Done, if not nil, is called after the fault and reports whether the server has
	// executed the statements without an error.
	Done func(executed bool)
}

// NewPostgres starts a proxy for the Postgres server at an address. It stops when the
// test ends.
func NewPostgres(t testing.TB, server string) *Postgres {
	t.Helper()
	p := &Postgres{}
	p.Proxy = newProxy(t, server, p.serveConn)
	return p
}

// Decide sets the function to call whenever a client sends statements to execute. They
// are forwarded if fn returns nil. fn may be called concurrently; a nil fn forwards
// everything.
func (p *Postgres) Decide(fn func(*Transaction) *Fault) {
	if fn == nil {
		p.decide.Store(nil)
		return
	}
	p.decide.Store(&fn)
}

// Begin starts an outage that lasts for d, or until [Proxy.Heal] if d is 0.
func (p *Postgres) Begin(o Outage, d time.Duration) { p.begin(o, d, nil) }

// begin starts an outage of all connections except spared.
func (p *Postgres) begin(o Outage, d time.Duration, spared *conn) {
	modes := map[Outage]mode{Refused: refuse, Swallowed: swallow, Severed: sever}
	m, ok := modes[o]
	if !ok {
		return
	}
	change := p.change(m, spared)
	if d == 0 {
		return
	}
	enough, end := p.severed.Load()+leastSevered, time.Now().Add(mostSevered*d)
	p.healAfter(d, change, func() bool { return m != sever || p.severed.Load() >= enough || time.Now().After(end) })
}

// Codes in the first message of a connection.
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

// maxMessage is the maximum size of a message, as in Postgres.
const maxMessage = 1 << 30

// pgConn is a connection whose messages are parsed.
type pgConn struct {
	*conn
	p      *Postgres
	status atomic.Int32 // from the server's last ReadyForQuery
	fault  atomic.Pointer[Fault]
	failed bool // the server has sent an error since its last ReadyForQuery; used only by its reader

	writing sync.Mutex // protects out
	out     *bufio.Writer

	// Used only by the client's reader:
	parsed  map[string]string    // SQL by statement name
	portals map[string]Statement // by name
	batch   []byte               // messages to forward together
	sent    []Statement          // executed by the batch
	before  []Statement          // executed earlier in the transaction
}

// serveConn forwards a connection until it closes.
func (p *Postgres) serveConn(c *conn) {
	defer c.close()
	g := &pgConn{conn: c, p: p, out: bufio.NewWriter(c.client), parsed: map[string]string{}, portals: map[string]Statement{}}
	in := bufio.NewReader(c.client)
	query, err := g.startup(in)
	if err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		defer c.close()
		if query {
			_ = g.fromClient(in) // the client has disconnected, or the connection was cut
			return
		}
		_, _ = io.Copy(&gate{c, c.server}, in)
	})
	both.Go(func() {
		defer c.close()
		_ = g.fromServer(bufio.NewReader(c.server)) // as above
	})
	both.Wait()
}

// startup forwards the first message. query is false if the client does not intend to
// execute statements.
func (g *pgConn) startup(in *bufio.Reader) (query bool, err error) {
	for {
		head := make([]byte, 8)
		if _, err := io.ReadFull(in, head); err != nil {
			return false, err
		}
		size, code := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
		if code == sslRequest || code == gssRequest {
			if _, err := g.client.Write([]byte("N")); err != nil {
				return false, err
			}
			continue
		}
		if size < 8 || size > 1<<16 {
			return false, fmt.Errorf("invalid startup message of %d bytes", size)
		}
		rest := make([]byte, size-8)
		if _, err := io.ReadFull(in, rest); err != nil {
			return false, err
		}
		_, err := (&gate{g.conn, g.server}).Write(slices.Concat(head, rest))
		return code != cancelRequest, err
	}
}

// readMessage reads a message, including its type and length.
func readMessage(in *bufio.Reader) (raw []byte, err error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size < 4 || size > maxMessage {
		return nil, fmt.Errorf("invalid message %q of %d bytes", head[0], size)
	}
	raw = make([]byte, 1+size)
	copy(raw, head)
	_, err = io.ReadFull(in, raw[5:])
	return raw, err
}

// fromClient forwards the client's messages in batches that end with a Sync or a simple
// query.
func (g *pgConn) fromClient(in *bufio.Reader) error {
	for {
		m, err := readMessage(in)
		if err != nil {
			return err
		}
		g.batch = append(g.batch, m...)
		if g.swallowed.Load() {
			g.batch = nil
			continue
		}
		switch m[0] {
		case 'P', 'B', 'E', 'D', 'C':
			if err := g.follow(m); err != nil {
				return err
			}
			continue
		case 'Q':
			sql, _, err := text(m[5:])
			if err != nil {
				return err
			}
			g.sent = append(g.sent, Statement{SQL: sql})
			fallthrough
		case 'S':
			err = g.end()
		default:
			err = g.flush()
		}
		if err != nil {
			return err
		}
	}
}

// flush forwards the batch.
func (g *pgConn) flush() error {
	_, err := g.server.Write(g.batch)
	g.batch = nil
	return err
}

// follow records prepared statements, their parameters, and their executions.
func (g *pgConn) follow(m []byte) error {
	name, rest, err := text(m[5:])
	if err != nil {
		return err
	}
	switch m[0] {
	case 'P':
		sql, _, err := text(rest)
		g.parsed[name] = sql
		return err
	case 'B':
		s, err := bound(g.parsed, rest)
		g.portals[name] = s
		return err
	case 'E':
		g.sent = append(g.sent, g.portals[name])
	}
	return nil
}

var errShort = errors.New("message too short")

// text reads a null-terminated string.
func text(b []byte) (s string, rest []byte, err error) {
	s, after, ok := strings.Cut(string(b), "\x00")
	if !ok {
		return "", nil, errShort
	}
	return s, b[len(b)-len(after):], nil
}

// bound reads the statement and parameters of a Bind message, after the portal's name.
func bound(parsed map[string]string, b []byte) (s Statement, err error) {
	name, b, err := text(b)
	if err != nil {
		return s, err
	}
	number := func(size int) int {
		if len(b) < size {
			err = errShort
			return 0
		}
		n := int(int16(binary.BigEndian.Uint16(b)))
		if size == 4 {
			n = int(int32(binary.BigEndian.Uint32(b)))
		}
		b = b[size:]
		return n
	}
	s.SQL = parsed[name]
	for range number(2) { // formats
		number(2)
	}
	for range number(2) {
		n := number(4)
		if err != nil || n > len(b) {
			return s, errShort
		}
		if n < 0 {
			s.Params = append(s.Params, nil)
			continue
		}
		s.Params = append(s.Params, append([]byte{}, b[:n]...))
		b = b[n:]
	}
	return s, err
}

// end forwards a batch or breaks the connection.
func (g *pgConn) end() error {
	if len(g.sent) == 0 { // nothing to execute
		return g.flush()
	}
	if g.p.current() == sever {
		g.p.severed.Add(1)
		return net.ErrClosed
	}
	tx := &Transaction{Statements: slices.Concat(g.before, g.sent)}
	open, commits := after(g.status.Load() != 'I', g.sent)
	tx.Commits = commits
	g.sent, g.before = nil, nil
	if open {
		g.before = tx.Statements
	}
	var f *Fault
	if decide := g.p.decide.Load(); decide != nil {
		f = (*decide)(tx)
	}
	if f == nil {
		return g.flush()
	}
	switch {
	case f.Code != "":
		defer f.done(false)
		g.batch = nil
		return g.refuse(f.Code)
	case f.When == BeforeServer:
		defer f.done(false)
		g.p.begin(f.Outage, f.For, nil)
		return net.ErrClosed
	default:
		g.fault.Store(f)
		return g.flush()
	}
}

// after reports whether a transaction is open after the statements, and whether they
// commit anything.
func after(open bool, statements []Statement) (stillOpen, commits bool) {
	for _, s := range statements {
		switch verb, _, _ := strings.Cut(strings.ToUpper(strings.TrimLeft(s.SQL, " \t\n(")), " "); strings.TrimRight(verb, "; ") {
		case "BEGIN", "START":
			open = true
		case "COMMIT", "END":
			open, commits = false, true
		case "ROLLBACK", "ABORT":
			open, commits = false, false
		default:
			commits = commits || !open
		}
	}
	return open, commits
}

func (f *Fault) done(executed bool) {
	if f.Done != nil {
		f.Done(executed)
	}
}

// refuse responds to a batch with an error.
func (g *pgConn) refuse(code string) error {
	status := byte('I')
	if g.status.Load() != 'I' {
		status = 'E'
	}
	fields := "SERROR\x00VERROR\x00C" + code + "\x00Minjected by the test's proxy\x00\x00"
	raw := append([]byte{'E'}, binary.BigEndian.AppendUint32(nil, uint32(4+len(fields)))...)
	raw = append(append(raw, fields...), 'Z', 0, 0, 0, 5, status)
	g.writing.Lock()
	defer g.writing.Unlock()
	if _, err := g.out.Write(raw); err != nil {
		return err
	}
	return g.out.Flush()
}

// fromServer forwards the server's messages, unless a fault withholds them.
func (g *pgConn) fromServer(in *bufio.Reader) error {
	for {
		m, err := readMessage(in)
		if err != nil {
			return err
		}
		f := g.fault.Load()
		last := m[0] == 'Z'
		switch {
		case m[0] == 'E':
			g.failed = true
		case last && len(m) == 6:
			g.status.Store(int32(m[5]))
		}
		if last && f != nil {
			g.p.begin(f.Outage, f.For, g.conn) // before the client can notice
		}
		if f == nil || f.When == AfterResponse {
			if err := g.toClient(m, in.Buffered() == 0 || last); err != nil {
				return err
			}
		}
		if !last {
			continue
		}
		if f != nil {
			g.close()
			f.done(!g.failed)
			return nil
		}
		g.failed = false
	}
}

func (g *pgConn) toClient(m []byte, flush bool) error {
	if g.swallowed.Load() {
		return nil
	}
	g.writing.Lock()
	defer g.writing.Unlock()
	if _, err := g.out.Write(m); err != nil || !flush {
		return err
	}
	return g.out.Flush()
}
