package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/a2awire"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// A push is a webhook of a task. The ledger stores those of a thread with it, and a notification in
// the transaction that ends a run, so that none is lost.
type push struct {
	ID    string    `json:"id"`
	Task  uuid.UUID `json:"task"` // the task's first run
	URL   string    `json:"url"`
	Token string    `json:"token,omitempty"`
	// Scheme and Credentials are the contents of the header Authorization.
	Scheme      string `json:"scheme,omitempty"`
	Credentials string `json:"credentials,omitempty"`
	V1          bool   `json:"v1,omitempty"` // wants notifications of version 1.0
}

// Limits on the push configurations of a task, and on those of a thread and on their texts, in bytes. Every
// change to a thread writes its configurations.
const (
	maxTaskPushes   = 10
	maxThreadPushes = 64 << 10
	maxPushText     = 4096
)

// defaultPush is the ID of a configuration of version 0.3 without one, so that the next one replaces it.
const defaultPush = "default"

// pushBody is a push configuration of either version.
type pushBody struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	Token string `json:"token"`
	Auth  *struct {
		Scheme      string   `json:"scheme"`
		Schemes     []string `json:"schemes"` // version 0.3
		Credentials string   `json:"credentials"`
	} `json:"authentication"`
}

// pushParams are the parameters of the push methods.
type pushParams struct {
	pushBody
	Task     string          `json:"taskId"`
	Config   json.RawMessage `json:"pushNotificationConfig"`   // version 0.3
	ConfigID string          `json:"pushNotificationConfigId"` // version 0.3
}

func decodePushes(t *ledger.Thread) (list []push, err error) {
	if len(t.Pushes) == 0 {
		return nil, nil
	}
	return list, json.Unmarshal(t.Pushes, &list)
}

// push validates a push configuration.
func (x *a2aCall) push(raw json.RawMessage, task uuid.UUID) (*push, error) {
	b, err := params[pushBody](raw)
	if err != nil {
		return nil, err
	}
	if err := x.s.hooks.Check(b.URL); err != nil {
		return nil, &rpcError{Code: codeParams, Message: "url: " + err.Error()}
	}
	out := &push{ID: b.ID, Task: task, URL: b.URL, Token: b.Token, V1: x.V1}
	switch {
	case out.ID != "":
	case x.V1:
		out.ID = uuid.NewString()
	default:
		out.ID = defaultPush
	}
	if b.Auth != nil {
		out.Scheme, out.Credentials = b.Auth.Scheme, b.Auth.Credentials
		if out.Scheme == "" && len(b.Auth.Schemes) > 0 {
			out.Scheme = b.Auth.Schemes[0]
		}
		if out.Scheme == "" && out.Credentials != "" {
			return nil, &rpcError{Code: codeParams, Message: "authentication: the scheme is missing"}
		}
	}
	for name, text := range map[string]string{"id": out.ID, "token": out.Token, "authentication.scheme": out.Scheme, "authentication.credentials": out.Credentials} {
		if len(text) > maxPushText || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, &rpcError{Code: codeParams, Message: fmt.Sprintf("%s: want at most %d visible ASCII characters", name, maxPushText)}
		}
	}
	return out, nil
}

// added returns the stored list of a thread with another configuration, which replaces the one with
// its ID.
func (p *push) added(t *ledger.Thread) (json.RawMessage, error) {
	list, err := decodePushes(t)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(q push) bool { return q.Task == p.Task && q.ID == p.ID })
	same := 0
	for _, q := range list {
		if q.Task == p.Task {
			same++
		}
	}
	if same >= maxTaskPushes {
		return nil, &rpcError{Code: codeParams, Message: fmt.Sprintf("the task has %d push configurations: delete one", same)}
	}
	raw, err := json.Marshal(append(list, *p))
	if err == nil && len(raw) > maxThreadPushes {
		return nil, &rpcError{Code: codeParams, Message: fmt.Sprintf("the push configurations of the context exceed %d bytes: delete some", maxThreadPushes)}
	}
	return raw, err
}

// pushTo makes the run of a message store the push configuration that the message contains. It is
// stored in the transaction that creates the run, because the thread may be created at the same time.
func (x *a2aCall) pushTo(b *runBody, p *a2awire.SendParams, thread uuid.UUID) error {
	raw := p.Configuration.Push
	if x.V1 {
		raw = p.Configuration.PushV1
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if err := x.pushable(); err != nil {
		return err
	}
	task, err := uuid.NewV7()
	if err != nil {
		return err
	}
	if b.task != uuid.Nil {
		task = b.task
	} else {
		b.id = task
	}
	config, err := x.push(raw, task)
	if err != nil {
		return err
	}
	f, err := x.may("threads", "update", map[string]any{"thread_id": thread.String()})
	if err != nil {
		return err
	}
	b.pushes = func(t *ledger.Thread) (json.RawMessage, error) {
		if !f.Match(t.Metadata) {
			return nil, fail(http.StatusNotFound, "Thread or assistant not found.")
		}
		return config.added(t)
	}
	return nil
}

func (x *a2aCall) storePush(thread uuid.UUID, f *ledger.Filter, config *push) error {
	_, err := x.s.ledger.PatchThread(x.r.Context(), thread, f, false, func(t *ledger.Thread) (err error) {
		t.Pushes, err = config.added(t)
		return err
	})
	return err
}

// pushable returns an error if the server sends no webhooks.
func (x *a2aCall) pushable() error {
	if x.s.hooks.Disabled() {
		return &rpcError{Code: codeNoPush, Message: "Push notifications are not supported"}
	}
	return nil
}

// pushTask returns the task that the parameters of a push method name, and the ID of the configuration.
func (x *a2aCall) pushTask(raw json.RawMessage, action string) (p *pushParams, run *ledger.Run, t *ledger.Thread, config string, err error) {
	if err = x.pushable(); err != nil {
		return nil, nil, nil, "", err
	}
	if p, err = params[pushParams](raw); err != nil {
		return nil, nil, nil, "", err
	}
	task, config := p.Task, p.ID
	if task == "" && !x.V1 {
		task, config = p.ID, p.ConfigID
	}
	name, err := json.Marshal(taskParams{ID: task})
	if err != nil {
		return nil, nil, nil, "", err
	}
	_, named, err := x.namedTask(name, action)
	if err != nil {
		return nil, nil, nil, "", err
	}
	return p, named.run, named.t, config, nil
}

func (x *a2aCall) addPush(raw json.RawMessage) (any, error) {
	p, run, t, _, err := x.pushTask(raw, "update")
	if err != nil {
		return nil, err
	}
	if !x.V1 {
		raw = p.Config
	}
	config, err := x.push(raw, run.First())
	if err != nil {
		return nil, err
	}
	f, err := x.may("threads", "update", map[string]any{"thread_id": run.Thread.String()})
	if err != nil {
		return nil, err
	}
	if err := x.storePush(run.Thread, f, config); err != nil {
		return nil, err
	}
	return x.shownPush(run, t, config), nil
}

// shownPush returns a push configuration as clients see it, without its credentials. Only callers who
// may change the thread see the token.
func (x *a2aCall) shownPush(run *ledger.Run, t *ledger.Thread, p *push) any {
	task := a2awire.TaskID(run)
	out := map[string]any{"id": p.ID, "url": p.URL}
	if f, err := x.may("threads", "update", map[string]any{"thread_id": t.ID.String()}); p.Token != "" && err == nil && f.Match(t.Metadata) {
		out["token"] = p.Token
	}
	switch {
	case p.Scheme == "":
	case x.V1:
		out["authentication"] = map[string]any{"scheme": p.Scheme}
	default:
		out["authentication"] = map[string]any{"schemes": []string{p.Scheme}}
	}
	if x.V1 {
		out["taskId"] = task
		return out
	}
	return map[string]any{"taskId": task, "pushNotificationConfig": out}
}

// pushesOf returns the push configurations of a task.
func pushesOf(t *ledger.Thread, run *ledger.Run) ([]push, error) {
	list, err := decodePushes(t)
	return slices.DeleteFunc(list, func(p push) bool { return p.Task != run.First() }), err
}

func (x *a2aCall) getPush(raw json.RawMessage) (any, error) {
	_, run, t, config, err := x.pushTask(raw, "read")
	if err != nil {
		return nil, err
	}
	list, err := pushesOf(t, run)
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if p.ID == config || config == "" && !x.V1 {
			return x.shownPush(run, t, &p), nil
		}
	}
	return nil, &rpcError{Code: codeNoTask, Message: "Push configuration not found: " + config}
}

func (x *a2aCall) listPushes(raw json.RawMessage) (any, error) {
	_, run, t, _, err := x.pushTask(raw, "read")
	if err != nil {
		return nil, err
	}
	list, err := pushesOf(t, run)
	if err != nil {
		return nil, err
	}
	shown := []any{}
	for _, p := range list {
		shown = append(shown, x.shownPush(run, t, &p))
	}
	if x.V1 {
		return map[string]any{"configs": shown, "nextPageToken": ""}, nil
	}
	return shown, nil
}

// deletePush deletes a push configuration. Deleting an unknown one is not an error.
func (x *a2aCall) deletePush(raw json.RawMessage) (any, error) {
	_, run, t, config, err := x.pushTask(raw, "update")
	if err != nil {
		return nil, err
	}
	if len(t.Pushes) > 0 {
		_, err = x.s.ledger.PatchThread(x.r.Context(), t.ID, nil, false, func(t *ledger.Thread) error {
			list, err := decodePushes(t)
			if err != nil {
				return err
			}
			list = slices.DeleteFunc(list, func(p push) bool { return p.Task == run.First() && p.ID == config })
			t.Pushes, err = json.Marshal(list)
			return err
		})
	}
	if x.V1 {
		return struct{}{}, err
	}
	return nil, err
}

// pushes prepares the notifications about the end of a run.
func (s a2aAPI) pushes(p *runs.Pushed) func(*ledger.Thread) []*ledger.Hook {
	open := questions(p.Interrupts)
	state := stateAtEnd(p.End, open)
	if state == a2a.TaskStateWorking { // until a time, or a signal
		return func(*ledger.Thread) []*ledger.Hook { return nil }
	}
	n := &notification{run: p.Run, state: state}
	list, err := pushesOf(p.Thread, p.Run)
	if err == nil {
		err = n.prepare(s, list, p, open)
	}
	if err != nil {
		s.log.Error("failed to encode push notification", "run", p.Run.ID, "error", err)
	}
	return func(t *ledger.Thread) []*ledger.Hook { return s.notify(t, n) }
}

// A notification is about a task in a state, whose last run is run.
type notification struct {
	run   *ledger.Run
	state a2a.TaskState
	full  map[bool][]byte // bodies with the whole task, for version 1.0 or not
}

// Limits on the task in a notification, in bytes: of the state that contains it, and of the body. If a
// task exceeds them, the notification has only its ID and status.
const (
	maxPushState = 1 << 20
	maxPushBody  = 256 << 10
)

// prepare encodes the task for each version that the push configurations ask for.
func (n *notification) prepare(s a2aAPI, list []push, p *runs.Pushed, open []question) error {
	if len(list) == 0 {
		return nil
	}
	fields, err := s.inputFields(p.Run.Graph)
	if err != nil {
		return err
	}
	values, err := p.Values()
	if err != nil || len(values) > maxPushState {
		return err
	}
	n.full = map[bool][]byte{}
	for _, to := range list {
		if n.full[to.V1] != nil {
			continue
		}
		x := &a2awire.View{V1: to.V1, Assistant: p.Run.Assistant, Fields: fields}
		task := x.Task(p.Run, n.state, values)
		explain(x, p.Run, task, p.End.Message, open)
		body, err := x.Body(task)
		if err != nil {
			return err
		}
		if len(body) <= maxPushBody {
			n.full[to.V1] = body
		}
	}
	return nil
}

// body returns the body for a version.
func (n *notification) body(v1 bool) ([]byte, error) {
	if body := n.full[v1]; body != nil {
		return body, nil
	}
	x := &a2awire.View{V1: v1}
	m := x.Message(n.run, a2a.MessageRoleAgent, "")
	now := time.Now().UTC()
	return x.Body(&a2a.Task{ID: m.TaskID, ContextID: m.ContextID, Status: a2a.TaskStatus{State: x.State(n.state), Timestamp: &now}})
}

// taskEnded returns the notifications about a task that ended without a worker: it was canceled, or
// all of its workers died.
func (s a2aAPI) taskEnded(run *ledger.Run, t *ledger.Thread) []*ledger.Hook {
	n := &notification{run: run, state: a2a.TaskStateCanceled}
	if run.Status == ledger.Error {
		n.state = a2a.TaskStateFailed
	}
	return s.notify(t, n)
}

// notify returns the webhooks that send a notification to the push configurations of its task.
func (s a2aAPI) notify(t *ledger.Thread, n *notification) (out []*ledger.Hook) {
	list, err := pushesOf(t, n.run)
	if err != nil {
		s.log.Error("failed to read push configurations", "thread", t.ID, "error", err)
	}
	for _, p := range list {
		body, err := n.body(p.V1)
		if err != nil {
			s.log.Error("failed to encode push notification", "run", n.run.ID, "error", err)
			continue
		}
		h := &ledger.Hook{ID: uuid.NewSHA1(n.run.ID, []byte("push "+p.ID+string(n.state))), Run: n.run.ID, URL: p.URL, Body: body, Header: map[string]string{}, Push: true}
		if p.Token != "" {
			h.Header["X-A2A-Notification-Token"] = p.Token
		}
		if p.Scheme != "" {
			h.Header["Authorization"] = strings.TrimSpace(p.Scheme + " " + p.Credentials)
		}
		out = append(out, h)
	}
	return out
}
