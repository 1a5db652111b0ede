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

// Runs has the requests about runs. Where a method takes the id of a thread, "" means a run
// without a thread: its state is gone when it ends.
type Runs struct{ c *Client }

// Run is one execution of a graph on the server.
type Run struct {
	ID        string          `json:"run_id"`
	Thread    string          `json:"thread_id"`
	Assistant string          `json:"assistant_id"`
	Created   time.Time       `json:"created_at"`
	Updated   time.Time       `json:"updated_at"`
	Status    string          `json:"status"` // "pending", "running", "success", "error", "timeout", or "interrupted", which means cancelled
	Metadata  map[string]any  `json:"metadata"`
	Kwargs    json.RawMessage `json:"kwargs"` // how it was created
	Strategy  string          `json:"multitask_strategy"`
}

// RunCreate says what a run executes and how.
type RunCreate struct {
	// Assistant is the id of an assistant or the name of a graph.
	Assistant string `json:"assistant_id"`
	// Input is the input; nil continues from the state of the thread.
	Input any `json:"input"`
	// Command is sent instead of an input, to answer questions or to go somewhere.
	Command  *Command       `json:"command,omitempty"`
	Config   map[string]any `json:"config,omitempty"` // "configurable", "tags", "recursion_limit"
	Context  any            `json:"context,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
	// StreamMode has the modes of the run's events, such as "values", "updates", "messages-tuple"
	// and "custom"; none means "values".
	StreamMode []string `json:"stream_mode,omitempty"`
	Subgraphs  bool     `json:"stream_subgraphs,omitempty"` // also the events of nested graphs
	// Resumable has the server keep the run's events, so that a stream can be continued if
	// the connection breaks. Nil means true for Stream and false for the other methods.
	Resumable       *bool       `json:"stream_resumable,omitempty"`
	InterruptBefore []string    `json:"interrupt_before,omitempty"` // breakpoints; "*" means all nodes
	InterruptAfter  []string    `json:"interrupt_after,omitempty"`
	Checkpoint      *Checkpoint `json:"checkpoint,omitempty"` // where the run begins; nil means at the last one
	// Strategy says what happens if the thread has another run: "enqueue" (the default),
	// "reject", "interrupt" or "rollback".
	Strategy     string        `json:"multitask_strategy,omitempty"`
	IfNotExists  string        `json:"if_not_exists,omitempty"` // of the thread: "reject" (the default) or "create"
	OnDisconnect string        `json:"on_disconnect,omitempty"` // "continue" (the default) or "cancel"
	OnCompletion string        `json:"on_completion,omitempty"` // of a run without a thread: "delete" (the default) or "keep"
	Delay        time.Duration `json:"-"`                       // until the run may begin
	Webhook      string        `json:"webhook,omitempty"`
	FeedbackKeys []string      `json:"feedback_keys,omitempty"`
	Durability   string        `json:"durability,omitempty"` // "sync", "async" or "exit"
	// StrictResume has the run fail with UnknownInterruptError, and leaves the thread as it was, if
	// Command.Resume does not match the open questions. Otherwise the server ignores answers by the
	// ID of a question that is not open.
	StrictResume bool `json:"strict_resume,omitempty"`
	// Key makes requests with the same key one run, on servers of this module. "" means a new
	// key for each call, so that the call can be repeated if its answer is lost.
	Key string `json:"-"`
}

// MarshalJSON writes the body of a request.
func (r RunCreate) MarshalJSON() ([]byte, error) {
	type plain RunCreate
	return json.Marshal(struct {
		plain
		AfterSeconds float64 `json:"after_seconds,omitempty"`
	}{plain(r), r.Delay.Seconds()})
}

// Command answers questions of a thread, edits its state, and says where it goes on.
type Command struct {
	// Resume is the answer to the open question, or answers by the id of their question.
	// json.RawMessage("null") answers null.
	Resume any          `json:"resume,omitempty"`
	Update any          `json:"update,omitempty"`
	Goto   treadle.Goto `json:"goto,omitempty"`
}

// newRun is the request that creates a run, and what it creates.
func newRun(thread, verb string, o *RunCreate) (*request, error) {
	if o == nil || o.Assistant == "" {
		return nil, errors.New("client: runs: RunCreate.Assistant is empty: set it to an assistant or a graph")
	}
	r := write(runsPath(thread, verb), o)
	if r.key = o.Key; r.key == "" {
		key, err := uuid.NewRandom()
		if err != nil {
			return nil, err
		}
		r.key = key.String()
	}
	if thread == "" {
		r.key = o.Key // it may have ended, and then the server has forgotten its key
	}
	return r, nil
}

// runsPath is a path about the runs of a thread, or of none.
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

// runPath is a path about a run.
func runPath(thread, run string, parts ...string) string {
	if thread == "" {
		return pathOf(append([]string{"runs", run}, parts...)...)
	}
	return pathOf(append([]string{"threads", thread, "runs", run}, parts...)...)
}

// Create creates a run in the background.
func (s Runs) Create(ctx context.Context, thread string, o *RunCreate) (*Run, error) {
	r, err := newRun(thread, "", o)
	if err != nil {
		return nil, err
	}
	return object[Run](ctx, s.c, r)
}

// Batch creates several runs without threads in the background.
func (s Runs) Batch(ctx context.Context, runs []RunCreate) ([]Run, error) {
	return list[Run](ctx, s.c, write("/runs/batch", append([]RunCreate{}, runs...)))
}

// contentLocation has the ids of a run in the header Content-Location.
var contentLocation = regexp.MustCompile(`(?:/threads/([^/]+))?/runs/([^/]+)$`)

// ref names a run.
type ref struct{ thread, run string }

// created reads which run an answer is about.
func created(h http.Header, thread string) (ref, bool) {
	m := contentLocation.FindStringSubmatch(h.Get("Content-Location"))
	if m == nil {
		return ref{}, false
	}
	return ref{cmp.Or(m[1], thread), m[2]}, true
}

// begin makes a request that creates a run. If its answer is lost, a second request finds the
// run by its key, and the answer is nil.
func (s Runs) begin(ctx context.Context, thread string, r *request, o *RunCreate) (*answer, ref, error) {
	var body *answer
	keyed := r.key != ""
	once := *r
	once.key = "" // try must not repeat it with its verb: the answer would begin in the middle
	err := s.c.try(ctx, &once, func() (err error) {
		body, err = s.c.open(ctx, r)
		return err
	})
	if err == nil {
		at, _ := created(r.got, thread)
		return body, at, nil
	}
	if !keyed || ctx.Err() != nil || !s.c.retry.Retryable(err) || !s.c.honoursKeys(ctx) {
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

// Wait creates a run, waits for its end and returns the values of its state. If the run has
// stopped at questions, they are among the values as "__interrupt__". If it has failed, the
// error is a [*RunError].
func (s Runs) Wait(ctx context.Context, thread string, o *RunCreate) (json.RawMessage, error) {
	r, err := newRun(thread, "wait", o)
	if err != nil {
		return nil, err
	}
	body, at, err := s.begin(ctx, thread, r, o)
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
			return nil, named(r, cmp.Or(err, error(&lostError{errors.New("the answer is empty")})))
		}
	}
	return s.join(ctx, at, nil)
}

// result is the answer of a run: values, or an error.
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

// Join waits for the end of a run and returns what Wait does.
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
		pause, more := s.c.retry.Wait(attempt) // a server that shuts down answers nothing
		if !more {
			return nil, named(r, &lostError{errors.New("the answer is empty")})
		}
		if delay.For(ctx, pause) != nil {
			return nil, r.ended(ctx, &lostError{errors.New("the answer is empty")})
		}
	}
}

// RunList says which runs of a thread are wanted. The zero value, and nil, want the last 10.
type RunList struct {
	Limit, Offset int // at most 1,000; a limit of 0 means 10
	Status        string
	Select        []string // the fields that are wanted; none means all
}

// List returns the runs of a thread, newest first.
func (s Runs) List(ctx context.Context, thread string, o *RunList) ([]Run, error) {
	o = orEmpty(o)
	query := url.Values{"limit": {strconv.Itoa(cmp.Or(o.Limit, 10))}, "offset": {strconv.Itoa(o.Offset)}}
	if o.Status != "" {
		query.Set("status", o.Status)
	}
	if len(o.Select) > 0 {
		query["select"] = o.Select
	}
	return list[Run](ctx, s.c, get(pathOf("threads", thread, "runs"), query))
}

// Get returns a run of a thread.
func (s Runs) Get(ctx context.Context, thread, run string) (*Run, error) {
	return object[Run](ctx, s.c, get(pathOf("threads", thread, "runs", run), nil))
}

// Delete deletes a run with what it has stored.
func (s Runs) Delete(ctx context.Context, thread, run string) error {
	return s.c.call(ctx, remove(pathOf("threads", thread, "runs", run), nil), nil)
}

// CancelOptions say how a run is cancelled. The zero value, and nil, stop it at once and keep
// what it has stored.
type CancelOptions struct {
	Wait     bool // until the run has ended
	Rollback bool // undo what the run has stored and delete it
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
func (s Runs) Cancel(ctx context.Context, thread, run string, o *CancelOptions) error {
	r := read(pathOf("threads", thread, "runs", run, "cancel"), nil)
	r.query = o.query()
	return s.c.call(ctx, r, nil)
}

// CancelMany names runs: those of a thread, or all with a status.
type CancelMany struct {
	Thread   string   `json:"thread_id,omitempty"`
	Runs     []string `json:"run_ids,omitempty"`
	Status   string   `json:"status,omitempty"` // "pending", "running" or "all"; without Thread
	Rollback bool     `json:"-"`                // undo what the runs have stored and delete them
}

// CancelMany cancels runs. If there are none, the error is an ErrNotFound.
func (s Runs) CancelMany(ctx context.Context, o *CancelMany) error {
	o = orEmpty(o)
	r := read("/runs/cancel", o)
	r.query = (&CancelOptions{Rollback: o.Rollback}).query()
	return s.c.call(ctx, r, nil)
}

// Stream creates a run and yields its events until it ends. If the connection breaks, the
// stream goes on behind the last event, as long as the run is resumable; see
// [RunCreate.Resumable]. A failure of the run is a [*RunError] at the end. Leaving the loop
// closes the connection; the run goes on unless OnDisconnect is "cancel".
func (s Runs) Stream(ctx context.Context, thread string, o *RunCreate) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s.stream(ctx, thread, o, nil, yield)
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
	f := s.feed(at, &JoinOptions{LastEventID: "-1"}) // all events, if none has come
	f.alive = alive
	f.resumable = func(context.Context) bool { return *made.Resumable && at.run != "" }
	f.follow(ctx, body, yield)
}

// JoinOptions say which events of a run are wanted.
type JoinOptions struct {
	// LastEventID is the id of an event: those behind it are wanted. "-1" means all events of
	// a resumable run. With "" LangGraph's servers begin with what comes next, and servers of
	// this module with the first event that they still have.
	LastEventID        string
	StreamMode         []string // some of those of the run; none means all
	CancelOnDisconnect bool     // cancel the run when the loop is left or the connection breaks
}

// JoinStream yields the events of a run that exists, until it ends. It goes on after a
// break of the connection as Stream does.
func (s Runs) JoinStream(ctx context.Context, thread, run string, o *JoinOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		at := ref{thread, run}
		f := s.feed(at, orEmpty(o))
		f.resumable = func(ctx context.Context) bool { return s.kept(ctx, at) }
		f.follow(ctx, nil, yield)
	}
}

// feed is the stream of a run.
func (s Runs) feed(at ref, o *JoinOptions) *feed {
	query := url.Values{}
	if len(o.StreamMode) > 0 {
		query["stream_mode"] = o.StreamMode
	}
	if o.CancelOnDisconnect {
		query.Set("cancel_on_disconnect", "1")
	}
	r := get(runPath(at.thread, at.run, "stream"), query)
	r.stream = true
	return &feed{c: s.c, r: r, at: at, from: o.LastEventID}
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
