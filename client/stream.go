package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/sse"
)

// An Event is an event of a stream.
type Event struct {
	// ID is the position where the stream can be resumed; "" if the server does not
	// keep events.
	ID string
	// Mode is the stream mode of the event, or "metadata" for an event that identifies
	// the run. Events of the mode "messages-tuple" arrive as "messages".
	Mode string
	// Namespace identifies the subgraph that the event comes from, outermost first, as
	// "node:task". It is empty for the root graph.
	Namespace []string
	// Data is JSON in the format of the mode.
	Data json.RawMessage
}

// feed reads a stream over as many connections as needed.
type feed struct {
	c       *Client
	r       *request // reopens the stream
	at      ref
	from    string // the event ID after which the stream resumes
	endless bool   // treat the end of the stream as a break
	alive   func()
	// resumable reports whether the server keeps the events that occur while there is
	// no connection. Nil means that it does.
	resumable func(context.Context) bool
	// seen is called with each event. If it is nil, event IDs determine where the
	// stream resumes.
	seen func(Event)

	blind    bool // an event had no ID, so the stream cannot resume after it
	progress bool // a new event has arrived over this connection
	// LangGraph's Python server gives the same ID to all events of a millisecond. The
	// stream therefore resumes after the last ID but one, and repeated events are
	// dropped.
	recent []Event // received with the last ID
	replay []Event // those in recent that have not been repeated yet
}

// follow yields events, starting with those of a response that has already arrived.
func (f *feed) follow(ctx context.Context, body *answer, yield func(Event, error) bool) {
	f.r.alive = f.alive
	for attempt := 1; ; attempt++ {
		if body == nil {
			err := f.c.try(ctx, f.r, func() (err error) {
				f.r.lastEventID = f.from
				body, err = f.c.open(ctx, f.r)
				return err
			})
			if err != nil {
				yield(Event{}, err)
				return
			}
		}
		f.progress = false
		err := f.read(body, yield)
		body.close()
		body = nil
		if len(f.recent) > 0 {
			f.replay = append([]Event{}, f.recent...)
		}
		if err == nil {
			return
		}
		if f.progress {
			attempt = 1
		}
		if err := f.again(ctx, attempt, err); err != nil {
			yield(Event{}, err)
			return
		}
	}
}

// again waits until the stream can be resumed, or returns the error that ends it.
func (f *feed) again(ctx context.Context, attempt int, err error) error {
	if ctx.Err() != nil {
		return f.r.ended(ctx, err)
	}
	if _, lost := errors.AsType[*lostError](err); !lost || !f.c.retry.Retryable(err) {
		return named(f.r, err)
	}
	pause, more := f.c.retry.Wait(attempt)
	switch {
	case !more:
		return fmt.Errorf("client: %s %s: %w, %d times without a new event", f.r.method, f.r.path, err, attempt)
	case f.blind || f.resumable != nil && !f.resumable(ctx):
		return fmt.Errorf("client: %s %s: %w, and the server does not keep the events of this run: see RunCreate.Resumable", f.r.method, f.r.path, err)
	}
	if delay.For(ctx, pause) != nil {
		return f.r.ended(ctx, err)
	}
	return nil
}

// read yields the events of one connection. It returns nil if the stream has ended or
// the loop was left.
func (f *feed) read(body *answer, yield func(Event, error) bool) error {
	events := sse.NewReader(body, f.c.limit)
	for {
		got, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLong):
			return fmt.Errorf("client: %s %s: event exceeds %d bytes: see Options.MaxResponse", f.r.method, f.r.path, f.c.limit)
		case errors.Is(err, io.EOF) && !f.endless:
			return nil
		case err != nil:
			return &lostError{err}
		}
		ev := eventOf(got)
		if f.repeated(ev) {
			continue
		}
		f.note(ev)
		if ev.Mode == "end" { // sent by older servers; the stream ends with the connection
			continue
		}
		if ev.Mode == "error" {
			yield(Event{}, f.failure(ev))
			return nil
		}
		if !yield(ev, nil) {
			return nil
		}
	}
}

// repeated reports whether an event has already arrived over an earlier connection.
func (f *feed) repeated(ev Event) bool {
	if f.replay == nil {
		return false // this is the first connection
	}
	if ev.ID == f.from && ev.ID != "" && f.recent[0].ID != ev.ID {
		return true // the server starts with the given event instead of after it
	}
	i := slices.IndexFunc(f.replay, func(old Event) bool {
		return old.ID == ev.ID && old.Mode == ev.Mode && slices.Equal(old.Namespace, ev.Namespace) && bytes.Equal(old.Data, ev.Data)
	})
	if i < 0 {
		return false
	}
	f.replay = slices.Delete(f.replay, i, i+1)
	return true
}

// note records where the stream resumes after a new event.
func (f *feed) note(ev Event) {
	f.progress = true
	if f.seen != nil {
		f.seen(ev)
		return
	}
	f.blind = f.blind || ev.ID == ""
	if f.blind {
		return
	}
	if len(f.recent) > 0 && f.recent[0].ID != ev.ID {
		f.from, f.recent = f.recent[0].ID, f.recent[:0]
	}
	if f.from == "" { // without an ID, the stream would resume with the next new event
		f.from = ev.ID
	}
	f.recent = append(f.recent, ev)
}

func eventOf(got sse.Event) Event {
	parts := strings.Split(got.Type, "|")
	ev := Event{ID: got.ID, Mode: parts[0], Data: bytes.Clone(got.Data)}
	if len(parts) > 1 {
		ev.Namespace = parts[1:]
	}
	return ev
}

// failure returns the error carried by ev.
func (f *feed) failure(ev Event) error {
	out := &RunError{Thread: f.at.thread, Run: f.at.run}
	var said Failure
	var inner struct {
		Error *Failure `json:"__error__"`
	}
	if json.Unmarshal(ev.Data, &inner) == nil && inner.Error != nil {
		said = *inner.Error
	} else {
		_ = json.Unmarshal(ev.Data, &said) // other data is shown as text below
	}
	out.Class, out.Message = said.Class, said.Message
	if out.Class == "" && out.Message == "" {
		out.Message = abridged(ev.Data)
	}
	return out
}

// ThreadStreamOptions selects events of a thread.
type ThreadStreamOptions struct {
	// Modes selects kinds of events: "run_modes", the default, for the events of the
	// runs, "lifecycle", for the start and end of runs, and "state_update".
	Modes []string
	// LastEventID is an event ID; the stream starts after that event. "-" means all
	// events that the server has. "" starts with the next new event.
	LastEventID string
}

// Stream yields the events of all runs of a thread, one run after the other, until the
// loop ends or ctx is done. The end of a run is an event of mode "metadata" with
// {"status":"run_done"}. A broken stream resumes after the last event received; events
// of runs that are not resumable may then be missing.
func (t Threads) Stream(ctx context.Context, id string, opts *ThreadStreamOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		o := orEmpty(opts)
		query := url.Values{}
		if len(o.Modes) > 0 {
			query["stream_modes"] = o.Modes
		}
		r := get(pathOf("threads", id, "stream"), query)
		r.stream = true
		f := &feed{c: t.c, r: r, at: ref{thread: id}, from: o.LastEventID, endless: true}
		f.follow(ctx, nil, yield)
	}
}

// Subscription selects events of protocol v2.
type Subscription struct {
	// Channels lists some of "values", "updates", "messages", "tools", "lifecycle",
	// "input", "checkpoints", "tasks", "custom", and "custom:NAME".
	Channels   []string   `json:"channels"`
	Namespaces [][]string `json:"namespaces,omitempty"` // of subgraphs; empty means all
	Depth      *int       `json:"depth,omitempty"`      // maximum depth below the namespaces
	Since      *uint64    `json:"since,omitempty"`      // event number; only later events are sent
}

// Events yields the events of a thread using protocol v2, LangGraph's event streaming
// protocol, until the loop ends or ctx is done. The mode of an event is its method, and
// its data is the whole envelope. A broken stream resumes after the last event
// received.
func (t Threads) Events(ctx context.Context, id string, opts *Subscription) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		body := *orEmpty(opts)
		r := read(pathOf("threads", id, "stream", "events"), &body)
		r.stream = true
		f := &feed{c: t.c, r: r, at: ref{thread: id}, endless: true}
		f.seen = func(ev Event) {
			var envelope struct {
				Seq *uint64 `json:"seq"`
			}
			if json.Unmarshal(ev.Data, &envelope) != nil || envelope.Seq == nil {
				f.blind = true
				return
			}
			body.Since = envelope.Seq
		}
		f.follow(ctx, nil, yield)
	}
}

// CommandError reports that the server rejected a protocol v2 command.
type CommandError struct {
	Method  string
	Code    string // such as "invalid_argument" or "no_such_run"
	Message string
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("client: command %s: %s: %s", e.Method, e.Code, e.Message)
}

// Command executes a protocol v2 command on a thread, such as "run.start" or
// "input.respond", and returns its result. It returns a [*CommandError] if the server
// rejects the command.
func (t Threads) Command(ctx context.Context, id, method string, params any) (json.RawMessage, error) {
	body := map[string]any{"id": 1, "method": method, "params": params}
	if params == nil {
		body["params"] = struct{}{}
	}
	var answer struct {
		Type    string          `json:"type"`
		Result  json.RawMessage `json:"result"`
		Error   string          `json:"error"`
		Message string          `json:"message"`
	}
	if err := t.c.call(ctx, write(pathOf("threads", id, "commands"), body), &answer); err != nil {
		return nil, err
	}
	if answer.Type != "success" {
		return nil, &CommandError{method, answer.Error, answer.Message}
	}
	return answer.Result, nil
}
