package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/reduce"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

// job is the state of the graphs that load a server.
type job struct {
	N      int                 `json:"n"`
	Size   int                 `json:"size"`
	Chunks reduce.List[string] `json:"chunks"`
	Last   string              `json:"last"`
}

// pad returns n bytes of text that differ with i.
func pad(i, n int) string { return strings.Repeat(string(rune('a'+i%26)), n) }

// opened blocks until ch is closed or ctx ends.
func opened(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// loadGraphs returns the graphs "burst", which reports n events as soon as gate is closed;
// "grow", whose state gets n chunks one after another; "replace", which replaces one chunk
// n times; "hang", which ends only when it is canceled; and "short", which ends quickly.
func loadGraphs(gate <-chan struct{}) []treadle.AnyGraph {
	compile := func(b *treadle.Builder[job]) treadle.AnyGraph {
		return treadle.Must(b.Compile(&treadle.Options{Check: new(false)}))
	} // the check makes JSON of each input
	burst := treadle.New[job]("burst")
	treadle.AddNode(burst, "burst", func(ctx context.Context, s job) (treadle.Update, error) {
		if err := opened(ctx, gate); err != nil {
			return nil, err
		}
		for i := range s.N {
			treadle.Emit(ctx, map[string]any{"i": i, "pad": pad(i, s.Size)})
		}
		return treadle.Update{"last": "done"}, nil
	})
	burst.Sequence(treadle.Start, "burst", treadle.End)
	repeat := func(name string, step func(s job, i int) treadle.Update) treadle.AnyGraph {
		b := treadle.New[job](name)
		treadle.AddNode(b, "step", func(_ context.Context, s job) (treadle.Update, error) {
			u := step(s, s.N)
			u["n"] = s.N - 1
			return u, nil
		})
		b.Edge(treadle.Start, "step")
		treadle.AddBranch(b, "step", func(_ context.Context, s job) (treadle.Goto, error) {
			if s.N > 0 {
				return treadle.To("step"), nil
			}
			return treadle.To(treadle.End), nil
		}, "step", treadle.End)
		return compile(b)
	}
	hang := treadle.New[job]("hang")
	treadle.AddNode(hang, "first", func(context.Context, job) (treadle.Update, error) { return treadle.Update{"last": "first"}, nil })
	treadle.AddNode(hang, "hang", func(ctx context.Context, _ job) (treadle.Update, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	hang.Sequence(treadle.Start, "first", "hang", treadle.End)
	short := treadle.New[job]("short")
	treadle.AddNode(short, "first", func(context.Context, job) (treadle.Update, error) { return treadle.Update{"last": "first"}, nil })
	treadle.AddNode(short, "second", func(ctx context.Context, _ job) (treadle.Update, error) {
		late := time.NewTimer(5 * time.Millisecond)
		defer late.Stop()
		select {
		case <-late.C:
		case <-ctx.Done():
		}
		return treadle.Update{"last": "second"}, context.Cause(ctx)
	})
	short.Sequence(treadle.Start, "first", "second", treadle.End)
	return []treadle.AnyGraph{compile(burst), compile(hang), compile(short),
		repeat("grow", func(s job, i int) treadle.Update {
			return treadle.Update{"chunks": reduce.List[string]{pad(i, s.Size)}}
		}),
		repeat("replace", func(s job, i int) treadle.Update { return treadle.Update{"last": pad(i, s.Size)} }),
	}
}

// output collects the text that a program has written so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// loaded is a server on a file, with measurements of its process.
type loaded struct {
	*client
	t          *testing.T
	goroutines int
	log        *output
	gate       func()       // opens the gate of burst
	wide       *atomic.Bool // connections have the system's default buffers, so large responses are read in one go
}

// load starts a server on a file.
func load(t *testing.T, o server.Options) *loaded {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "treadle.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	l := &loaded{t: t, log: &output{}, wide: new(atomic.Bool), gate: sync.OnceFunc(func() { close(gate) })}
	o.Logger = slog.New(slog.NewTextHandler(l.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	srv, err := server.New(db, loadGraphs(gate), &o)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewUnstartedServer(srv)
	hs.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if !l.wide.Load() {
			_ = c.(*net.TCPConn).SetWriteBuffer(32 << 10) // otherwise the system holds megabytes for a client that does not read
		}
		return ctx
	}
	hs.Start()
	t.Cleanup(func() {
		l.gate()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		http.DefaultClient.CloseIdleConnections()
		if err := errors.Join(srv.Drain(ctx), db.Close()); err != nil {
			t.Errorf("the server ends with %v", err)
		}
		hs.Close()
		if text := l.log.String(); text != "" {
			t.Errorf("the server has complained: %.2000s", text)
		}
	})
	l.client = &client{t: t, base: hs.URL, head: http.Header{}}
	l.ok("POST", "/runs/wait", `{"assistant_id":"short","input":{}}`, nil)
	l.ok("GET", "/ok?check_db=1", "", nil)
	http.DefaultClient.CloseIdleConnections()
	// Goroutines of the start and of the first requests end by and by.
	for last := -1; last != runtime.NumGoroutine(); time.Sleep(50 * time.Millisecond) { //nolint:forbidigo // a server over HTTP is waited for
		last = runtime.NumGoroutine()
	}
	l.goroutines = runtime.NumGoroutine()
	return l
}

// sub runs a part of a test, which has a goroutine.
func (l *loaded) sub(name string, fn func(t *testing.T, l *loaded)) {
	l.t.Run(name, func(t *testing.T) {
		c, part := *l.client, *l
		c.t, part.t, part.client = t, t, &c
		part.goroutines++
		fn(t, &part)
	})
}

// eventually waits until a server has done something.
func (l *loaded) eventually(what string, within time.Duration, done func() bool) {
	l.t.Helper()
	// The machine may have much other work.
	within *= 6
	for deadline := time.Now().Add(within); !done(); time.Sleep(2 * time.Millisecond) { //nolint:forbidigo // a server over HTTP is waited for
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			l.t.Fatalf("after %s it is not so that %s; goroutines:\n%.6000s", within, what, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// settled waits until there are no more goroutines than at the start.
func (l *loaded) settled(within time.Duration) {
	l.t.Helper()
	l.eventually(fmt.Sprintf("%d goroutines are left", l.goroutines), within, func() bool {
		http.DefaultClient.CloseIdleConnections()
		return runtime.NumGoroutine() <= l.goroutines
	})
}

// heap returns the number of heap bytes in use.
func heap() int {
	runtime.GC()
	runtime.GC() // the first one leaves what pools have
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// peak runs fn and returns the maximum heap size during the call, including garbage.
func peak(fn func()) int {
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		most := 0
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(sample)
			most = max(most, int(sample[0].Value.Uint64()))
			select {
			case <-tick.C:
			case <-stop:
				done <- most
				return
			}
		}
	}()
	fn()
	close(stop)
	return <-done
}

const mib = 1 << 20

// raw opens a connection whose client has a small receive buffer, and sends text on it.
func (l *loaded) raw(text string) *net.TCPConn {
	l.t.Helper()
	d := &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	conn, err := d.DialContext(l.t.Context(), "tcp", strings.TrimPrefix(l.base, "http://"))
	if err == nil {
		_, err = io.WriteString(conn, text)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

// request returns a request in wire format.
func request(method, path, body string, headers ...string) string {
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path)
	for _, h := range headers {
		text += h + "\r\n"
	}
	if method != http.MethodGet {
		text += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	return text + "\r\n" + body
}

// upgrade returns the head of a WebSocket request.
func upgrade(thread string) string {
	return request("GET", "/threads/"+thread+"/stream/events", "", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
}

// wsText returns a message of a WebSocket client, with a mask of zeros.
func wsText(text string) string {
	if len(text) > 125 {
		return string([]byte{0x81, 0x80 | 126, byte(len(text) >> 8), byte(len(text)), 0, 0, 0, 0}) + text
	}
	return string([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}) + text
}

// newRun creates a run on a thread.
func (l *loaded) newRun(thread, body string) (id string) {
	l.t.Helper()
	var run struct {
		ID string `json:"run_id"`
	}
	l.ok("POST", "/threads/"+thread+"/runs", body, &run)
	return run.ID
}

// status returns the status of a thread's only run, or "" if it has none.
func (l *loaded) status(thread string) string {
	l.t.Helper()
	code, _, raw := l.do("GET", "/threads/"+thread+"/runs", "")
	if code == http.StatusNotFound {
		return ""
	}
	var list []struct{ Status string }
	if err := json.Unmarshal(raw, &list); err != nil || len(list) > 1 {
		l.t.Fatalf("the runs of thread %s: %d %s", thread, code, raw)
	}
	if len(list) == 0 {
		return ""
	}
	return list[0].Status
}

func TestIdleReadersAreDisconnected(t *testing.T) {
	const patience = time.Second
	l := load(t, *server.Impatient(server.Options{}, patience))
	thread := uuid.NewString()
	before := heap()
	events := 24000   // 24 MiB, which is more than the feed holds
	if race.Enabled { // all of them without it
		events = 2400
	}
	body := `{"assistant_id":"burst","input":{"n":` + strconv.Itoa(events) + `,"size":1024},"stream_mode":["custom"],"on_disconnect":"continue","if_not_exists":"create"}`
	open := func(clients int) func() bool {
		return func() bool { return l.metric("treadle_stream_clients", nil) == float64(clients) }
	}
	conns := map[string]*net.TCPConn{
		"events":    l.raw(request("POST", "/threads/"+thread+"/stream/events", `{"channels":["custom"]}`)),
		"WebSocket": l.raw(upgrade(thread) + wsText(`{"id":1,"method":"subscription.subscribe","params":{"channels":["custom"]}}`)),
	}
	// A run records events of protocol v2 only if a client reads them when the run starts.
	l.eventually("the thread is watched", 10*time.Second, open(2))
	conns["stream"] = l.raw(request("POST", "/threads/"+thread+"/runs/stream", body))
	var runs []struct {
		ID string `json:"run_id"`
	}
	l.eventually("the run exists", 10*time.Second, func() bool {
		code, _, raw := l.do("GET", "/threads/"+thread+"/runs", "")
		return code == http.StatusOK && json.Unmarshal(raw, &runs) == nil && len(runs) == 1
	})
	run := "/threads/" + thread + "/runs/" + runs[0].ID
	conns["join"] = l.raw(request("GET", run+"/stream", ""))
	conns["thread"] = l.raw(request("GET", "/threads/"+thread+"/stream", ""))
	l.eventually("all streams are open", 10*time.Second, open(len(conns)))
	begun := time.Now()
	l.gate()
	l.ok("GET", run+"/join", "", nil)
	t.Logf("the run took %s with %d clients that do not read", time.Since(begun), len(conns))
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("the run took %s", took)
	}
	// The feed has 8 MiB. The rest consists of the queues of five clients and the overhead
	// of events.
	if grown := heap() - before; grown > 24*mib {
		t.Errorf("clients that do not read hold %d MiB", grown/mib)
	} else {
		t.Logf("the heap has grown by %d KiB", grown>>10)
	}
	l.eventually("all streams are closed", 3*patience+5*time.Second, open(0))
	for name, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(tooLong))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is still open", name)
		}
	}
	if got := l.status(thread); got != "success" {
		t.Errorf("the run is %q", got)
	}
	l.settled(10 * time.Second)
}

func TestUnreadLargeResponsesAreAborted(t *testing.T) {
	l := load(t, *server.Impatient(server.Options{}, 500*time.Millisecond))
	thread := l.thread()
	const grow = `{"assistant_id":"grow","input":{"n":2,"size":1048576}}` // more than sockets hold
	l.ok("POST", "/threads/"+thread+"/runs/wait", grow, nil)
	before := heap()
	conns := []*net.TCPConn{
		l.raw(request("GET", "/threads/"+thread+"/state", "")),
		l.raw(request("GET", "/threads/"+thread+"/history?limit=2", "")),
		l.raw(request("POST", "/threads/search", `{}`)),
		l.raw(request("POST", "/runs/wait", grow)),
		l.raw(request("POST", "/runs/stream", grow)),
	}
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(60 * time.Second))
		if n, err := io.ReadFull(conn, make([]byte, 64)); err != nil { // the response has started
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	l.settled(20 * time.Second)
	for i, conn := range conns {
		n, err := io.Copy(io.Discard, conn)
		if errors.Is(err, os.ErrDeadlineExceeded) || n > mib {
			t.Errorf("answer %d: %d bytes, %v", i, n, err)
		}
	}
	if grown := heap() - before; grown > 40*mib {
		t.Errorf("the heap has grown by %d MiB", grown/mib)
	}
}

// A client that is slow, but reads, gets all of an answer that takes it longer than
// clients may be silent.
func TestSlowReadersGetLargeAnswers(t *testing.T) {
	const patience = time.Second
	l := load(t, *server.Impatient(server.Options{}, patience))
	thread := l.begin("grow", `{"n":2,"size":1048576}`)
	l.eventually("the run has ended", 20*time.Second, func() bool { return l.status(thread) == "success" })
	var all sync.WaitGroup
	var conns []net.Conn
	for _, text := range []string{
		request("GET", "/threads/"+thread+"/state", ""),
		request("POST", "/threads/"+thread+"/stream/events", `{"channels":["values"]}`),
		upgrade(thread) + wsText(`{"id":1,"method":"subscription.subscribe","params":{"channels":["values"]}}`),
	} {
		conn := l.raw(text)
		conns = append(conns, conn)
		all.Go(func() {
			_ = conn.SetReadDeadline(time.Now().Add(40 * time.Second))
			begun, buf := time.Now(), make([]byte, 64<<10)
			pace := time.NewTicker(2 * patience / 32)
			defer pace.Stop()
			for n := 0; n < 2*mib; n += len(buf) {
				<-pace.C
				if _, err := io.ReadFull(conn, buf); err != nil {
					t.Errorf("%.60s: %v after %d bytes and %s", text, err, n, time.Since(begun))
					return
				}
			}
		})
	}
	all.Wait()
	for _, conn := range conns {
		_ = conn.Close()
	}
	l.settled(10 * time.Second)
}

func TestUnfinishedRequestsAreAborted(t *testing.T) {
	l := load(t, *server.Impatient(server.Options{}, 300*time.Millisecond))
	thread := l.thread()
	whole := request("POST", "/threads/"+thread+"/runs", `{"assistant_id":"short","input":{}}`)
	for _, path := range []string{"/threads/" + thread + "/runs", "/threads/search", "/nowhere"} {
		text := strings.Replace(whole, "/threads/"+thread+"/runs", path, 1)
		conn := l.raw(text[:len(text)-5])
		_ = conn.SetReadDeadline(time.Now().Add(tooLong))
		raw, err := io.ReadAll(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is still open after %q", path, raw)
		}
		if path != "/nowhere" && !strings.HasPrefix(string(raw), "HTTP/1.1 408") {
			t.Errorf("%s: the answer is %q", path, raw)
		}
	}
	if got := l.status(thread); got != "" {
		t.Errorf("there is a run, which is %s", got)
	}
	// The time for the body does not bound the answer.
	var got job
	l.ok("POST", "/runs/wait", `{"assistant_id":"short","input":{}}`, &got)
	s := l.open("POST", "/threads/"+thread+"/runs/stream", `{"assistant_id":"hang","input":{},"on_disconnect":"cancel"}`)
	time.Sleep(700 * time.Millisecond) //nolint:forbidigo // longer than a client may be silent
	if got := l.status(thread); got != "running" {
		t.Errorf("the run is %s", got)
	}
	s.close()
	<-s.done
	l.settled(10 * time.Second)
}

func TestRunWithThousandReaders(t *testing.T) {
	readers, events := 1000, 200
	if race.Enabled { // all of them run without it
		readers = 150
	}
	l := load(t, server.Options{})
	thread := l.thread()
	run := l.newRun(thread, fmt.Sprintf(`{"assistant_id":"burst","input":{"n":%d,"size":256},"stream_mode":["custom","values"]}`, events))
	before := heap()
	transport := &http.Transport{MaxConnsPerHost: 0, ReadBufferSize: 2048, WriteBufferSize: 512}
	var open, all sync.WaitGroup
	var want atomic.Pointer[string]
	open.Add(readers)
	for range readers {
		all.Go(func() {
			text, err := l.readRun(transport, "/threads/"+thread+"/runs/"+run+"/stream", events, open.Done)
			if err != nil {
				t.Error(err)
			} else if !want.CompareAndSwap(nil, &text) && *want.Load() != text {
				t.Errorf("two readers get different frames:\n%.300s\n%.300s", *want.Load(), text)
			}
		})
	}
	open.Wait()
	each := (heap() - before) / readers
	begun := time.Now()
	l.gate()
	most := peak(all.Wait) - before
	took := time.Since(begun)
	t.Logf("%d readers: %d KiB for each (with its client) while they wait, at most %d KiB; %d frames in %s, %.0f a second", readers, each>>10, most/readers>>10,
		readers*events, took, float64(readers*events)/took.Seconds())
	// A connection has three goroutines and buffers of 8 KiB here, and its client three more.
	if each > 96<<10 {
		t.Errorf("a reader that waits takes %d KiB", each>>10)
	}
	// With garbage, and a buffer of frames that are sent together.
	if most/readers > 320<<10 && !race.Enabled {
		t.Errorf("a reader takes up to %d KiB", most/readers>>10)
	}
	if took > 30*time.Second {
		t.Errorf("%s for %d readers of %d events", took, readers, events)
	}
	transport.CloseIdleConnections()
	l.settled(10 * time.Second)
}

// readRun reads the stream of burst to its end and returns all frames. It calls opened
// when the stream is open.
func (l *loaded) readRun(transport http.RoundTripper, path string, events int, opened func()) (string, error) {
	opened = sync.OnceFunc(opened)
	defer opened()
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, l.base+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	in := bufio.NewReaderSize(resp.Body, 2048)
	var text bytes.Buffer
	next, last := 0, uint64(0)
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		opened()
		if strings.HasPrefix(line, ": ") {
			continue
		}
		if number, ok := strings.CutPrefix(line, "id: "); ok {
			id, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
			if err != nil || id <= last {
				return "", fmt.Errorf("ID %q follows %d", number, last)
			}
			last = id
		}
		if strings.HasPrefix(line, `data: {"i":`) {
			if !strings.HasPrefix(line, fmt.Sprintf(`data: {"i":%d,`, next)) {
				return "", fmt.Errorf("the event with number %d is %s", next, line)
			}
			next++
			continue
		}
		text.WriteString(line)
	}
	if next != events {
		return "", fmt.Errorf("%d of %d events", next, events)
	}
	return text.String(), nil
}

func TestTenThousandThreads(t *testing.T) {
	threads := 10000
	if race.Enabled { // all of them run without it
		threads = 1500
	}
	l := load(t, server.Options{MemoryLimit: 4 * mib})
	before := heap()
	begun := time.Now()
	most := peak(func() { l.makeThreads(threads) })
	t.Logf("%d threads in %s, heap at most %d MiB more", threads, time.Since(begun), (most-before)/mib)
	if most-before > 64*mib {
		t.Errorf("creating %d threads takes %d MiB", threads, (most-before)/mib)
	}
	l.searchThreads(threads)
	// Threads are in the database, so the heap is as before, except for what caches may hold.
	if grown := heap() - before; grown > 8*mib {
		t.Errorf("the heap has grown by %d KiB", grown>>10)
	} else {
		t.Logf("the heap has grown by %d KiB", grown>>10)
	}
	l.settled(10 * time.Second)
}

// makeThreads creates numbered threads in 100 groups.
func (l *loaded) makeThreads(n int) {
	var all sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				status, _, raw := l.do("POST", "/threads", fmt.Sprintf(`{"metadata":{"number":%d,"group":"g%d","graph_id":"short"}}`, i, i%100))
				if status != http.StatusOK {
					l.t.Errorf("thread %d: %d %s", i, status, raw)
					return
				}
			}
		})
	}
	all.Wait()
}

type numbered struct {
	ID       string    `json:"thread_id"`
	Created  time.Time `json:"created_at"`
	Metadata struct {
		Number int
		Seen   bool
	}
}

// searchThreads searches, counts and changes the threads of makeThreads.
func (l *loaded) searchThreads(n int) {
	t := l.t
	t.Helper()
	slowest := time.Duration(0)
	timed := func(method, path, body string, into any) http.Header {
		begun := time.Now()
		head := l.ok(method, path, body, into)
		slowest = max(slowest, time.Since(begun))
		return head
	}
	var count int
	timed("POST", "/threads/count", `{}`, &count)
	if count != n {
		t.Errorf("%d threads are counted", count)
	}
	timed("POST", "/threads/count", `{"metadata":{"group":"g7"}}`, &count)
	if count != n/100 {
		t.Errorf("%d threads of a group are counted", count)
	}
	// All pages, in order, without a thread that is missing or comes twice.
	var all []numbered
	for offset := 0; ; {
		var page []numbered
		head := timed("POST", "/threads/search", fmt.Sprintf(`{"limit":1000,"offset":%d,"sort_by":"created_at","sort_order":"asc","select":["thread_id","created_at","metadata"]}`, offset), &page)
		all = append(all, page...)
		next := head.Get("X-Pagination-Next")
		if next == "" || len(page) == 0 {
			break
		}
		if next != strconv.Itoa(offset+len(page)) {
			t.Fatalf("after %d threads from %d on, the next page starts at %s", len(page), offset, next)
		}
		offset += len(page)
	}
	if !slices.IsSortedFunc(all, func(a, b numbered) int { return a.Created.Compare(b.Created) }) {
		t.Error("the threads are not sorted by time")
	}
	numbers := make([]int, len(all))
	for i, th := range all {
		numbers[i] = th.Metadata.Number
	}
	slices.Sort(numbers)
	if len(numbers) != n || numbers[0] != 0 || numbers[n-1] != n-1 || len(slices.Compact(numbers)) != n {
		t.Errorf("%d threads are found", len(numbers))
	}
	for _, sort := range []string{"thread_id", "updated_at", "status"} {
		for _, offset := range []int{0, n / 2, n - 10} {
			var page []numbered
			timed("POST", "/threads/search", fmt.Sprintf(`{"limit":10,"offset":%d,"sort_by":%q,"sort_order":"desc"}`, offset, sort), &page)
			if len(page) != 10 {
				t.Errorf("a page by %s from %d on has %d threads", sort, offset, len(page))
			}
		}
	}
	var group []numbered
	timed("POST", "/threads/search", `{"metadata":{"group":"g7"},"limit":1000}`, &group)
	if len(group) != n/100 {
		t.Fatalf("%d threads of a group are found", len(group))
	}
	for _, th := range group {
		timed("PATCH", "/threads/"+th.ID, `{"metadata":{"seen":true}}`, nil)
	}
	timed("POST", "/threads/count", `{"metadata":{"seen":true}}`, &count)
	if count != n/100 {
		t.Errorf("%d threads have been patched", count)
	}
	var patched numbered
	timed("GET", "/threads/"+group[0].ID, "", &patched)
	if !patched.Metadata.Seen || patched.Metadata.Number != group[0].Metadata.Number {
		t.Errorf("a patched thread is %+v", patched)
	}
	t.Logf("the slowest request among %d threads took %s", n, slowest)
	if slowest > 30*time.Second {
		t.Errorf("a request among %d threads takes %s", n, slowest)
	}
}

func TestStateOf50MB(t *testing.T) {
	chunks, size := 5, 10_000_000
	if race.Enabled { // all of it without
		chunks, size = 2, 1_000_000
	}
	total := chunks * size
	l := load(t, server.Options{MaxBody: 50 * mib})
	l.wide.Store(true)
	thread := l.thread()
	input := fmt.Sprintf(`{"n":%d,"size":%d}`, chunks, size)
	before := heap()
	for _, test := range []struct {
		name, method, path, body string
		states                   float64 // bytes of the answer, in states
		// The heap limit in states, including garbage, which is up to half of it. JSON is
		// created of fields, records, and responses one after another.
		bound float64
	}{
		{"wait", "POST", "/threads/" + thread + "/runs/wait", `{"assistant_id":"grow","input":` + input + `}`, 1, 20},
		{"state", "GET", "/threads/" + thread + "/state", "", 1, 20},
		{"history", "GET", "/threads/" + thread + "/history?limit=1", "", 1, 20},
		{"stream", "POST", "/runs/stream", `{"assistant_id":"grow","input":` + input + `,"stream_mode":["values"]}`, float64(chunks+1) / 2, 32},
	} {
		l.sub(test.name, func(t *testing.T, l *loaded) {
			runtime.GC()
			var n int64
			begun := time.Now()
			most := peak(func() { n = l.size(test.method, test.path, test.body) }) - before
			t.Logf("%d MB in %s, heap at most %d MB more: %.1f states", n/1e6, time.Since(begun), most/1e6, float64(most)/float64(total))
			if got := float64(n) / float64(total); got < test.states || got > test.states+0.1 {
				t.Errorf("the answer has %d bytes: %.2f states, want %.2f", n, got, test.states)
			}
			if float64(most) > test.bound*float64(total) && !race.Enabled { // which takes memory itself
				t.Errorf("the heap has grown by %d MB, %.1f states", most/1e6, float64(most)/float64(total))
			}
		})
	}
	l.sub("too large", func(t *testing.T, l *loaded) {
		body := `{"assistant_id":"grow","input":{"last":"` + strings.Repeat("x", 51*mib) + `"}}`
		status, _, raw := l.do("POST", "/runs/wait", body)
		if want := `{"detail":"the body is longer than 52428800 bytes"}`; status != http.StatusRequestEntityTooLarge || strings.TrimSpace(string(raw)) != want {
			t.Errorf("%d %s", status, raw)
		}
	})
	http.DefaultClient.CloseIdleConnections()
	// The events of both runs are kept for 30 s, and the thread's values in the cache of heads.
	if grown := heap() - before; grown > 16*mib+6*total {
		t.Errorf("%d MB are retained after the requests", grown/1e6)
	}
	l.settled(10 * time.Second)
}

// size sends a request and returns how many bytes the answer has.
func (l *loaded) size(method, path, body string) int64 {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), method, l.base+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		l.t.Fatalf("%s %s: %d, %d bytes, %v", method, path, resp.StatusCode, n, err)
	}
	return n
}

// A run that replaces a large value at each step keeps few of the values in memory,
// whether a client reads its states or not.
func TestReplacedValuesAreNotKept(t *testing.T) {
	l := load(t, server.Options{})
	thread := l.thread()
	before := heap()
	body := `{"assistant_id":"replace","input":{"n":60,"size":1048576},"durability":"exit"}`
	var most int
	most = peak(func() { l.ok("GET", "/threads/"+thread+"/runs/"+l.newRun(thread, body)+"/join", "", nil) }) - before
	t.Logf("60 MiB of unread values: heap at most %d MiB more, %d MiB held", most/mib, (heap()-before)/mib)
	// The feed counts 8 MiB of JSON, and measures every sixteenth state.
	if held := heap() - before; held > 28*mib {
		t.Errorf("%d MiB are retained", held/mib)
	}
	most = peak(func() { l.size("POST", "/runs/stream", body) }) - before
	t.Logf("read: heap at most %d MiB more", most/mib)
	if held := heap() - before; held > 28*mib {
		t.Errorf("%d MiB are retained", held/mib)
	}
}
