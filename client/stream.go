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

// Event is an event of a stream.
type Event struct {
	// ID is where the stream can be continued; "" if the server keeps no events.
	ID string
	// Mode is the stream mode that the event belongs to, or "metadata" for an event that
	// names the run.
	Mode string
	// Namespace is that of the nested graph that the event comes from, outermost first:
	// "node:task". It is empty at the root.
	Namespace []string
	// Data is JSON in the form of the mode.
	Data json.RawMessage
}

// feed reads a stream over as many connections as it takes.
type feed struct {
	c       *Client
	r       *request // opens the stream again
	at      ref
	from    string // the id behind which the stream goes on after a break
	endless bool   // an end of the stream is a break
	alive   func()
	// resumable reports whether the server has the events that come while there is no
	// connection. Nil means that it has.
	resumable func(context.Context) bool
	// seen is called with each event. Nil means that ids say where the stream goes on.
	seen func(Event)

	blind    bool // an event had no id, so the stream cannot go on behind it
	progress bool // a new event has come over this connection
	// LangGraph's Python server gives one id to all events of a millisecond. So the stream
	// goes on behind the last but one id, and events that have come already are left out.
	recent []Event // that have come with the last id
	replay []Event // those of recent that have not been sent again
}

// follow yields events, first those of an answer that has come already.
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
		if body = nil; len(f.recent) > 0 {
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

// again waits until the stream may be continued, or returns the error that it ends with.
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

// read yields the events of one connection. It returns nil if the stream is over, or the loop
// was left.
func (f *feed) read(body *answer, yield func(Event, error) bool) error {
	events := sse.NewReader(body, f.c.limit)
	for {
		got, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLong):
			return fmt.Errorf("client: %s %s: an event has more than %d bytes: see Options.MaxAnswer", f.r.method, f.r.path, f.c.limit)
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
		if ev.Mode == "end" { // of older servers; what ends is the connection
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

// repeated reports whether an event has come over an earlier connection.
func (f *feed) repeated(ev Event) bool {
	if f.replay == nil {
		return false // this is the first one
	}
	if ev.ID == f.from && ev.ID != "" && f.recent[0].ID != ev.ID {
		return true // the server begins with the event that it is told, instead of behind it
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

// note remembers where the stream goes on after a new event.
func (f *feed) note(ev Event) {
	f.progress = true
	if f.seen != nil {
		f.seen(ev)
		return
	}
	if f.blind = f.blind || ev.ID == ""; f.blind {
		return
	}
	if len(f.recent) > 0 && f.recent[0].ID != ev.ID {
		f.from, f.recent = f.recent[0].ID, f.recent[:0]
	}
	if f.from == "" { // without an id the stream would go on with what comes next
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

// failure is the error that an event reports.
func (f *feed) failure(ev Event) error {
	out := &RunError{Thread: f.at.thread, Run: f.at.run}
	var said Failure
	var inner struct {
		Error *Failure `json:"__error__"`
	}
	if json.Unmarshal(ev.Data, &inner) == nil && inner.Error != nil {
		said = *inner.Error
	} else {
		_ = json.Unmarshal(ev.Data, &said) // below, what is something else is shown as it is
	}
	if out.Class, out.Message = said.Class, said.Message; out.Class == "" && out.Message == "" {
		out.Message = abridged(ev.Data)
	}
	return out
}

// ThreadStreamOptions say which events of a thread are wanted.
type ThreadStreamOptions struct {
	// Modes are "run_modes", the default, which means the events of the runs, "lifecycle", which means
	// the begin and end of runs, and "state_update".
	Modes []string
	// LastEventID is the id of an event: those behind it are wanted. "-" means all that the
	// server has. With "" the stream begins with what comes next.
	LastEventID string
}

// Stream yields the events of all runs of a thread, one after the other, until the loop is left
// or ctx ends. The end of a run is an event of mode "metadata" with {"status":"run_done"}.
// After a break of the connection it goes on behind the last event; events of runs that
// are not resumable may be missing then.
func (t Threads) Stream(ctx context.Context, id string, o *ThreadStreamOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		o := orEmpty(o)
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

// Subscription says which events of protocol v2 are wanted.
type Subscription struct {
	// Channels are some of "values", "updates", "messages", "tools", "lifecycle", "input",
	// "checkpoints", "tasks", "custom" and "custom:NAME".
	Channels   []string   `json:"channels"`
	Namespaces [][]string `json:"namespaces,omitempty"` // of nested graphs; none means all
	Depth      *int       `json:"depth,omitempty"`      // how far below the namespaces
	Since      *uint64    `json:"since,omitempty"`      // the number of an event: those behind it
}

// Events yields the events of a thread by protocol v2, LangGraph's protocol of event
// streaming, until the loop is left or ctx ends. The mode of an event is its method, and the
// data are its whole envelope. After a break of the connection it goes on behind the last
// event.
func (t Threads) Events(ctx context.Context, id string, o *Subscription) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		body := *orEmpty(o)
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

// CommandError is a refusal of a command of protocol v2.
type CommandError struct {
	Method  string
	Code    string // such as "invalid_argument" or "no_such_run"
	Message string
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("client: command %s: %s: %s", e.Method, e.Code, e.Message)
}

// Command carries out a command of protocol v2 on a thread, such as "run.start" or
// "input.respond", and returns its result. A refusal is a [*CommandError].
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
