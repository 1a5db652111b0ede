package server

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// clientTime is the time limit for a client to read what it was sent, or to send the next bytes
// of a request.
const clientTime = 30 * time.Second

// lastEventID parses the position where a reader resumes; 0 means the start.
func lastEventID(text string) (uint64, error) {
	switch text {
	case "", "-1", "-", "0":
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, invalid("Last-Event-ID", "want the id of an event, or -1, not %q", text)
	}
	return n, nil
}

// events writes server-sent events. Frames that are available together are sent together.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buf     bytes.Buffer
	err     error // connection error
}

// events starts an event stream. It sends the headers immediately, so that the client learns
// the run's ID before the first event.
func (p response) events() *events {
	h := p.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	e := &events{w: p.w, control: http.NewResponseController(p.w)}
	p.w.WriteHeader(http.StatusOK)
	_ = e.flush()
	return e
}

// frame adds an event. Its data may consist of several parts.
func (e *events) frame(name string, ns []string, id string, data ...[]byte) {
	e.buf.WriteString("event: ")
	e.buf.WriteString(name)
	for _, part := range ns {
		e.buf.WriteByte('|')
		e.buf.WriteString(part)
	}
	e.buf.WriteString("\ndata: ")
	for _, part := range data {
		e.part(part)
	}
	if id != "" {
		e.buf.WriteString("\nid: ")
		e.buf.WriteString(id)
	}
	e.buf.WriteString("\n\n")
}

// maxCopied is the maximum size of data that is copied into the buffer. Larger data is written
// directly, because it is shared by all readers of a run.
const maxCopied = 32 << 10

// part adds a part of an event's data.
func (e *events) part(data []byte) {
	if len(data) <= maxCopied {
		e.buf.Write(data)
		return
	}
	e.send()
	if e.err == nil {
		_, e.err = e.w.Write(data)
	}
}

// send writes the buffer.
func (e *events) send() {
	if e.err == nil && e.buf.Len() > 0 {
		_, e.err = e.w.Write(e.buf.Bytes())
	}
	e.buf.Reset()
}

// flush sends all buffered data. The connection of a client that stops reading is closed.
func (e *events) flush() error {
	e.send()
	if e.err == nil {
		e.err = e.control.Flush()
	}
	return e.err
}

// heartbeat sends a comment. No empty line follows it, because LangGraph's JavaScript client
// would take it for an event.
func (e *events) heartbeat() error {
	e.buf.WriteString(": heartbeat\n")
	return e.flush()
}

// queue holds the next entries to send to a client: several small ones and at most one large
// one. Without this bound, each client that does not read would hold as many states as the
// queue has room for.
type queue struct {
	ch    chan queued
	large chan struct{} // contains an element while a large entry is queued
	err   error         // why ch was closed
}

// queued is an entry in a queue.
type queued struct {
	*runs.Entry
	large bool
}

func newQueue() *queue {
	return &queue{ch: make(chan queued, 64), large: make(chan struct{}, 1)}
}

// fill adds entries to the queue until the entries or ctx end.
func (q *queue) fill(ctx context.Context, entries iter.Seq2[*runs.Entry, error]) {
	defer close(q.ch)
	for entry, err := range entries {
		if err != nil {
			q.err = err
			return
		}
		next := queued{entry, entry.Large()}
		if next.large {
			select {
			case q.large <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
		select {
		case q.ch <- next:
		case <-ctx.Done():
			return
		}
	}
}

// sent is called after an entry was sent.
func (q *queue) sent(e queued) {
	if e.large {
		<-q.large
	}
}

// follow sends entries to a client until the entries end, the client disconnects, or send
// returns false. Entries that arrive while others are being written are flushed together.
func (e *events) follow(ctx context.Context, entries func(context.Context) iter.Seq2[*runs.Entry, error], send func(*runs.Entry) bool) (ended bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	q := newQueue()
	go q.fill(ctx, entries(ctx))
	defer func() {
		stop()
		for range q.ch { // until the reader has ended
		}
	}()
	beat := time.NewTicker(keepAlive)
	defer beat.Stop()
	for {
		select {
		case next, ok := <-q.ch:
			if !ok && q.err != nil && ctx.Err() == nil {
				return false, &cutError{q.err}
			}
			if !ok {
				return false, nil
			}
			ended = !send(next.Entry)
			q.sent(next)
			if n := e.buf.Len(); n > 0 && (len(q.ch) == 0 || ended || n > 64<<10) {
				if err := e.flush(); err != nil {
					return ended, err
				}
				beat.Reset(keepAlive)
			}
			if ended {
				return true, nil
			}
		case <-beat.C:
			if err := e.heartbeat(); err != nil {
				return false, err
			}
		}
	}
}

// stream streams the frames of a run.
func (s runAPI) stream(c *call, run *ledger.Run, after uint64, fresh, cancel bool, modes []string) error {
	e := c.events()
	lost := false // the run continues in another process, or in this one after a restart
	seen := false // the run has ended, even if its events were discarded
	ended, err := e.follow(c.r.Context(), func(ctx context.Context) iter.Seq2[*runs.Entry, error] {
		return func(yield func(*runs.Entry, error) bool) {
			for entry, err := range s.runner.Read(ctx, run, after, fresh) {
				if !yield(entry, err) {
					return
				}
			}
			seen = ctx.Err() == nil
		}
	}, func(entry *runs.Entry) bool {
		if entry.Protocol == runs.Classic && wanted(modes, entry.Name) {
			e.frame(entry.Name, entry.NS, strconv.FormatUint(entry.Seq, 10), entry.Data())
		}
		lost = entry.End != nil && entry.End.Lost
		return entry.End == nil
	})
	if lost && err == nil {
		err = &cutError{runs.ErrStopped}
	}
	s.cut(c, err)
	if !ended && !seen {
		s.left(run, cancel)
	}
	return ignored(err)
}

// cutError reports why a stream ended before it was complete.
type cutError struct{ error }

// cut breaks the connection of an incomplete stream. If the stream ended normally, the client
// would consider it complete and not resume it.
func (s runAPI) cut(c *call, err error) {
	if cut, ok := errors.AsType[*cutError](err); ok {
		s.log.Debug("stream aborted", "path", c.r.URL.Path, "error", cut.error)
		panic(http.ErrAbortHandler)
	}
}

// cancelLeft cancels a run whose client has disconnected.
func (s *Server) cancelLeft(run *ledger.Run) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := s.runner.Cancel(ctx, run.Thread, []uuid.UUID{run.ID}, ledger.CancelRun, nil)
	if err != nil && !strings.Contains(err.Error(), "not found") {
		return err
	}
	return nil
}
