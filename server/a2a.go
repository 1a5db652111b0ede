package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/a2awire"
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

// a2aStreams lists the methods of version 0.3 whose responses are streams, even for errors.
var a2aStreams = []string{"message/stream", "tasks/resubscribe"}

// a2aCall is a call to an assistant as an A2A agent. An A2A context is a thread, and a task is
// a run on it.
type a2aCall struct {
	*call
	a2awire.View
	a     *ledger.Assistant
	id    json.RawMessage // request ID
	began bool            // the response is a stream whose headers have been sent
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
	x := &a2aCall{call: c, a: a, id: req.ID, View: a2awire.View{Assistant: a.ID}}
	if x.V1, err = a2aVersion(c.r, req.Method); err != nil {
		return x.fail(req.Method, err)
	}
	if kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")); x.V1 && kind != "" && kind != "application/json" {
		return x.fail(req.Method, &rpcError{Code: codeContentType, Message: "Content-Type: want application/json, not " + kind})
	}
	if rpcErr != nil {
		return x.fail(req.Method, rpcErr)
	}
	method := a2aMethods[req.Method]
	if method == nil {
		return x.fail(req.Method, &rpcError{Code: codeNoMethod, Message: "Method not found: " + req.Method})
	}
	if x.Fields, err = s.inputFields(a.Graph); err != nil {
		return err
	}
	if x.V1 {
		req.Params = a2awire.CamelKeys(req.Params)
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
	if x.V1 {
		e = explained(e)
	}
	if x.V1 || status != http.StatusOK || !slices.Contains(a2aStreams, method) {
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
func (x *a2aCall) begin(raw json.RawMessage) (*ledger.Run, *a2awire.SendParams, error) {
	p, err := params[a2awire.SendParams](raw)
	if err != nil {
		return nil, nil, err
	}
	if err := p.Read(); err != nil {
		return nil, nil, invalidParams(err)
	}
	b := &runBody{Assistant: x.a.ID.String(), IfNotExists: "create", StreamMode: nodeList{"values", "messages-tuple"}, Metadata: ledger.Object{}}
	thread, err := x.context(p)
	if err != nil {
		return nil, nil, err
	}
	if id := p.Decoded.ContextID; id != "" && id != thread.String() {
		b.Metadata[a2awire.ContextKey] = id
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
func (x *a2aCall) context(p *a2awire.SendParams) (uuid.UUID, error) {
	if p.Decoded.TaskID != "" {
		thread, _, err := x.taskID(string(p.Decoded.TaskID), p.Decoded.ContextID)
		return thread, err
	}
	switch key := x.r.Header.Get(idempotencyKey); {
	case p.Decoded.ContextID != "":
		return x.threadOf(p.Decoded.ContextID), nil
	case key != "": // the same context if the message is sent again
		return x.owned("key\x00" + key), nil
	}
	return uuid.NewV7()
}

// a2aThreads is the namespace of the IDs of threads whose contexts have IDs that are not UUIDs, or are new.
var a2aThreads = uuid.MustParse("0c8a8f5e-3a55-4b3f-8f0e-5d3c1f6a2b90")

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

// fill sets what the run does: it resumes an interrupted thread with the message as the answer,
// or takes the message as its input.
func (x *a2aCall) fill(b *runBody, p *a2awire.SendParams, thread uuid.UUID) error {
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
	if id := p.Decoded.TaskID; id != "" {
		if err := x.continues(b, t, string(id), p.Decoded.ContextID); err != nil {
			return err
		}
	}
	var open []question
	if t != nil && (t.Task != uuid.Nil || t.Status != ledger.Busy) { // otherwise, a run already continues
		open = questions(t.Interrupts)
	}
	if len(open) > 0 {
		ids := make([]string, len(open))
		for i, q := range open {
			ids[i] = q.ID
		}
		b.Command, err = p.Command(ids)
		return invalidParams(err)
	}
	if p.Resume() != nil {
		return &rpcError{Code: codeParams, Message: "message.parts: the task does not wait for an answer"}
	}
	b.Input, err = p.Input(x.Fields, fmt.Sprintf("Assistant '%s' (graph '%s')", x.a.ID, x.a.Graph))
	return invalidParams(err)
}

// invalidParams returns the JSON-RPC error for err, which is nil or describes invalid parameters.
func invalidParams(err error) error {
	if err == nil {
		return nil
	}
	return &rpcError{Code: codeParams, Message: err.Error()}
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
	if b.Metadata[a2awire.ContextKey] == nil && task.run.Metadata[a2awire.ContextKey] != nil {
		b.Metadata[a2awire.ContextKey] = task.run.Metadata[a2awire.ContextKey]
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
	if p.Immediate() {
		return x.wrap("task", x.Submitted(run, p))
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
	task := x.Task(run, stateAtEnd(entry.End, open), values)
	if m := x.Direct(run, task, values); m != nil {
		return x.wrap("message", m)
	}
	explain(&x.View, run, task, entry.End.Message, open)
	a2awire.Trim(task, length)
	return x.wrap("task", task)
}

// wrap returns a result under the key that identifies its kind in version 1.0.
func (x *a2aCall) wrap(kind string, v any) (any, error) {
	if !x.V1 {
		return v, nil
	}
	out, err := a2awire.AsV1(v)
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
	if err != nil || !x.V1 {
		return task, err
	}
	return a2awire.AsV1(task)
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
	task := x.Task(s.run, s.state(), shown.Values)
	task.Status.Timestamp = &s.run.Updated
	var message string
	if s.run.Failure != nil {
		message = s.run.Failure.Message
	}
	explain(&x.View, s.run, task, message, questions(s.t.Interrupts))
	if !s.latest {
		task.Artifacts = nil // the state has changed since
	}
	a2awire.Trim(task, length)
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
	if state := last.state(); p.Status != "" && p.Status != string(state) && p.Status != string(x.State(state)) {
		return nil, nil
	}
	task, err := x.stored(last, p.HistoryLength)
	if err != nil {
		return nil, err
	}
	if x.V1 && !p.IncludeArtifacts {
		task.Artifacts = nil
	}
	return x.shown(task, nil)
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
