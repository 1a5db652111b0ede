package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// a2aMethods maps the A2A method names of versions 0.3 and 1.0 to their implementations.
var a2aMethods = map[string]func(*a2aCall, json.RawMessage) (any, error){
	"message/send":                       (*a2aCall).send,
	"SendMessage":                        (*a2aCall).send,
	"message/stream":                     (*a2aCall).stream,
	"SendStreamingMessage":               (*a2aCall).stream,
	"tasks/resubscribe":                  (*a2aCall).resubscribe,
	"SubscribeToTask":                    (*a2aCall).resubscribe,
	"tasks/get":                          (*a2aCall).get,
	"GetTask":                            (*a2aCall).get,
	"tasks/cancel":                       (*a2aCall).cancel,
	"CancelTask":                         (*a2aCall).cancel,
	"tasks/list":                         (*a2aCall).list,
	"ListTasks":                          (*a2aCall).list,
	"agent/getAuthenticatedExtendedCard": (*a2aCall).card,
	"GetExtendedAgentCard":               (*a2aCall).extendedCard,

	"tasks/pushNotificationConfig/set":    (*a2aCall).addPush,
	"CreateTaskPushNotificationConfig":    (*a2aCall).addPush,
	"tasks/pushNotificationConfig/get":    (*a2aCall).getPush,
	"GetTaskPushNotificationConfig":       (*a2aCall).getPush,
	"tasks/pushNotificationConfig/list":   (*a2aCall).listPushes,
	"ListTaskPushNotificationConfigs":     (*a2aCall).listPushes,
	"tasks/pushNotificationConfig/delete": (*a2aCall).deletePush,
	"DeleteTaskPushNotificationConfig":    (*a2aCall).deletePush,
}

// a2aStreams lists the methods of version 0.3 whose responses are streams, also if they are errors.
var a2aStreams = []string{"message/stream", "tasks/resubscribe"}

// a2aCall is a call to an assistant as an A2A agent. An A2A context is a thread, and a task is
// a run on it.
type a2aCall struct {
	*call
	a2aView
	a     *ledger.Assistant
	id    json.RawMessage // request ID
	began bool            // the response is a stream whose headers have been sent
}

// a2aView shows the runs of an assistant as tasks.
type a2aView struct {
	v1        bool // for version 1.0
	assistant uuid.UUID
	fields    []string // fields of the graph's input
}

func (s a2aAPI) serve(c *call) error {
	a, _, err := s.assistants().named(c)
	if err != nil {
		return err
	}
	raw, err := c.body()
	if err != nil {
		return err
	}
	req, rpcErr := parseRPC(raw)
	x := &a2aCall{call: c, a: a, id: req.ID, a2aView: a2aView{assistant: a.ID}}
	if x.v1, err = a2aVersion(c.r, req.Method); err != nil {
		return x.fail(req.Method, err)
	}
	if kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")); x.v1 && kind != "" && kind != "application/json" {
		return x.fail(req.Method, &rpcError{Code: codeContentType, Message: "Content-Type: want application/json, not " + kind})
	}
	if rpcErr != nil {
		return x.fail(req.Method, rpcErr)
	}
	method := a2aMethods[req.Method]
	if method == nil {
		return x.fail(req.Method, &rpcError{Code: codeNoMethod, Message: "Method not found: " + req.Method})
	}
	if x.fields, err = s.inputFields(a.Graph); err != nil {
		return err
	}
	if x.v1 {
		req.Params = camelKeys(req.Params)
	}
	result, err := method(x, req.Params)
	switch {
	case x.began:
		return nil
	case err != nil:
		return x.fail(req.Method, err)
	}
	return c.rpc(http.StatusOK, req.ID, result, nil)
}

// inputFields returns the names of the fields of a graph's input.
func (s a2aAPI) inputFields(graph string) ([]string, error) {
	g := s.runner.Graph(graph)
	if g == nil {
		return nil, fail(http.StatusNotFound, "graph %q is not served", graph)
	}
	schemas, err := g.Schemas()
	if err != nil || schemas.Input == nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(schemas.Input.Properties)), nil
}

// fail responds with an error. In version 0.3, the response of a method that streams is a stream.
func (x *a2aCall) fail(method string, err error) error {
	status, e := x.rpcErrorOf(err)
	if x.v1 {
		e = explained(e)
	}
	if x.v1 || status != http.StatusOK || !slices.Contains(a2aStreams, method) {
		return x.rpc(status, x.id, nil, e)
	}
	data, err := json.Marshal(rpcAnswer(x.id, nil, e))
	if err != nil {
		return err
	}
	stream := x.events()
	stream.frame("message", nil, "", data)
	return ignored(stream.flush())
}

// extendedCard returns the card for an authenticated caller. Without Auth, the card does not announce
// it.
func (x *a2aCall) extendedCard(json.RawMessage) (any, error) {
	if !x.s.authenticates() {
		return nil, &rpcError{Code: codeNoCard, Message: "The agent has no extended card"}
	}
	return cardOf(x.call, x.a, true), nil
}

// authenticates reports whether callers have a user.
func (s *Server) authenticates() bool { return s.o.Auth != nil && s.o.Auth.Authenticate != nil }

// params decodes the parameters of a method.
func params[T any](raw json.RawMessage) (*T, error) {
	v := new(T)
	if len(raw) == 0 || string(raw) == "null" {
		return v, nil
	}
	return v, decodeJSON(raw, v)
}

// begin creates the run for a message.
func (x *a2aCall) begin(raw json.RawMessage) (*ledger.Run, *sendParams, error) {
	p, err := params[sendParams](raw)
	if err != nil {
		return nil, nil, err
	}
	if err := p.read(); err != nil {
		return nil, nil, err
	}
	b := &runBody{Assistant: x.a.ID.String(), IfNotExists: "create", StreamMode: nodeList{"values", "messages-tuple"}, Metadata: ledger.Object{}}
	thread, err := x.context(p)
	if err != nil {
		return nil, nil, err
	}
	if id := p.message.ContextID; id != "" && id != thread.String() {
		b.Metadata[contextKey] = id
	}
	if err := x.fill(b, p, thread); err != nil {
		return nil, nil, err
	}
	if err := x.pushTo(b, p, thread); err != nil {
		return nil, nil, err
	}
	run, err := x.s.runs().createFrom(x.call, b, &thread)
	return run, p, err
}

// context returns the thread that a message belongs to.
func (x *a2aCall) context(p *sendParams) (uuid.UUID, error) {
	if p.message.TaskID != "" {
		thread, _, err := x.taskID(string(p.message.TaskID), p.message.ContextID)
		return thread, err
	}
	switch key := x.r.Header.Get(idempotencyKey); {
	case p.message.ContextID != "":
		return x.threadOf(p.message.ContextID), nil
	case key != "": // the same context if the message is sent again
		return x.owned("key\x00" + key), nil
	}
	return uuid.NewV7()
}

// a2aThreads is the namespace of the IDs of threads whose contexts have IDs that are not UUIDs, or are new.
var a2aThreads = uuid.MustParse("0c8a8f5e-3a55-4b3f-8f0e-5d3c1f6a2b90")

// contextKey is the key of a run's metadata that holds the client's ID of its context, if it is
// not the ID of the thread.
const contextKey = "a2a_context_id"

// threadOf returns the thread of a context. Contexts whose IDs are not UUIDs belong to the
// caller.
func (x *a2aCall) threadOf(context string) uuid.UUID {
	if id, err := uuid.Parse(context); err == nil && len(context) == 36 {
		return id
	}
	return x.owned(context)
}

// owned returns the ID of a thread of the caller.
func (x *a2aCall) owned(name string) uuid.UUID {
	owner := ""
	if x.user != nil {
		owner = x.user.Identity
	}
	return uuid.NewSHA1(a2aThreads, []byte(owner+"\x00"+name))
}

// contextOf returns the context ID of a run.
func contextOf(run *ledger.Run) string {
	if id, _ := run.Metadata[contextKey].(string); id != "" {
		return id
	}
	return run.Thread.String()
}

// fill sets what the run does: it resumes an interrupted thread with the message as the answer,
// or takes the message as its input.
func (x *a2aCall) fill(b *runBody, p *sendParams, thread uuid.UUID) error {
	t, err := x.threadAt(thread)
	if err != nil {
		return err
	}
	if key := x.r.Header.Get(idempotencyKey); t != nil && key != "" {
		_, err := x.s.ledger.RunWithKey(x.r.Context(), thread, key)
		if err == nil {
			return nil // the message is sent again, so its run is not created
		}
		if !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
	}
	if id := p.message.TaskID; id != "" {
		if err := x.continues(b, t, string(id), p.message.ContextID); err != nil {
			return err
		}
	}
	var open []question
	if t != nil && (t.Task != uuid.Nil || t.Status != ledger.Busy) { // otherwise, a run already continues
		open = questions(t.Interrupts)
	}
	if len(open) > 0 {
		b.Command, err = p.command(open)
		return err
	}
	if p.resume() != nil {
		return &rpcError{Code: codeParams, Message: "message.parts: the task does not wait for an answer"}
	}
	b.Input, err = x.input(p)
	return err
}

// threadAt returns a thread that the caller may read, or nil if it does not exist.
func (x *a2aCall) threadAt(id uuid.UUID) (*ledger.Thread, error) {
	f, err := x.may("threads", "read", map[string]any{"thread_id": id.String()})
	if err != nil {
		return nil, err
	}
	t, err := x.s.ledger.Thread(x.r.Context(), id, f)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil
	}
	return t, err
}

// continues checks that a message may continue a task and adds its run to the task.
func (x *a2aCall) continues(b *runBody, t *ledger.Thread, id, context string) error {
	if t == nil {
		return &rpcError{Code: codeNoTask, Message: "Task not found: " + id}
	}
	_, first, err := x.taskID(id, context)
	if err != nil {
		return err
	}
	task, err := x.current(t, first)
	if err != nil {
		return err
	}
	if b.Metadata[contextKey] == nil && task.run.Metadata[contextKey] != nil {
		b.Metadata[contextKey] = task.run.Metadata[contextKey]
	}
	if state := task.state(); state.Terminal() {
		return &rpcError{Code: codeUnsupported, Message: "Task " + id + " is " + string(state) + ": send the message without its taskId"}
	}
	b.task = first
	return nil
}

// storedTask is a task as recorded in the database.
type storedTask struct {
	run    *ledger.Run    // the task's last run
	t      *ledger.Thread // read when run was the last one, or later
	latest bool           // run is the thread's latest run
}

// current returns a task of the assistant. t is its thread, as of now or earlier.
func (x *a2aCall) current(t *ledger.Thread, first uuid.UUID) (*storedTask, error) {
	for {
		task, err := x.s.ledger.Task(x.r.Context(), t.ID, first)
		if errors.Is(err, ledger.ErrNotFound) || err == nil && cmp.Or(task.First, task.Last).Assistant != x.a.ID {
			return nil, &rpcError{Code: codeNoTask, Message: "Task not found: " + t.ID.String() + ":" + first.String()}
		}
		if err != nil {
			return nil, err
		}
		run := task.Last
		if !run.Waits || t.Task == first {
			return &storedTask{run, t, task.Latest}, nil
		}
		// The task has stopped waiting since the run ended, or t is older than that.
		if t, err = x.s.ledger.Thread(x.r.Context(), t.ID, nil); err != nil {
			return nil, err
		}
		if task, err = x.s.ledger.Task(x.r.Context(), t.ID, first); err == nil && task.Last.ID == run.ID {
			return &storedTask{run, t, task.Latest}, nil
		}
	}
}

// taskID parses a task ID, "thread:run". If context is set, the run ID alone suffices.
func (x *a2aCall) taskID(id, context string) (thread, run uuid.UUID, err error) {
	if context != "" {
		context = x.threadOf(context).String()
	}
	first, second, ok := strings.Cut(id, ":")
	if !ok {
		first, second = context, id
	}
	if context != "" && first != context {
		return thread, run, &rpcError{Code: codeParams, Message: "contextId: the task belongs to another context"}
	}
	if thread, err = uuid.Parse(first); err == nil {
		run, err = uuid.Parse(second)
	}
	if err != nil || len(first) != 36 || len(second) != 36 {
		return thread, run, &rpcError{Code: codeNoTask, Message: "Task not found: " + id}
	}
	return thread, run, nil
}

// send responds with the task when it has ended or needs input, or immediately if the client requests
// it.
func (x *a2aCall) send(raw json.RawMessage) (any, error) {
	run, p, err := x.begin(raw)
	if err != nil {
		return nil, err
	}
	length := p.Configuration.HistoryLength
	if p.immediate() {
		return x.wrap("task", x.submitted(run, p))
	}
	run, entry, err := x.outcome(x.r.Context(), run)
	if err != nil {
		return nil, err
	}
	if entry == nil { // the task was canceled
		return x.wrapped(x.storedTask(run, length))
	}
	values := entry.Data()
	open := asked(values)
	task := x.task(run, stateAtEnd(entry.End, open), values)
	if m := x.direct(run, task, values); m != nil {
		return x.wrap("message", m)
	}
	x.explain(run, task, entry.End.Message, open)
	trim(task, length)
	return x.wrap("task", task)
}

// wrap returns a result under the key that identifies its kind in version 1.0.
func (x *a2aCall) wrap(kind string, v any) (any, error) {
	if !x.v1 {
		return v, nil
	}
	out, err := asV1(v)
	return map[string]any{kind: out}, err
}

// wrapped is like wrap, for a task.
func (x *a2aCall) wrapped(task *a2a.Task, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return x.wrap("task", task)
}

// shown returns a task as the client's version has it.
func (x *a2aCall) shown(task *a2a.Task, err error) (any, error) {
	if err != nil || !x.v1 {
		return task, err
	}
	return asV1(task)
}

// stream creates a task and streams its events.
func (x *a2aCall) stream(raw json.RawMessage) (any, error) {
	run, p, err := x.begin(raw)
	if err != nil {
		return nil, err
	}
	e, say := x.open()
	say("task", x.submitted(run, p))
	last, err := x.follow(e, say, run, true)
	if err == nil && continuesByItself(last) {
		return nil, x.await(e, say, run, last.Seq, false)
	}
	x.s.runs().cut(x.call, err)
	return nil, ignored(err)
}

// resubscribe streams the events of a task from the start of its last run, for a client that lost
// its stream. For a task that has ended, the stream contains only the task. Version 1.0
// rejects subscriptions to tasks in a terminal state, and continues those to tasks that need input.
func (x *a2aCall) resubscribe(raw json.RawMessage) (any, error) {
	p, named, err := x.namedTask(raw, "read")
	if err != nil {
		return nil, err
	}
	if state := named.state(); x.v1 && state.Terminal() {
		return nil, &rpcError{Code: codeUnsupported, Message: "Task " + p.ID + " is " + string(state) + ": get it instead"}
	}
	task, err := x.stored(named, p.HistoryLength)
	if err != nil {
		return nil, err
	}
	after := max(named.t.Seq, x.s.runner.LastSeq(named.t.ID))
	e, say := x.open()
	say("task", task)
	if named.run.Status == ledger.Pending || named.run.Status == ledger.Running {
		last, err := x.follow(e, say, named.run, false)
		if err == nil && continuesByItself(last) {
			return nil, x.await(e, say, named.run, last.Seq, false)
		}
		if x.s.runs().cut(x.call, err); err != nil || last != nil || x.r.Context().Err() != nil {
			return nil, ignored(err)
		}
		// The run has ended, and its last events were discarded.
		if _, named, err = x.namedTask(raw, "read"); err == nil {
			after = max(named.t.Seq, x.s.runner.LastSeq(named.t.ID))
			task, err = x.stored(named, p.HistoryLength)
		}
		if err != nil {
			x.s.runs().cut(x.call, &cutError{err})
			return nil, nil
		}
	}
	if state := named.state(); !state.Terminal() && (x.v1 || state != a2a.TaskStateInputRequired) {
		return nil, x.await(e, say, named.run, after, x.v1)
	}
	say("statusUpdate", a2a.TaskStatusUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Status: task.Status, Final: true})
	return nil, ignored(e.flush())
}

// continuesByItself reports whether a task continues after the end of its run, without input.
func continuesByItself(last *runs.Entry) bool {
	return last != nil && !last.End.Lost && stateAtEnd(last.End, asked(last.Data())) == a2a.TaskStateWorking
}

// await streams the events of the next runs of a task that waits, from an entry of its thread on, until
// the task ends. Unless throughout is set, it also stops when the task needs input.
func (x *a2aCall) await(e *events, say func(kind string, v any), run *ledger.Run, after uint64, throughout bool) error {
	if err := e.flush(); err != nil {
		return ignored(err)
	}
	later := x.later(run)
	var text streamedText
	ended, err := e.follow(x.r.Context(), func(ctx context.Context) iter.Seq2[*runs.Entry, error] {
		return x.entries(ctx, run, after)
	}, func(entry *runs.Entry) bool {
		run := later(entry)
		if run != nil && entry.End != nil {
			state := x.last(run, entry, say)
			return !state.Terminal() && (throughout || state != a2a.TaskStateInputRequired)
		}
		if run != nil {
			x.showText(&text, run, entry, say)
		}
		return true
	})
	if err == nil && !ended && x.r.Context().Err() == nil && !x.s.runner.Draining() {
		var task *a2a.Task
		if task, err = x.storedTask(run, nil); err == nil {
			say("statusUpdate", a2a.TaskStatusUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Status: task.Status, Final: true})
			return ignored(e.flush())
		}
		err = &cutError{err}
	}
	x.s.runs().cut(x.call, err)
	return ignored(err)
}

// later returns a function that returns the run of an entry if it belongs to the same task as run, or
// else nil.
func (x *a2aCall) later(run *ledger.Run) func(*runs.Entry) *ledger.Run {
	var other uuid.UUID // a run of another task
	return func(entry *runs.Entry) *ledger.Run {
		switch entry.Run {
		case run.ID:
			return run
		case other:
			return nil
		}
		next, err := x.s.ledger.Run(x.r.Context(), run.Thread, entry.Run, nil)
		switch {
		case err == nil && next.First() == run.First():
			run = next
			return run
		case err == nil || errors.Is(err, ledger.ErrNotFound):
			other = entry.Run
		}
		return nil
	}
}

// watchEvery is the interval at which a client's task that waits is checked for its cancellation, which
// adds no entry to the thread.
const watchEvery = time.Second

// entries yields the entries of a thread after a number, until the task of run, which waits, is
// canceled or deleted.
func (x *a2aCall) entries(ctx context.Context, run *ledger.Run, after uint64) iter.Seq2[*runs.Entry, error] {
	return func(yield func(*runs.Entry, error) bool) {
		var watching sync.WaitGroup
		defer watching.Wait()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		watching.Go(func() {
			for delay.For(ctx, watchEvery) == nil {
				task, err := x.currentOf(run)
				if _, gone := errors.AsType[*rpcError](err); gone || err == nil && task.state() == a2a.TaskStateCanceled && task.run.Waits {
					stop()
				}
			}
		})
		for entry, err := range x.s.runner.ReadThread(ctx, run.Thread, after) {
			if ctx.Err() != nil || !yield(entry, err) {
				return
			}
		}
	}
}

// currentOf returns the task of a run.
func (x *a2aCall) currentOf(run *ledger.Run) (*storedTask, error) {
	t, err := x.s.ledger.Thread(x.r.Context(), run.Thread, nil)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, &rpcError{Code: codeNoTask, Message: "Task not found: " + run.Thread.String() + ":" + firstRun(run)}
	}
	if err != nil {
		return nil, err
	}
	return x.current(t, run.First())
}

// storedTask returns the task of a run as recorded in the database.
func (x *a2aCall) storedTask(run *ledger.Run, length *int) (*a2a.Task, error) {
	task, err := x.currentOf(run)
	if err != nil {
		return nil, err
	}
	return x.stored(task, length)
}

// showText sends the text that the model has written so far, if an entry adds to it.
func (x *a2aCall) showText(text *streamedText, run *ledger.Run, entry *runs.Entry, say func(kind string, v any)) {
	if entry.Protocol == runs.Classic && entry.Name == "messages" && len(entry.NS) == 0 && text.add(entry.Data()) {
		say("statusUpdate", x.update(run, a2a.TaskStateWorking, x.message(run, a2a.MessageRoleAgent, a2a.NewMessageID(), a2a.TextPart{Text: text.sent})))
	}
}

// open starts the response stream and returns a function that sends an event.
func (x *a2aCall) open() (*events, func(kind string, v any)) {
	x.began = true
	e := x.events()
	return e, func(kind string, v any) {
		shown, err := x.wrap(kind, v)
		if err != nil {
			return
		}
		if data, err := json.Marshal(rpcAnswer(x.id, shown, nil)); err == nil {
			e.frame("message", nil, "", data)
		}
	}
}

// follow sends the events of a run, and returns the last one if they included it.
func (x *a2aCall) follow(e *events, say func(kind string, v any), run *ledger.Run, fresh bool) (last *runs.Entry, err error) {
	if err := e.flush(); err != nil {
		return nil, err
	}
	var text streamedText
	_, err = e.follow(x.r.Context(), func(ctx context.Context) iter.Seq2[*runs.Entry, error] {
		return x.s.runner.Read(ctx, run, 0, fresh)
	}, func(entry *runs.Entry) bool {
		if entry.End != nil {
			x.last(run, entry, say)
			last = entry
			return false
		}
		x.showText(&text, run, entry, say)
		return true
	})
	return last, err
}

// last sends the end of a run: the artifact with the response, and the status, which is final unless
// the task continues by itself.
func (x *a2aCall) last(run *ledger.Run, entry *runs.Entry, say func(string, any)) a2a.TaskState {
	values := entry.Data()
	open := asked(values)
	state := stateAtEnd(entry.End, open)
	task := x.task(run, state, values)
	x.explain(run, task, entry.End.Message, open)
	for _, artifact := range task.Artifacts {
		say("artifactUpdate", a2a.TaskArtifactUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Artifact: artifact, LastChunk: true})
	}
	say("statusUpdate", a2a.TaskStatusUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Status: task.Status, Final: !continuesByItself(entry)})
	return state
}

// taskParams are the parameters of the task methods.
type taskParams struct {
	ID            string `json:"id"`
	Name          string `json:"name"` // "tasks/ID", in drafts of version 1.0
	ContextID     string `json:"contextId"`
	HistoryLength *int   `json:"historyLength"`
	PageSize      *int   `json:"pageSize"`
	PageToken     string `json:"pageToken"`
	Status        string `json:"status"`

	IncludeArtifacts bool `json:"includeArtifacts"`
}

// namedTask returns the task named in the parameters, if the caller may perform action on
// threads.
func (x *a2aCall) namedTask(raw json.RawMessage, action string) (*taskParams, *storedTask, error) {
	p, err := params[taskParams](raw)
	if err != nil {
		return nil, nil, err
	}
	if p.ID == "" {
		p.ID = strings.TrimPrefix(p.Name, "tasks/")
	}
	if p.ID == "" {
		return nil, nil, &rpcError{Code: codeParams, Message: "id: it is missing"}
	}
	if p.HistoryLength != nil && *p.HistoryLength < 0 {
		return nil, nil, &rpcError{Code: codeParams, Message: "historyLength: want a number that is not negative"}
	}
	thread, first, err := x.taskID(p.ID, p.ContextID)
	if err != nil {
		return nil, nil, err
	}
	f, err := x.may("threads", action, map[string]any{"thread_id": thread.String(), "run_id": first.String()})
	if err != nil {
		return nil, nil, err
	}
	t, err := x.s.ledger.Thread(x.r.Context(), thread, f)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil, &rpcError{Code: codeNoTask, Message: "Task not found: " + p.ID}
	}
	if err != nil {
		return nil, nil, err
	}
	task, err := x.current(t, first)
	return p, task, err
}

func (x *a2aCall) get(raw json.RawMessage) (any, error) {
	p, task, err := x.namedTask(raw, "read")
	if err != nil {
		return nil, err
	}
	return x.shown(x.stored(task, p.HistoryLength))
}

// stored returns a task as the client sees it.
func (x *a2aCall) stored(s *storedTask, length *int) (*a2a.Task, error) {
	shown, err := x.s.threads().withValues(x.call, s.t, nil)
	if err != nil {
		return nil, err
	}
	task := x.task(s.run, s.state(), shown.Values)
	task.Status.Timestamp = &s.run.Updated
	var message string
	if s.run.Failure != nil {
		message = s.run.Failure.Message
	}
	x.explain(s.run, task, message, questions(s.t.Interrupts))
	if !s.latest {
		task.Artifacts = nil // the state has changed since
	}
	trim(task, length)
	return task, nil
}

func (x *a2aCall) cancel(raw json.RawMessage) (any, error) {
	p, task, err := x.namedTask(raw, "update")
	if err != nil {
		return nil, err
	}
	run, t := task.run, task.t
	switch {
	case task.state().Terminal():
		return nil, &rpcError{Code: codeNotCancelable, Message: "Task is not cancelable in its current state"}
	case run.Waits:
		if task.t, err = x.abandon(t); err != nil {
			return nil, err
		}
		return x.shown(x.stored(task, p.HistoryLength))
	}
	running, err := x.s.runner.Cancel(x.r.Context(), run.Thread, []uuid.UUID{run.ID}, ledger.CancelRun, nil)
	if err != nil {
		return nil, err
	}
	if len(running) > 0 {
		if _, err := x.s.runner.Wait(x.r.Context(), run); err != nil {
			return nil, err
		}
	}
	if task.run, err = x.s.ledger.Run(x.r.Context(), run.Thread, run.ID, nil); err != nil {
		return nil, err
	}
	return x.shown(x.stored(task, p.HistoryLength))
}

// abandon cancels the task that a thread waits for: the thread no longer waits, and its next
// message starts another task.
func (x *a2aCall) abandon(t *ledger.Thread) (*ledger.Thread, error) {
	ctx := x.r.Context()
	th, err := x.s.runner.Thread(t, nil)
	if err != nil {
		return nil, err
	}
	return x.s.runner.Edit(ctx, t.ID, nil, th, func() error {
		_, err := th.UpdateJSON(ctx, nil, treadle.AsNode(treadle.End))
		return err
	})
}

// list returns tasks, newest first: those of a context, or all that the caller may see.
func (x *a2aCall) list(raw json.RawMessage) (any, error) {
	p, err := params[taskParams](raw)
	if err != nil {
		return nil, err
	}
	q, err := p.query(x)
	if err != nil {
		return nil, err
	}
	f, err := x.may("threads", "search", map[string]any{})
	if err != nil {
		return nil, err
	}
	if f != nil {
		q.Filter = *f
	}
	tasks, size := []any{}, q.Limit
	next := ""
	for round := 0; len(tasks) < size && round < maxRounds; round++ {
		q.Limit = size - len(tasks)
		found, err := x.s.ledger.SearchRuns(x.r.Context(), q)
		if err != nil {
			return nil, err
		}
		for _, m := range found.Runs {
			task, err := x.listed(m.Run, p)
			if err != nil {
				return nil, err
			}
			if task != nil {
				tasks = append(tasks, task)
			}
		}
		if found.Next == nil {
			next = ""
			break
		}
		q.After, next = found.Next, *cursorOf(found.Next)
	}
	return map[string]any{"tasks": tasks, "totalSize": len(tasks), "pageSize": size, "nextPageToken": next}, nil
}

// maxRounds is the maximum number of searches for a page of tasks. A page may therefore be
// shorter than its size, or even empty, and still have a token for the next one.
const maxRounds = 5

// query returns the search for the runs of the requested tasks.
func (p *taskParams) query(x *a2aCall) (*ledger.RunSearch, error) {
	q := &ledger.RunSearch{Assistant: x.a.ID, Limit: 50}
	if p.PageSize != nil {
		q.Limit = *p.PageSize
	}
	switch {
	case q.Limit < 1 || q.Limit > 100:
		return nil, &rpcError{Code: codeParams, Message: "pageSize: want a number from 1 to 100"}
	case p.HistoryLength != nil && *p.HistoryLength < 0:
		return nil, &rpcError{Code: codeParams, Message: "historyLength: want a number that is not negative"}
	case p.ContextID != "":
		q.Thread = x.threadOf(p.ContextID)
	}
	if p.PageToken != "" {
		after, err := parseCursor(p.PageToken)
		if err != nil {
			return nil, &rpcError{Code: codeParams, Message: "pageToken: not a token of this server"}
		}
		q.After = after
	}
	return q, nil
}

// listed returns the task whose last run is run, or nil if the run is not the last one of its
// task, or the task is not requested.
func (x *a2aCall) listed(run *ledger.Run, p *taskParams) (any, error) {
	t, err := x.s.ledger.Thread(x.r.Context(), run.Thread, nil)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil // deleted in the meantime
	}
	if err != nil {
		return nil, err
	}
	last, err := x.current(t, run.First())
	if _, other := errors.AsType[*rpcError](err); other {
		return nil, nil // a task of another assistant
	}
	if err != nil {
		return nil, err
	}
	// If another assistant continued the task, its first run stands for it.
	if last.run.ID != run.ID && (last.run.Assistant == x.a.ID || run.Task != uuid.Nil) {
		return nil, nil
	}
	if state := last.state(); p.Status != "" && p.Status != string(state) && p.Status != string(x.state(state)) {
		return nil, nil
	}
	task, err := x.stored(last, p.HistoryLength)
	if err != nil {
		return nil, err
	}
	if x.v1 && !p.IncludeArtifacts {
		task.Artifacts = nil
	}
	return x.shown(task, nil)
}

// card returns the agent card of an assistant, which the path or a parameter names. Without a
// name, it is the card of the only assistant that the caller may see.
func (s a2aAPI) card(c *call) error {
	name := c.r.PathValue("assistant_id")
	if name == "" {
		name = c.query().Get("assistant_id")
	}
	f, err := c.allow(map[string]any{"assistant_id": name})
	if err != nil {
		return err
	}
	var a *ledger.Assistant
	if name == "" {
		a, err = s.only(c, f)
	} else {
		a, err = s.assistants().find(c, name, f)
	}
	if err != nil {
		return err
	}
	v1, err := a2aVersion(c.r, "/")
	if err != nil {
		return fail(http.StatusBadRequest, "%v", err)
	}
	raw, err := json.Marshal(cardOf(c, a, v1))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(raw)
	h := c.w.Header()
	h.Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	h.Set("Last-Modified", a.Updated.UTC().Format(http.TimeFormat))
	h.Set("Cache-Control", "private, max-age=60")
	h.Set("Vary", "A2A-Version, Authorization")
	if c.r.Header.Get("If-None-Match") == h.Get("ETag") {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return c.json(http.StatusOK, json.RawMessage(raw))
}

// only returns the only assistant that matches f.
func (s a2aAPI) only(c *call, f *ledger.Filter) (*ledger.Assistant, error) {
	q := &ledger.AssistantQuery{Page: ledger.Page{Limit: 2}}
	if f != nil {
		q.Filter = *f
	}
	found, _, err := s.ledger.Assistants(c.r.Context(), q)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fail(http.StatusBadRequest, "assistant_id: required unless exactly one assistant is visible: use the address /a2a/{assistant_id}")
	}
	return found[0], nil
}

func (x *a2aCall) card(json.RawMessage) (any, error) { return cardOf(x.call, x.a, false), nil }

// cardJSON is an agent card of version 0.3 with the field that clients of version 1.0 use to
// find the address.
type cardJSON struct {
	a2a.AgentCard
	SupportedInterfaces []cardInterface           `json:"supportedInterfaces"`
	SecuritySchemes     map[string]SecurityScheme `json:"securitySchemes,omitempty"`
	Security            []map[string][]string     `json:"security,omitempty"`
}

// cardV1 is an agent card of version 1.0.
type cardV1 struct {
	Name                string           `json:"name"`
	Description         string           `json:"description"`
	Version             string           `json:"version"`
	SupportedInterfaces []cardInterface  `json:"supportedInterfaces"`
	Capabilities        map[string]bool  `json:"capabilities"`
	DefaultInputModes   []string         `json:"defaultInputModes"`
	DefaultOutputModes  []string         `json:"defaultOutputModes"`
	Skills              []a2a.AgentSkill `json:"skills"`

	SecuritySchemes map[string]any   `json:"securitySchemes,omitempty"`
	Security        []map[string]any `json:"securityRequirements,omitempty"`
}

type cardInterface struct {
	URL             string `json:"url"`
	ProtocolBinding string `json:"protocolBinding"`
	ProtocolVersion string `json:"protocolVersion"`
}

// cardOf returns the card of an assistant. That of version 0.3 also names the interface for
// version 1.0.
func cardOf(c *call, a *ledger.Assistant, v1 bool) any {
	description := a.Name + " assistant"
	if a.Description != nil && *a.Description != "" {
		description = *a.Description
	}
	modes := []string{"application/json", "text/plain"}
	address := c.base() + "/a2a/" + a.ID.String()
	skills := []a2a.AgentSkill{{ID: a.ID.String() + "-main", Name: a.Name + " Capabilities", Description: description, Tags: []string{"assistant", "treadle"}, InputModes: modes, OutputModes: modes}}
	interfaces := []cardInterface{{address, string(a2a.TransportProtocolJSONRPC), "1.0"}}
	pushes, extended := !c.s.hooks.Disabled(), c.s.authenticates()
	var schemes map[string]SecurityScheme
	if c.s.o.Auth != nil {
		schemes = c.s.o.Auth.Schemes
	}
	if v1 {
		card := &cardV1{Name: a.Name, Description: description, Version: version(), SupportedInterfaces: interfaces,
			Capabilities:      map[string]bool{"streaming": true, "pushNotifications": pushes, "extendedAgentCard": extended},
			DefaultInputModes: modes, DefaultOutputModes: modes, Skills: skills, SecuritySchemes: map[string]any{}}
		for _, name := range slices.Sorted(maps.Keys(schemes)) {
			card.SecuritySchemes[name] = schemes[name].v1()
			card.Security = append(card.Security, map[string]any{"schemes": map[string]any{name: map[string]any{"list": []string{}}}})
		}
		return card
	}
	var security []map[string][]string
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		security = append(security, map[string][]string{name: {}})
	}
	return &cardJSON{SecuritySchemes: schemes, Security: security, AgentCard: a2a.AgentCard{Name: a.Name, Description: description, URL: address, Version: version(), ProtocolVersion: "0.3.0",
		PreferredTransport: a2a.TransportProtocolJSONRPC, Capabilities: a2a.AgentCapabilities{Streaming: true, PushNotifications: pushes}, DefaultInputModes: modes, DefaultOutputModes: modes, SupportsAuthenticatedExtendedCard: extended,
		Skills: skills}, SupportedInterfaces: interfaces}
}

// v1 returns a security scheme as version 1.0 has it: the key identifies its type.
func (s SecurityScheme) v1() map[string]any {
	fields := map[string]any{}
	for key, value := range map[string]string{"description": s.Description, "location": s.In, "name": s.Name, "scheme": s.Scheme, "bearerFormat": s.BearerFormat, "openIdConnectUrl": s.OpenIDConnectURL} {
		if value != "" {
			fields[key] = value
		}
	}
	kind := map[string]string{"apiKey": "apiKeySecurityScheme", "http": "httpAuthSecurityScheme", "openIdConnect": "openIdConnectSecurityScheme"}
	return map[string]any{kind[s.Type]: fields}
}

// base returns the server's address as seen by the client, including the host that a proxy
// forwards and the path where the handler is mounted.
func (q *request) base() string {
	scheme := "http"
	if q.r.TLS != nil || strings.EqualFold(q.r.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	host := q.r.Host
	if forwarded := q.r.Header.Get("X-Forwarded-Host"); forwarded != "" {
		host = forwarded
	}
	prefix := ""
	if u, err := url.ParseRequestURI(q.r.RequestURI); err == nil {
		prefix, _ = strings.CutSuffix(u.Path, q.r.URL.Path)
		if prefix == u.Path {
			prefix = ""
		}
	}
	return (&url.URL{Scheme: scheme, Host: host, Path: prefix}).String()
}

// outcome waits until the task of a newly created run ends or needs input. It returns the last run and
// its last entry, or a nil entry if the task was canceled while it waited. While waiting, it
// writes newlines, which JSON ignores, so that proxies keep the connection open.
func (x *a2aCall) outcome(ctx context.Context, run *ledger.Run) (*ledger.Run, *runs.Entry, error) {
	var last *runs.Entry
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if last, err = x.s.runner.End(ctx, run, true); err == nil && last == nil {
			err = errors.New("run ended without a result")
		}
		for err == nil && continuesByItself(last) {
			run, last, err = x.nextEnd(ctx, run, last)
		}
	}()
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	flush := http.NewResponseController(x.w)
	for {
		select {
		case <-done:
			return run, last, err
		case <-ticker.C:
			x.w.Header().Set("Content-Type", "application/json")
			_, _ = x.w.Write([]byte("\n"))
			_ = flush.Flush()
		}
	}
}

// nextEnd waits for the end of the next run of a task that waits. It returns a nil entry if the task
// was canceled.
func (x *a2aCall) nextEnd(ctx context.Context, run *ledger.Run, last *runs.Entry) (*ledger.Run, *runs.Entry, error) {
	later := x.later(run)
	for entry, err := range x.entries(ctx, run, last.Seq) {
		if err != nil {
			return run, nil, err
		}
		if entry.End == nil {
			continue
		}
		if next := later(entry); next != nil {
			return next, entry, nil
		}
	}
	return run, nil, ctx.Err()
}
