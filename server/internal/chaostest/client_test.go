package chaostest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/delay"
)

// client uses the servers like a client of a load balancer: it tries another server if one
// does not respond.
type client struct {
	c    *cluster
	http *http.Client

	mu   sync.Mutex
	only *node // nil means any
	rand *rand.Rand
}

// newClient returns a client of all servers, or of one.
func newClient(c *cluster, r *rand.Rand, only *node) *client {
	return &client{c: c, only: only, rand: r, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, ResponseHeaderTimeout: 20 * time.Second}}}
}

func (k *client) close() { k.http.CloseIdleConnections() }

// intN returns a random number below n.
func (k *client) intN(n int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rand.IntN(n)
}

// refusedError reports a response that a retry does not change.
type refusedError struct {
	status int
	text   string
}

func (e *refusedError) Error() string { return e.text }

// try sends a request to some server until one accepts it.
func (k *client) try(ctx context.Context, method, path string, header http.Header, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	for {
		err := k.send(ctx, method, path, header, raw, into)
		_, refused := errors.AsType[*refusedError](err)
		if err == nil || refused || ctx.Err() != nil {
			return err
		}
		if waitErr := delay.For(ctx, 100*time.Millisecond); waitErr != nil {
			return errors.Join(waitErr, err)
		}
	}
}

// send sends a request to some server.
func (k *client) send(ctx context.Context, method, path string, header http.Header, raw []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 25*time.Second)
	defer cancel()
	resp, err := k.open(ctx, method, path, header, raw)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// open sends a request to some server, and returns a response that is a success.
func (k *client) open(ctx context.Context, method, path string, header http.Header, raw []byte) (*http.Response, error) {
	k.mu.Lock()
	n := k.only
	k.mu.Unlock()
	if n == nil {
		n = k.c.nodes[k.intN(len(k.c.nodes))]
	}
	base := n.at()
	if base == "" {
		return nil, errors.New("the server is down")
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/json")
	resp, err := k.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	what := fmt.Sprintf("%s %s: %d %s", method, path, resp.StatusCode, text)
	switch resp.StatusCode {
	case http.StatusServiceUnavailable, http.StatusInsufficientStorage, http.StatusConflict, http.StatusTooManyRequests:
		return nil, errors.New(what)
	}
	if resp.StatusCode >= 500 {
		k.c.failedInternally(n, what)
		return nil, errors.New(what)
	}
	return nil, &refusedError{resp.StatusCode, what}
}

// failedInternally records a response that is a server defect. Clients cannot know that
// they may resend the request.
func (c *cluster) failedInternally(n *node, what string) {
	c.note("server %d: %s", n.i, what)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.invalid) < 20 {
		c.invalid = append(c.invalid, fmt.Sprintf("%.3f s: server %d: %s", time.Since(c.began).Seconds(), n.i, what))
	}
}

// accepted is a run that a server has accepted.
type accepted struct {
	Thread string `json:"thread_id"`
	Run    string `json:"run_id"`
}

// thread creates a thread.
func (k *client) thread(ctx context.Context) (string, error) {
	id := uuid.NewString()
	// An existing thread was created by a request whose response got lost.
	err := k.try(ctx, http.MethodPost, "/threads", nil, map[string]any{"thread_id": id, "if_exists": "do_nothing"}, nil)
	return id, err
}

// run starts a run once, no matter how often the request is sent. It announces its end to
// the sink.
func (k *client) run(ctx context.Context, thread string, body map[string]any) (*accepted, error) {
	all := map[string]any{"assistant_id": "chaos", "stream_mode": []string{"updates"}, "stream_resumable": true, "multitask_strategy": "enqueue",
		"webhook": k.c.sink.hook(), "config": map[string]any{"recursion_limit": 1000}}
	maps.Copy(all, body)
	run := &accepted{}
	header := http.Header{"Idempotency-Key": {uuid.NewString()}}
	path := "/threads/" + thread + "/runs"
	if thread == "" {
		path = "/runs"
	}
	return run, k.try(ctx, http.MethodPost, path, header, all, run)
}

// status returns the status of a run, or "" if the run was deleted.
func (k *client) status(ctx context.Context, run *accepted) (string, error) {
	var now struct{ Status string }
	err := k.try(ctx, http.MethodGet, "/threads/"+run.Thread+"/runs/"+run.Run, nil, nil, &now)
	if e, ok := errors.AsType[*refusedError](err); ok && e.status == http.StatusNotFound {
		return "", nil
	}
	return now.Status, err
}

// States of A2A tasks.
const (
	taskWorks = "TASK_STATE_WORKING"
	taskAsks  = "TASK_STATE_INPUT_REQUIRED"
	taskDone  = "TASK_STATE_COMPLETED"
)

// taskState is an A2A task as a client sees it.
type taskState struct {
	ID     string
	Status struct{ State string }
}

// message sends a message to the agent once, no matter how often the request is sent.
func (k *client) message(ctx context.Context, message, settings map[string]any) (*taskState, error) {
	message["messageId"], message["role"] = uuid.NewString(), "ROLE_USER"
	header := http.Header{"Idempotency-Key": {uuid.NewString()}}
	var sent struct{ Task *taskState }
	err := k.rpc(ctx, "/a2a/chaos", header, "SendMessage", map[string]any{"message": message, "configuration": settings}, &sent)
	if err == nil && sent.Task == nil {
		err = errors.New("a message has no task")
	}
	if err != nil {
		return nil, err
	}
	return k.settled(ctx, sent.Task)
}

// settled waits until a task does not work any longer. A server that shuts down answers before that.
func (k *client) settled(ctx context.Context, task *taskState) (*taskState, error) {
	for task.Status.State == taskWorks {
		if err := delay.For(ctx, 100*time.Millisecond); err != nil {
			return nil, fmt.Errorf("task %s: %w", task.ID, err)
		}
		now := &taskState{}
		if err := k.rpc(ctx, "/a2a/chaos", nil, "GetTask", map[string]any{"id": task.ID}, now); err != nil {
			return nil, err
		}
		task = now
	}
	return task, nil
}

// rpc calls a method. It sends the request again if the server fails internally, as client/a2a does.
func (k *client) rpc(ctx context.Context, path string, header http.Header, method string, params, into any) error {
	body := map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
	for {
		var answer struct {
			Result json.RawMessage
			Error  *struct {
				Code    int
				Message string
			}
		}
		if err := k.try(ctx, http.MethodPost, path, header, body, &answer); err != nil {
			return err
		}
		switch {
		case answer.Error == nil:
			return json.Unmarshal(answer.Result, into)
		case answer.Error.Code != -32603:
			return &refusedError{0, fmt.Sprintf("%s: %d %s", method, answer.Error.Code, answer.Error.Message)}
		}
		if err := delay.For(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%s: %s: %w", method, answer.Error.Message, err)
		}
	}
}

// threadState is a thread as a client sees it.
type threadState struct {
	Status     string
	Error      json.RawMessage
	Values     state
	Interrupts map[string][]json.RawMessage
}

func (k *client) get(ctx context.Context, thread string) (*threadState, error) {
	th := &threadState{}
	return th, k.try(ctx, http.MethodGet, "/threads/"+thread, nil, nil, th)
}

// until asks for a thread until it is as wanted.
func (k *client) until(ctx context.Context, thread, what string, wanted func(*threadState) bool) (*threadState, error) {
	for {
		th, err := k.get(ctx, thread)
		if err != nil || wanted(th) {
			return th, err
		}
		if waitErr := delay.For(ctx, 50*time.Millisecond); waitErr != nil {
			return th, fmt.Errorf("thread %s is %s with the log %v and the interrupts %s, want %s: %w", thread, th.Status, th.Values.Log, th.Interrupts, what, waitErr)
		}
	}
}

// event is an event of a stream.
type event struct{ id, name, data string }

// stream reads the stream of a run to its end. If a connection breaks, it resumes at
// another server after the last event.
func (k *client) stream(ctx context.Context, run *accepted) (events []event, err error) {
	last := ""
	for {
		header := http.Header{}
		if last != "" {
			header.Set("Last-Event-ID", last)
		}
		ended, err := k.read(ctx, run, header, func(e event) error {
			if e.id == "" {
				return nil
			}
			if last != "" && number(e.id) <= number(last) {
				return &refusedError{0, fmt.Sprintf("event %s of run %s follows %s", e.id, run.Run, last)}
			}
			last = e.id
			events = append(events, e)
			return nil
		})
		if _, refused := errors.AsType[*refusedError](err); refused || ctx.Err() != nil {
			return events, fmt.Errorf("stream of run %s on thread %s after event %q: %w", run.Run, run.Thread, last, errors.Join(err, ctx.Err()))
		}
		if ended {
			return events, nil
		}
		_ = delay.For(ctx, 50*time.Millisecond) // read fails if ctx has ended
	}
}

func number(id string) uint64 {
	n, _ := strconv.ParseUint(id, 10, 64)
	return n
}

// read reads from one connection. It reports whether the run has ended.
func (k *client) read(ctx context.Context, run *accepted, header http.Header, see func(event) error) (ended bool, err error) {
	resp, err := k.open(ctx, http.MethodGet, "/threads/"+run.Thread+"/runs/"+run.Run+"/stream", header, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	in := bufio.NewReader(resp.Body)
	var e event
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			// A stream that ends by itself has sent the end of the run, or its server is going.
			if errors.Is(err, io.EOF) {
				now, err := k.status(ctx, run)
				return err == nil && now != "pending" && now != "running", err
			}
			return false, err
		}
		switch name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ": "); name {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				if err := see(e); err != nil {
					return false, err
				}
			}
			e = event{}
		}
	}
}

// follows checks that the streams contain every step of a turn up to the last, in order.
func follows(thread string, events []event, last int) error {
	seen := 0
	for _, e := range events {
		if e.name != "updates" {
			continue
		}
		var update map[string]struct {
			Step *int `json:"step"`
		}
		if err := json.Unmarshal([]byte(e.data), &update); err != nil {
			continue // an interrupt
		}
		for _, u := range update {
			if u.Step == nil {
				continue
			}
			// If a process died after a step, the next process reports the step again.
			if *u.Step > seen+1 || *u.Step < seen {
				return fmt.Errorf("stream of thread %s has step %d after %d: %v", thread, *u.Step, seen, events)
			}
			seen = *u.Step
		}
	}
	if seen != last {
		return fmt.Errorf("stream of thread %s ends after step %d of %d: %v", thread, seen, last, events)
	}
	return nil
}
