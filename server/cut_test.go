package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/server"
)

// exchange is a request whose connection is cut. Each exchange uses a separate thread.
type exchange struct {
	name    string
	request func(l *loaded, thread string) string
	before  func(l *loaded, thread string) // prepares the thread
	status  string                         // of the run, if the response is cut
	reads   bool                           // it reads a running run and creates none
}

// runBody returns the body of a request for a run on a thread that may not exist.
func runBody(graph, onDisconnect string) string {
	return fmt.Sprintf(`{"assistant_id":%q,"input":{},"on_disconnect":%q,"if_not_exists":"create","stream_mode":["values","updates"]}`, graph, onDisconnect)
}

// exchanges returns one exchange of each kind.
func exchanges() []exchange {
	post := func(path, graph, onDisconnect string) func(*loaded, string) string {
		return func(_ *loaded, thread string) string {
			return request("POST", "/threads/"+thread+path, runBody(graph, onDisconnect), "Connection: close")
		}
	}
	hangs := func(l *loaded, thread string) { l.newRun(thread, runBody("hang", "continue")) }
	return []exchange{
		{name: "stream, cancel", request: post("/runs/stream", "hang", "cancel"), status: "interrupted"},
		{name: "stream, continue", request: post("/runs/stream", "short", "continue"), status: "success"},
		{name: "wait, cancel", request: post("/runs/wait", "hang", "cancel"), status: "interrupted"},
		{name: "wait, continue", request: post("/runs/wait", "short", "continue"), status: "success"},
		{name: "join", reads: true, before: hangs, status: "running", request: func(l *loaded, thread string) string {
			return request("GET", "/threads/"+thread+"/runs/"+l.runID(thread)+"/stream", "", "Last-Event-ID: 1")
		}},
		{name: "events", reads: true, before: hangs, status: "running", request: func(_ *loaded, thread string) string {
			return request("POST", "/threads/"+thread+"/stream/events", `{"channels":["values","lifecycle"]}`)
		}},
		{name: "WebSocket", status: "success", request: func(_ *loaded, thread string) string {
			return upgrade(thread) + wsText(`{"id":1,"method":"run.start","params":{"assistant_id":"short","input":{}}}`)
		}},
	}
}

// runID returns the ID of a thread's only run.
func (l *loaded) runID(thread string) string {
	l.t.Helper()
	var runs []struct {
		ID string `json:"run_id"`
	}
	l.ok("GET", "/threads/"+thread+"/runs", "", &runs)
	if len(runs) != 1 {
		l.t.Fatalf("thread %s has %d runs", thread, len(runs))
	}
	return runs[0].ID
}

// frameHeads is the number of bytes by which the length of a response may differ: each
// separately sent frame has its own head.
const frameHeads = 64

// cut sends a part of a request and closes or resets the connection after some bytes of
// the answer. It returns how many bytes came: the last ones may be missing, because how
// many frames are sent together differs, and so does the length.
func (l *loaded) cut(text string, answer int, reset bool) int {
	l.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(l.t.Context(), "tcp", strings.TrimPrefix(l.base, "http://"))
	if err != nil {
		l.t.Fatal(err)
	}
	if reset {
		_ = conn.(*net.TCPConn).SetLinger(0)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, text); err != nil {
		l.t.Fatal(err)
	}
	if answer == 0 {
		return 0
	}
	_ = conn.SetReadDeadline(time.Now().Add(tooLong))
	n, err := io.ReadFull(conn, make([]byte, max(1, answer-frameHeads)))
	if err == nil && n < answer {
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		var more int
		more, err = io.ReadFull(conn, make([]byte, answer-n))
		n += more
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return n
		}
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		l.t.Fatalf("%d of %d bytes of the answer: %v", n, answer, err)
	}
	return n
}

// length returns the number of response bytes of an exchange before it ends or waits, and
// how many of them are its head.
func (l *loaded) length(x exchange, thread string) (n, head int) {
	l.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(l.t.Context(), "tcp", strings.TrimPrefix(l.base, "http://"))
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, x.request(l, thread)); err != nil {
		l.t.Fatal(err)
	}
	var all bytes.Buffer
	for buf := make([]byte, 4096); ; {
		_ = conn.SetReadDeadline(time.Now().Add(400 * time.Millisecond))
		got, err := conn.Read(buf)
		all.Write(buf[:got])
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) {
			return all.Len(), bytes.Index(all.Bytes(), []byte("\r\n\r\n")) + 4
		}
		if err != nil {
			l.t.Fatal(err)
		}
	}
}

// prepare creates the thread of an exchange.
func (l *loaded) prepare(x exchange) (thread string) {
	thread = uuid.NewString()
	if x.before != nil {
		x.before(l, thread)
	}
	return thread
}

// end ends the run that an exchange has read.
func (l *loaded) end(x exchange, thread string) {
	l.t.Helper()
	if x.reads {
		l.ok("POST", "/threads/"+thread+"/runs/"+l.runID(thread)+"/cancel?wait=true", "", nil)
	}
}

// ends waits until the run of a thread has a status.
func (l *loaded) ends(thread string, status ...string) {
	l.t.Helper()
	got := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) { //nolint:forbidigo // a server over HTTP is waited for
		if got = l.status(thread); slices.Contains(status, got) {
			return
		}
	}
	l.t.Fatalf("the run is %q, want %q", got, status)
}

func TestTruncatedRequestsStoreNothing(t *testing.T) {
	l := load(t, server.Options{})
	step := 1
	if race.Enabled { // all of them run without it
		step = 9
	}
	for _, x := range exchanges() {
		l.sub(x.name, func(t *testing.T, l *loaded) {
			thread := l.prepare(x)
			text := x.request(l, thread)
			for n := 0; n < len(text); n += step {
				l.cut(text[:n], 0, n%2 == 0)
				l.ok("GET", "/ok", "", nil)
			}
			if x.reads {
				l.ends(thread, x.status) // as if there had been no client
				l.end(x, thread)
			}
			l.settled(10 * time.Second)
			if got := l.status(thread); !x.reads && got != "" {
				t.Errorf("there is a run that is %q", got)
			}
			t.Logf("%d bytes", len(text))
		})
	}
}

func TestTruncatedResponsesDoNotAffectRun(t *testing.T) {
	l := load(t, server.Options{})
	for _, x := range exchanges() {
		l.sub(x.name, func(t *testing.T, l *loaded) {
			thread := l.prepare(x)
			length, head := l.length(x, thread)
			if x.reads { // the first may have arrived before the run's events
				length, head = l.length(x, thread)
			}
			if x.name != "WebSocket" {
				head = 0 // the response starts once the run exists
			}
			var cuts []string
			maybe := 0 // cuts that need not leave a run
			for n := 0; n <= length; n++ {
				if n > 16 && n%x.every(n) != 0 {
					continue
				}
				if !x.reads {
					thread = uuid.NewString()
				}
				cuts = append(cuts, thread)
				if n <= head {
					maybe = len(cuts)
				}
				if got := l.cut(x.request(l, thread), n, n%2 == 0); got < n-frameHeads && x.status != "success" {
					t.Fatalf("%d of %d bytes of the answer", got, n)
				}
				l.ok("GET", "/ok", "", nil)
			}
			if !x.reads {
				l.settled(20 * time.Second) // no request is under way
			}
			for i, thread := range cuts {
				if i >= maybe || l.status(thread) != "" {
					l.ends(thread, x.status)
				}
			}
			l.end(x, thread)
			l.settled(10 * time.Second)
			t.Logf("%d bytes, %d cuts", length, len(cuts))
		})
	}
}

// every returns the number of bytes between two cuts of the response around a position.
// All kinds of streams have the same head. It and the first frames are cut at every byte
// for a canceled run and for runs that are read.
func (x exchange) every(n int) int {
	switch {
	case race.Enabled: // all of them run without it
		return 29
	case x.reads, x.status == "interrupted" && n < 500:
		return 1
	}
	return 11
}

// A waiting client receives nothing before the end, so it disconnects while the run
// exists.
func TestOnDisconnectControlsWaitedRuns(t *testing.T) {
	l := load(t, server.Options{})
	for _, x := range exchanges() {
		if !strings.HasPrefix(x.name, "wait") {
			continue
		}
		for i := range 6 {
			thread := uuid.NewString()
			conn := l.raw(x.request(l, thread))
			l.ends(thread, "running", "success")
			if i%2 == 0 {
				_ = conn.SetLinger(0)
			}
			_ = conn.Close()
			l.ends(thread, x.status)
		}
	}
	l.settled(10 * time.Second)
}
