package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/delay"
)

// Runs groups the methods for runs. Where a method takes a thread ID, "" means a run
// without a thread, whose state is deleted when it ends.
type Runs struct{ c *Client }

// A Run is one execution of a graph on the server.
type Run struct {
	ID        string          `json:"run_id"`
	Thread    string          `json:"thread_id"`
	Assistant string          `json:"assistant_id"`
	Created   time.Time       `json:"created_at"`
	Updated   time.Time       `json:"updated_at"`
	Status    string          `json:"status"` // "pending", "running", "success", "error", "timeout", or "interrupted", which means canceled
	Metadata  map[string]any  `json:"metadata"`
	Kwargs    json.RawMessage `json:"kwargs"` // the arguments that created it
	Strategy  string          `json:"multitask_strategy"`
}

// RunCreate describes a run to create.
type RunCreate struct {
	// Assistant is an assistant ID or a graph name.
	Assistant string `json:"assistant_id"`
	// Input is the input; nil continues from the thread's state.
	Input any `json:"input"`
	// Command replaces the input to answer interrupts or to go to other nodes.
	Command  *Command       `json:"command,omitempty"`
	Config   map[string]any `json:"config,omitempty"` // "configurable", "tags", "recursion_limit"
	Context  any            `json:"context,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
	// StreamMode lists the modes of the run's events, such as "values", "updates",
	// "messages-tuple", and "custom"; empty means "values".
	StreamMode []string `json:"stream_mode,omitempty"`
	Subgraphs  bool     `json:"stream_subgraphs,omitempty"` // include the events of subgraphs
	// Resumable makes the server keep the run's events, so that a stream can resume
	// after the connection breaks. Nil means true for Stream and false for the other
	// methods.
	Resumable       *bool       `json:"stream_resumable,omitempty"`
	InterruptBefore []string    `json:"interrupt_before,omitempty"` // breakpoints; "*" means all nodes
	InterruptAfter  []string    `json:"interrupt_after,omitempty"`
	Checkpoint      *Checkpoint `json:"checkpoint,omitempty"` // where the run starts; nil means the latest checkpoint
	// Strategy controls what happens if the thread has another unfinished run:
	// "enqueue" (the default), "reject", "interrupt", or "rollback".
	Strategy     string        `json:"multitask_strategy,omitempty"`
	IfNotExists  string        `json:"if_not_exists,omitempty"` // if the thread does not exist: "reject" (the default) or "create"
	OnDisconnect string        `json:"on_disconnect,omitempty"` // "continue" (the default) or "cancel"
	OnCompletion string        `json:"on_completion,omitempty"` // for a run without a thread: "delete" (the default) or "keep"
	Delay        time.Duration `json:"-"`                       // minimum delay before the run starts
	Webhook      string        `json:"webhook,omitempty"`
	FeedbackKeys []string      `json:"feedback_keys,omitempty"`
	Durability   string        `json:"durability,omitempty"` // "sync", "async", or "exit"
	// StrictResume makes the run fail with UnknownInterruptError, leaving the thread
	// unchanged, if Command.Resume does not match the pending interrupts. Otherwise,
	// the server ignores answers with the ID of an interrupt that is not pending.
	StrictResume bool `json:"strict_resume,omitempty"`
	// Key is the idempotency key: on servers of this module, requests with the same key
	// create one run. "" means a new key for each call, so that the call can be retried
	// if its response is lost.
	Key string `json:"-"`
}

// MarshalJSON encodes the request body.
func (r RunCreate) MarshalJSON() ([]byte, error) {
	type plain RunCreate
	return json.Marshal(struct {
		plain
		AfterSeconds float64 `json:"after_seconds,omitempty"`
	}{plain(r), r.Delay.Seconds()})
}

// A Command answers a thread's interrupts, edits its state, and selects the next nodes.
type Command struct {
	// Resume is the answer to the pending interrupt, or a map of answers by interrupt
	// ID. json.RawMessage("null") answers null.
	Resume any          `json:"resume,omitempty"`
	Update any          `json:"update,omitempty"`
	Goto   treadle.Goto `json:"goto,omitempty"`
}

// newRun returns the request that creates a run.
func newRun(thread, verb string, o *RunCreate) (*request, error) {
	if o == nil || o.Assistant == "" {
		return nil, errors.New("client: runs: RunCreate.Assistant is empty: set it to an assistant or a graph")
	}
	r := write(runsPath(thread, verb), o)
	r.key = o.Key
	if r.key == "" {
		key, err := uuid.NewRandom()
		if err != nil {
			return nil, err
		}
		r.key = key.String()
	}
	if thread == "" {
		r.key = o.Key // the run may have ended, and the server has then deleted its key
	}
	return r, nil
}

// runsPath returns a path for the runs of a thread, or for runs without a thread.
func runsPath(thread string, parts ...string) string {
	all := []string{"runs"}
	if thread != "" {
		all = []string{"threads", thread, "runs"}
	}
	for _, part := range parts {
		if part != "" {
			all = append(all, part)
		}
	}
	return pathOf(all...)
}

// runPath returns a path for a run.
func runPath(thread, run string, parts ...string) string {
	if thread == "" {
		return pathOf(append([]string{"runs", run}, parts...)...)
	}
	return pathOf(append([]string{"threads", thread, "runs", run}, parts...)...)
}

// Create creates a run in the background.
func (s Runs) Create(ctx context.Context, thread string, opts *RunCreate) (*Run, error) {
	r, err := newRun(thread, "", opts)
	if err != nil {
		return nil, err
	}
	return object[Run](ctx, s.c, r)
}

// Batch creates several runs without threads in the background.
func (s Runs) Batch(ctx context.Context, runs []RunCreate) ([]Run, error) {
	return list[Run](ctx, s.c, write("/runs/batch", append([]RunCreate{}, runs...)))
}

// contentLocation matches the IDs of a run in the Content-Location header.
var contentLocation = regexp.MustCompile(`(?:/threads/([^/]+))?/runs/([^/]+)$`)

// ref identifies a run.
type ref struct{ thread, run string }

// created returns the run that a response refers to.
func created(h http.Header, thread string) (ref, bool) {
	m := contentLocation.FindStringSubmatch(h.Get("Content-Location"))
	if m == nil {
		return ref{}, false
	}
	return ref{cmp.Or(m[1], thread), m[2]}, true
}

// begin sends a request that creates a run. If its response is lost, a second request
// finds the run by its key, and the returned answer is nil.
func (s Runs) begin(ctx context.Context, thread string, r *request, o *RunCreate) (*answer, ref, error) {
	var body *answer
	keyed := r.key != ""
	once := *r
	once.key = "" // try must not repeat it with its verb: the response would start in the middle
	err := s.c.try(ctx, &once, func() (err error) {
		body, err = s.c.open(ctx, r)
		return err
	})
	if err == nil {
		at, _ := created(r.got, thread)
		return body, at, nil
	}
	if !keyed || ctx.Err() != nil || !s.c.retry.Retryable(err) || !s.c.honorsKeys(ctx) {
		return nil, ref{}, err
	}
	again := *o
	again.Key = r.key
	run, err := s.Create(ctx, thread, &again)
	if err != nil {
		return nil, ref{}, err
	}
	return nil, ref{thread, run.ID}, nil
}

// Wait creates a run, waits until it ends, and returns the values of its state. If the
// run was interrupted, the values include the interrupts as "__interrupt__". If the run
// failed, Wait returns a [*RunError].
func (s Runs) Wait(ctx context.Context, thread string, opts *RunCreate) (json.RawMessage, error) {
	r, err := newRun(thread, "wait", opts)
	if err != nil {
		return nil, err
	}
	body, at, err := s.begin(ctx, thread, r, opts)
	if err != nil {
		return nil, err
	}
	if body != nil {
		raw, err := s.c.all(r, body)
		body.close()
		switch {
		case err == nil && len(bytes.TrimSpace(raw)) > 0:
			return result(at, r, raw)
		case ctx.Err() != nil:
			return nil, r.ended(ctx, err)
		case at.run == "" || err != nil && !s.c.retry.Retryable(err):
			return nil, named(r, cmp.Or(err, error(&lostError{errors.New("empty response")})))
		}
	}
	return s.join(ctx, at, nil)
}

// result returns the result of a run: values, or an error.
func result(at ref, r *request, raw []byte) (json.RawMessage, error) {
	var failed struct {
		Error *Failure `json:"__error__"`
	}
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) {
		return nil, r.decode(raw, new(json.RawMessage))
	}
	if bytes.Contains(raw, []byte(`"__error__"`)) && json.Unmarshal(raw, &failed) == nil && failed.Error != nil {
		return nil, &RunError{at.thread, at.run, failed.Error.Class, failed.Error.Message}
	}
	return raw, nil
}

// Join waits until a run ends and returns the same result as [Runs.Wait].
func (s Runs) Join(ctx context.Context, thread, run string) (json.RawMessage, error) {
	return s.join(ctx, ref{thread, run}, nil)
}

func (s Runs) join(ctx context.Context, at ref, alive func()) (json.RawMessage, error) {
	r := get(runPath(at.thread, at.run, "join"), nil)
	r.alive = alive
	for attempt := 1; ; attempt++ {
		raw, err := s.c.fetch(ctx, r)
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(raw)) > 0 {
			return result(at, r, raw)
		}
		pause, more := s.c.retry.Wait(attempt) // a server that shuts down sends an empty response
		if !more {
			return nil, named(r, &lostError{errors.New("empty response")})
		}
		if delay.For(ctx, pause) != nil {
			return nil, r.ended(ctx, &lostError{errors.New("empty response")})
		}
	}
}

// RunList selects runs of a thread. A nil *RunList, like the zero value, selects the
// last 10.
type RunList struct {
	Limit, Offset int // at most 1,000; a limit of 0 means 10
	Status        string
	Select        []string // fields to return; empty means all
}

// List returns the runs of a thread, newest first.
func (s Runs) List(ctx context.Context, thread string, opts *RunList) ([]Run, error) {
	opts = orEmpty(opts)
	query := url.Values{"limit": {strconv.Itoa(cmp.Or(opts.Limit, 10))}, "offset": {strconv.Itoa(opts.Offset)}}
	if opts.Status != "" {
		query.Set("status", opts.Status)
	}
	if len(opts.Select) > 0 {
		query["select"] = opts.Select
	}
	return list[Run](ctx, s.c, get(pathOf("threads", thread, "runs"), query))
}

// Get returns a run of a thread.
func (s Runs) Get(ctx context.Context, thread, run string) (*Run, error) {
	return object[Run](ctx, s.c, get(pathOf("threads", thread, "runs", run), nil))
}

// Delete deletes a run and everything that it saved.
func (s Runs) Delete(ctx context.Context, thread, run string) error {
	return s.c.call(ctx, remove(pathOf("threads", thread, "runs", run), nil), nil)
}

// CancelOptions configures [Runs.Cancel]. A nil *CancelOptions, like the zero value,
// stops the run immediately and keeps everything that it saved.
type CancelOptions struct {
	Wait     bool // wait until the run has ended
	Rollback bool // undo everything that the run saved, and delete the run
}

func (o *CancelOptions) query() url.Values {
	query := url.Values{}
	if o != nil && o.Rollback {
		query.Set("action", "rollback")
	}
	if o != nil && o.Wait {
		query.Set("wait", "1")
	}
	return query
}

// Cancel cancels a run of a thread.
func (s Runs) Cancel(ctx context.Context, thread, run string, opts *CancelOptions) error {
	r := read(pathOf("threads", thread, "runs", run, "cancel"), nil)
	r.query = opts.query()
	return s.c.call(ctx, r, nil)
}

// CancelMany selects runs: runs of a thread, or all runs with a status.
type CancelMany struct {
	Thread   string   `json:"thread_id,omitempty"`
	Runs     []string `json:"run_ids,omitempty"`
	Status   string   `json:"status,omitempty"` // "pending", "running", or "all"; without Thread
	Rollback bool     `json:"-"`                // undo everything that the runs saved, and delete them
}

// CancelMany cancels runs. It returns an error matching [ErrNotFound] if there are
// none.
func (s Runs) CancelMany(ctx context.Context, opts *CancelMany) error {
	opts = orEmpty(opts)
	r := read("/runs/cancel", opts)
	r.query = (&CancelOptions{Rollback: opts.Rollback}).query()
	return s.c.call(ctx, r, nil)
}

// Stream creates a run and yields its events until it ends. If the connection breaks,
// the stream resumes after the last event received, provided that the run is resumable;
// see [RunCreate.Resumable]. If the run fails, the last error is a [*RunError]. Leaving
// the loop closes the connection; the run continues unless OnDisconnect is "cancel".
func (s Runs) Stream(ctx context.Context, thread string, opts *RunCreate) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s.stream(ctx, thread, opts, nil, yield)
	}
}

func (s Runs) stream(ctx context.Context, thread string, o *RunCreate, alive func(), yield func(Event, error) bool) {
	made := *orEmpty(o)
	if made.Resumable == nil {
		made.Resumable = new(true)
	}
	r, err := newRun(thread, "stream", &made)
	if err != nil {
		yield(Event{}, err)
		return
	}
	r.stream, r.alive = true, alive
	body, at, err := s.begin(ctx, thread, r, &made)
	if err != nil {
		yield(Event{}, err)
		return
	}
	f := s.feed(at, &JoinOptions{LastEventID: "-1"}) // all events, if none has arrived
	f.alive = alive
	f.resumable = func(context.Context) bool { return *made.Resumable && at.run != "" }
	f.follow(ctx, body, yield)
}

// JoinOptions configures [Runs.JoinStream].
type JoinOptions struct {
	// LastEventID is an event ID; the stream starts after that event. "-1" means all
	// events of a resumable run. With "", LangGraph's servers start with the next new
	// event, and servers of this module start with the first event that they still
	// have.
	LastEventID        string
	StreamMode         []string // a subset of the run's modes; empty means all
	CancelOnDisconnect bool     // cancel the run when the loop ends or the connection breaks
}

// JoinStream yields the events of an existing run until it ends. After a broken
// connection, it resumes as Stream does.
func (s Runs) JoinStream(ctx context.Context, thread, run string, opts *JoinOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		at := ref{thread, run}
		f := s.feed(at, orEmpty(opts))
		f.resumable = func(ctx context.Context) bool { return s.kept(ctx, at) }
		f.follow(ctx, nil, yield)
	}
}

// feed returns the stream of a run.
func (s Runs) feed(at ref, opts *JoinOptions) *feed {
	query := url.Values{}
	if len(opts.StreamMode) > 0 {
		query["stream_mode"] = opts.StreamMode
	}
	if opts.CancelOnDisconnect {
		query.Set("cancel_on_disconnect", "1")
	}
	r := get(runPath(at.thread, at.run, "stream"), query)
	r.stream = true
	return &feed{c: s.c, r: r, at: at, from: opts.LastEventID}
}

// kept reports whether the server keeps the events of a run.
func (s Runs) kept(ctx context.Context, at ref) bool {
	if at.thread == "" {
		return false
	}
	run, err := s.Get(ctx, at.thread, at.run)
	if err != nil {
		return false
	}
	var kwargs struct {
		Resumable bool `json:"resumable"`
	}
	return json.Unmarshal(run.Kwargs, &kwargs) == nil && kwargs.Resumable
}
