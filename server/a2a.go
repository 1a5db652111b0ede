package server

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/google/uuid"

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
	"GetExtendedAgentCard":               (*a2aCall).card,
}

// a2aCall is a call to an assistant as an A2A agent. An A2A context is a thread, and a task is
// a run on it.
type a2aCall struct {
	*call
	a      *ledger.Assistant
	id     json.RawMessage // request ID
	v1     bool            // uses the names of version 1.0
	fields []string        // fields of the graph's input
	began  bool            // the response is a stream whose headers have been sent
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
	if rpcErr != nil {
		return c.rpc(http.StatusOK, req.ID, nil, rpcErr)
	}
	method := a2aMethods[req.Method]
	if method == nil {
		return c.rpc(http.StatusOK, req.ID, nil, &rpcError{codeNoMethod, "Method not found: " + req.Method})
	}
	x := &a2aCall{call: c, a: a, id: req.ID, v1: !strings.Contains(req.Method, "/")}
	g := s.runner.Graph(a.Graph)
	if g == nil {
		return fail(http.StatusNotFound, "graph %q is not served", a.Graph)
	}
	schemas, err := g.Schemas()
	if err != nil {
		return err
	}
	if schemas.Input != nil {
		for name := range schemas.Input.Properties {
			x.fields = append(x.fields, name)
		}
		slices.Sort(x.fields)
	}
	result, err := method(x, req.Params)
	switch {
	case x.began:
		return nil
	case err != nil:
		status, e := c.rpcErrorOf(err)
		return c.rpc(status, req.ID, nil, e)
	}
	return c.rpc(http.StatusOK, req.ID, result, nil)
}

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
	if err := x.fill(b, p, thread); err != nil {
		return nil, nil, err
	}
	run, err := x.s.runs().createFrom(x.call, b, &thread)
	return run, p, err
}

// context returns the thread that a message belongs to.
func (x *a2aCall) context(p *sendParams) (uuid.UUID, error) {
	if p.message.TaskID != "" {
		thread, _, err := taskID(string(p.message.TaskID), p.message.ContextID)
		return thread, err
	}
	if p.message.ContextID == "" {
		return uuid.NewV7()
	}
	return parseID("message.contextId", p.message.ContextID)
}

// fill sets what the run does: it resumes an interrupted thread with the message as the answer,
// or takes the message as its input.
func (x *a2aCall) fill(b *runBody, p *sendParams, thread uuid.UUID) (err error) {
	t, filter, err := x.threadAt(thread)
	if err != nil {
		return err
	}
	if id := p.message.TaskID; id != "" {
		if err := x.continues(b, t, filter, string(id), p.message.ContextID); err != nil {
			return err
		}
	}
	var open []question
	if t != nil {
		open = questions(t.Interrupts)
	}
	if len(open) > 0 {
		b.Command, err = p.command(open)
		return err
	}
	if p.resume() != nil {
		return &rpcError{codeParams, "message.parts: the task does not wait for an answer"}
	}
	b.Input, err = x.input(p)
	return err
}

// threadAt returns a thread that the caller may read, or nil if it does not exist.
func (x *a2aCall) threadAt(id uuid.UUID) (*ledger.Thread, *ledger.Filter, error) {
	f, err := x.may("threads", "read", map[string]any{"thread_id": id.String()})
	if err != nil {
		return nil, nil, err
	}
	t, err := x.s.ledger.Thread(x.r.Context(), id, f)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, f, nil
	}
	return t, f, err
}

// continues checks that a message may continue a task and adds its run to the task.
func (x *a2aCall) continues(b *runBody, t *ledger.Thread, f *ledger.Filter, id, context string) error {
	if t == nil {
		return &rpcError{codeNoTask, "Task not found: " + id}
	}
	_, first, err := taskID(id, context)
	if err != nil {
		return err
	}
	run, newest, err := x.runOfTask(t.ID, first, f)
	if err != nil {
		return err
	}
	if state := stateOf(run, t, newest); state.Terminal() {
		return &rpcError{codeUnsupported, "Task " + id + " is " + string(state) + ": send the message without its taskId"}
	}
	b.Metadata[taskKey] = first.String()
	return nil
}

// taskKey is the key of a run's metadata that holds the ID of the first run of its task.
const taskKey = "a2a_task_id"

// runOfTask returns the last run of a task and reports whether it is the thread's latest run.
func (x *a2aCall) runOfTask(thread, first uuid.UUID, f *ledger.Filter) (run *ledger.Run, newest bool, err error) {
	found, err := x.s.ledger.Runs(x.r.Context(), thread, f, "", ledger.Page{Limit: 1000})
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, false, err
	}
	for i, run := range found {
		if run.Assistant == x.a.ID && firstRun(run) == first.String() {
			return run, i == 0, nil
		}
	}
	return nil, false, &rpcError{codeNoTask, "Task not found: " + thread.String() + ":" + first.String()}
}

// firstRun returns the ID of the first run of the task that a run belongs to.
func firstRun(run *ledger.Run) string {
	if id, _ := run.Metadata[taskKey].(string); id != "" {
		return id
	}
	return run.ID.String()
}

// taskID parses a task ID, "thread:run". If context is set, the run ID alone suffices.
func taskID(id, context string) (thread, run uuid.UUID, err error) {
	first, second, ok := strings.Cut(id, ":")
	if !ok {
		first, second = context, id
	}
	if context != "" && first != context {
		return thread, run, &rpcError{codeParams, "contextId: the task belongs to another context"}
	}
	if thread, err = uuid.Parse(first); err == nil {
		run, err = uuid.Parse(second)
	}
	if err != nil || len(first) != 36 || len(second) != 36 {
		return thread, run, &rpcError{codeNoTask, "Task not found: " + id}
	}
	return thread, run, nil
}

// send responds with the task when its run has ended, or immediately if the client requests it.
func (x *a2aCall) send(raw json.RawMessage) (any, error) {
	run, p, err := x.begin(raw)
	if err != nil {
		return nil, err
	}
	length := p.Configuration.HistoryLength
	if p.immediate() {
		return x.wrap("task", x.submitted(run, p)), nil
	}
	end, values, err := x.outcome(x.r.Context(), run)
	if err != nil {
		return nil, err
	}
	task := x.task(run, stateAtEnd(end), values)
	x.explain(task, end.Message, questionsIn(values))
	trim(task, length)
	return x.wrap("task", task), nil
}

// wrap adds the kind of a result, as version 1.0 requires.
func (x *a2aCall) wrap(kind string, v any) any {
	if x.v1 {
		return map[string]any{kind: v}
	}
	return v
}

// stream creates a task and streams its events.
func (x *a2aCall) stream(raw json.RawMessage) (any, error) {
	run, p, err := x.begin(raw)
	if err != nil {
		return nil, err
	}
	e, say := x.open()
	say("task", x.submitted(run, p))
	_, err = x.follow(e, say, run, true)
	return nil, ignored(err)
}

// resubscribe streams the events of a task from the start of its run, for a client that lost
// its stream. For a task that no longer runs, the stream contains only the task. Version 1.0
// rejects subscriptions to tasks in a terminal state.
func (x *a2aCall) resubscribe(raw json.RawMessage) (any, error) {
	p, run, t, newest, err := x.namedTask(raw, "read")
	if err != nil {
		return nil, err
	}
	if state := stateOf(run, t, newest); x.v1 && state.Terminal() {
		return nil, &rpcError{codeUnsupported, "Task " + p.ID + " is " + string(state) + ": get it instead"}
	}
	task, err := x.stored(run, t, newest, p.HistoryLength)
	if err != nil {
		return nil, err
	}
	e, say := x.open()
	say("task", task)
	if run.Status == ledger.Pending || run.Status == ledger.Running {
		ended, err := x.follow(e, say, run, false)
		if err != nil || ended || x.r.Context().Err() != nil {
			return nil, ignored(err)
		}
		// The run has ended, and its last events were discarded.
		if _, run, t, newest, err = x.namedTask(raw, "read"); err != nil {
			return nil, ignored(err)
		}
		if task, err = x.stored(run, t, newest, p.HistoryLength); err != nil {
			return nil, ignored(err)
		}
	}
	say("statusUpdate", a2a.TaskStatusUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Status: task.Status, Final: true})
	return nil, ignored(e.flush())
}

// open starts the response stream and returns a function that sends an event.
func (x *a2aCall) open() (*events, func(kind string, v any)) {
	x.began = true
	e := x.events()
	return e, func(kind string, v any) {
		data, err := json.Marshal(rpcAnswer(x.id, x.wrap(kind, v), nil))
		if err == nil {
			e.frame("message", nil, "", data)
		}
	}
}

// follow sends the events of a run. It reports whether they included the end of the run.
func (x *a2aCall) follow(e *events, say func(kind string, v any), run *ledger.Run, fresh bool) (ended bool, err error) {
	if err := e.flush(); err != nil {
		return false, err
	}
	var text streamedText
	return e.follow(x.r.Context(), func(ctx context.Context) iter.Seq2[*runs.Entry, error] {
		return x.s.runner.Read(ctx, run, 0, fresh)
	}, func(entry *runs.Entry) bool {
		if entry.End != nil {
			x.last(run, entry, say)
			return false
		}
		if entry.Protocol == runs.Classic && entry.Name == "messages" && len(entry.NS) == 0 && text.add(entry.Data()) {
			say("statusUpdate", x.update(run, a2a.TaskStateWorking, x.message(run, a2a.MessageRoleAgent, a2a.NewMessageID(), a2a.TextPart{Text: text.sent})))
		}
		return true
	})
}

// last sends the end of a run: the artifact with the response, and the final status.
func (x *a2aCall) last(run *ledger.Run, entry *runs.Entry, say func(string, any)) {
	values := entry.Data()
	task := x.task(run, stateAtEnd(entry.End), values)
	x.explain(task, entry.End.Message, questionsIn(values))
	for _, artifact := range task.Artifacts {
		say("artifactUpdate", a2a.TaskArtifactUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Artifact: artifact, LastChunk: true})
	}
	say("statusUpdate", a2a.TaskStatusUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Status: task.Status, Final: true})
}

// taskParams are the parameters of the task methods.
type taskParams struct {
	ID            string `json:"id"`
	Name          string `json:"name"` // "tasks/ID", in drafts of version 1.0
	ContextID     string `json:"contextId"`
	HistoryLength *int   `json:"historyLength"`
	PageSize      *int   `json:"pageSize"`
}

// namedTask returns the task named in the parameters, if the caller may perform action on
// threads.
func (x *a2aCall) namedTask(raw json.RawMessage, action string) (*taskParams, *ledger.Run, *ledger.Thread, bool, error) {
	p, err := params[taskParams](raw)
	if err != nil {
		return nil, nil, nil, false, err
	}
	if p.ID == "" {
		p.ID = strings.TrimPrefix(p.Name, "tasks/")
	}
	if p.ID == "" {
		return nil, nil, nil, false, &rpcError{codeParams, "id: it is missing"}
	}
	thread, first, err := taskID(p.ID, p.ContextID)
	if err != nil {
		return nil, nil, nil, false, err
	}
	f, err := x.may("threads", action, map[string]any{"thread_id": thread.String(), "run_id": first.String()})
	if err != nil {
		return nil, nil, nil, false, err
	}
	t, err := x.s.ledger.Thread(x.r.Context(), thread, f)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil, nil, false, &rpcError{codeNoTask, "Task not found: " + p.ID}
	}
	if err != nil {
		return nil, nil, nil, false, err
	}
	run, newest, err := x.runOfTask(thread, first, f)
	return p, run, t, newest, err
}

func (x *a2aCall) get(raw json.RawMessage) (any, error) {
	p, run, t, newest, err := x.namedTask(raw, "read")
	if err != nil {
		return nil, err
	}
	return x.stored(run, t, newest, p.HistoryLength)
}

// stored returns a task as recorded in the database.
func (x *a2aCall) stored(run *ledger.Run, t *ledger.Thread, newest bool, length *int) (*a2a.Task, error) {
	shown, err := x.s.threads().withValues(x.call, t, nil)
	if err != nil {
		return nil, err
	}
	task := x.task(run, stateOf(run, t, newest), shown.Values)
	task.Status.Timestamp = &run.Updated
	var message string
	if run.Failure != nil {
		message = run.Failure.Message
	}
	x.explain(task, message, questions(t.Interrupts))
	if !newest {
		task.Artifacts = nil // the state has changed since
	}
	trim(task, length)
	return task, nil
}

func (x *a2aCall) cancel(raw json.RawMessage) (any, error) {
	p, run, t, newest, err := x.namedTask(raw, "update")
	if err != nil {
		return nil, err
	}
	if run.Status != ledger.Pending && run.Status != ledger.Running {
		return nil, &rpcError{codeNotCancelable, "Task is not cancelable in its current state"}
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
	if run, err = x.s.ledger.Run(x.r.Context(), run.Thread, run.ID, nil); err != nil {
		return nil, err
	}
	return x.stored(run, t, newest, p.HistoryLength)
}

// list returns the tasks of a context, newest first.
func (x *a2aCall) list(raw json.RawMessage) (any, error) {
	p, err := params[taskParams](raw)
	if err != nil {
		return nil, err
	}
	if p.ContextID == "" {
		return nil, &rpcError{codeParams, "contextId: it is missing"}
	}
	thread, err := parseID("contextId", p.ContextID)
	if err != nil {
		return nil, err
	}
	size := 50
	if p.PageSize != nil {
		size = *p.PageSize
	}
	if size < 1 || size > 100 {
		return nil, &rpcError{codeParams, "pageSize: want a number from 1 to 100"}
	}
	t, f, err := x.threadAt(thread)
	if err != nil {
		return nil, err
	}
	tasks := []*a2a.Task{}
	if t != nil {
		found, err := x.s.ledger.Runs(x.r.Context(), thread, f, "", ledger.Page{Limit: 1000})
		if err != nil {
			return nil, err
		}
		seen := map[string]bool{}
		for i, run := range found {
			if first := firstRun(run); run.Assistant != x.a.ID || seen[first] || len(tasks) == size {
				continue
			} else {
				seen[first] = true
			}
			task, err := x.stored(run, t, i == 0, p.HistoryLength)
			if err != nil {
				return nil, err
			}
			tasks = append(tasks, task)
		}
	}
	return map[string]any{"tasks": tasks, "totalSize": len(tasks), "pageSize": size, "nextPageToken": ""}, nil
}

// card returns the agent card of an assistant.
func (s a2aAPI) card(c *call) error {
	name := c.query().Get("assistant_id")
	if name == "" {
		return fail(http.StatusBadRequest, "assistant_id: required")
	}
	f, err := c.allow(map[string]any{"assistant_id": name})
	if err != nil {
		return err
	}
	a, err := s.assistants().find(c, name, f)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, cardOf(c, a))
}

func (x *a2aCall) card(json.RawMessage) (any, error) { return cardOf(x.call, x.a), nil }

// cardJSON is an agent card of version 0.3 with the field that clients of version 1.0 use to
// find the address.
type cardJSON struct {
	a2a.AgentCard
	SupportedInterfaces []cardInterface `json:"supportedInterfaces"`
}

type cardInterface struct {
	URL             string `json:"url"`
	ProtocolBinding string `json:"protocolBinding"`
	ProtocolVersion string `json:"protocolVersion"`
}

func cardOf(c *call, a *ledger.Assistant) *cardJSON {
	description := a.Name + " assistant"
	if a.Description != nil && *a.Description != "" {
		description = *a.Description
	}
	modes := []string{"application/json", "text/plain"}
	address := c.base() + "/a2a/" + a.ID.String()
	return &cardJSON{AgentCard: a2a.AgentCard{Name: a.Name, Description: description, URL: address, Version: version(), ProtocolVersion: "0.3.0",
		PreferredTransport: a2a.TransportProtocolJSONRPC, Capabilities: a2a.AgentCapabilities{Streaming: true}, DefaultInputModes: modes, DefaultOutputModes: modes,
		Skills: []a2a.AgentSkill{{ID: a.ID.String() + "-main", Name: a.Name + " Capabilities", Description: description, Tags: []string{"assistant", "treadle"}, InputModes: modes, OutputModes: modes}}},
		SupportedInterfaces: []cardInterface{{address, string(a2a.TransportProtocolJSONRPC), "1.0"}}}
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

// outcome waits for the run to end. While waiting, it writes newlines, which JSON ignores, so
// that proxies keep the connection open.
func (x *a2aCall) outcome(ctx context.Context, run *ledger.Run) (*runs.End, json.RawMessage, error) {
	var end *runs.End
	var values json.RawMessage
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		end, values, err = x.s.runs().outcome(ctx, x.call, run)
	}()
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	flush := http.NewResponseController(x.w)
	for {
		select {
		case <-done:
			return end, values, err
		case <-ticker.C:
			x.w.Header().Set("Content-Type", "application/json")
			_, _ = x.w.Write([]byte("\n"))
			_ = flush.Flush()
		}
	}
}
