package server

import (
	"bytes"
	"context"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/runs"
	"github.com/treadle-go/treadle/ledger"
)

// writeTime is how long a client may take to read what it was sent.
const writeTime = 30 * time.Second

// lastEventID reads the place where a reader goes on; 0 means from the beginning.
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

// events writes server-sent events. Frames that are there together go out together.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buf     bytes.Buffer
}

// begin sends the headers, so that the client knows the run before its first event.
func (c *call) events() *events {
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	e := &events{w: c.w, control: http.NewResponseController(c.w)}
	c.w.WriteHeader(http.StatusOK)
	_ = e.flush()
	return e
}

// frame adds an event.
func (e *events) frame(name string, ns []string, data []byte, id string) {
	e.buf.WriteString("event: ")
	e.buf.WriteString(name)
	for _, part := range ns {
		e.buf.WriteByte('|')
		e.buf.WriteString(part)
	}
	e.buf.WriteString("\ndata: ")
	e.buf.Write(data)
	if id != "" {
		e.buf.WriteString("\nid: ")
		e.buf.WriteString(id)
	}
	e.buf.WriteString("\n\n")
}

// flush sends what there is. A client that does not read for too long loses the
// connection.
func (e *events) flush() error {
	_ = e.control.SetWriteDeadline(time.Now().Add(writeTime)) // not all writers have one
	if e.buf.Len() > 0 {
		if _, err := e.w.Write(e.buf.Bytes()); err != nil {
			return err
		}
		e.buf.Reset()
		if e.buf.Cap() > 1<<20 {
			e.buf = bytes.Buffer{}
		}
	}
	return e.control.Flush()
}

// heartbeat is a comment. There is no empty line behind it, which would be an event
// for LangGraph's JavaScript client.
func (e *events) heartbeat() error {
	e.buf.WriteString(": heartbeat\n")
	return e.flush()
}

// follow sends entries to a client until they end, it goes, or send is false.
// Entries that come while others are written are flushed together.
func (e *events) follow(ctx context.Context, entries func(context.Context) iter.Seq2[*runs.Entry, error], send func(*runs.Entry) bool) (ended bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	ch := make(chan *runs.Entry, 64)
	failed := make(chan error, 1)
	go func() {
		defer close(ch)
		for entry, err := range entries(ctx) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case ch <- entry:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		stop()
		for range ch { // until the reader has ended
		}
	}()
	beat := time.NewTicker(keepAlive)
	defer beat.Stop()
	for {
		select {
		case entry, ok := <-ch:
			if !ok {
				select {
				case err = <-failed:
				default:
				}
				return false, err
			}
			ended = !send(entry)
			if n := e.buf.Len(); n > 0 && (len(ch) == 0 || ended || n > 64<<10) {
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

// stream sends the frames of a run.
func (c *call) stream(run *ledger.Run, after uint64, fresh, cancel bool, modes []string) error {
	e := c.events()
	seen := false // also the end of a run whose events are gone is one
	ended, err := e.follow(c.r.Context(), func(ctx context.Context) iter.Seq2[*runs.Entry, error] {
		return func(yield func(*runs.Entry, error) bool) {
			for entry, err := range c.s.runner.Read(ctx, run, after, fresh) {
				if !yield(entry, err) {
					return
				}
			}
			seen = ctx.Err() == nil
		}
	}, func(entry *runs.Entry) bool {
		if entry.Protocol == runs.Classic && wanted(modes, entry.Name) {
			e.frame(entry.Name, entry.NS, entry.Data(), strconv.FormatUint(entry.Seq, 10))
		}
		return entry.End == nil
	})
	if !ended && !seen {
		c.left(run, cancel)
	}
	return ignored(err)
}

// cancelLeft cancels a run whose client has gone.
func (s *Server) cancelLeft(run *ledger.Run) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := s.runner.Cancel(ctx, run.Thread, []uuid.UUID{run.ID}, ledger.CancelRun, nil)
	if err != nil && !strings.Contains(err.Error(), "not found") {
		return err
	}
	return nil
}
