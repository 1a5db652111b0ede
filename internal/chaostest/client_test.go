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
	"time"

	"github.com/google/uuid"
)

// client uses the servers as one that is behind a load balancer does: it tries another
// one when one does not answer.
type client struct {
	c    *cluster
	rand *rand.Rand
	http *http.Client
}

// errRefused says that a server has answered with an error that trying again does not change.
var errRefused = errors.New("refused")

// try sends a request to some server until one takes it.
func (k *client) try(ctx context.Context, method, path string, header http.Header, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	for {
		err := k.send(ctx, method, path, header, raw, into)
		if err == nil || errors.Is(err, errRefused) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// send sends a request to some server.
func (k *client) send(ctx context.Context, method, path string, header http.Header, raw []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	resp, err := k.open(ctx, method, path, header, raw)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// open sends a request to some server, and returns an answer that is a success.
func (k *client) open(ctx context.Context, method, path string, header http.Header, raw []byte) (*http.Response, error) {
	base := k.c.nodes[k.rand.IntN(len(k.c.nodes))].at()
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
	if resp.StatusCode >= 300 {
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		err := fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
		if resp.StatusCode < 500 && resp.StatusCode != http.StatusConflict && resp.StatusCode != http.StatusTooManyRequests {
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		}
		return nil, err
	}
	return resp, nil
}

// accepted is a run that a server has accepted.
type accepted struct {
	Thread  string `json:"thread_id"`
	Run     string `json:"run_id"`
	kind    string
	givenUp bool // too many of its processes died
}

// start makes a thread and starts a run on it.
func (k *client) start(ctx context.Context, kind string) (*accepted, error) {
	thread := uuid.NewString()
	// A thread that exists already was made by a request whose answer got lost.
	if err := k.try(ctx, http.MethodPost, "/threads", nil, map[string]any{"thread_id": thread, "if_exists": "do_nothing"}, nil); err != nil {
		return nil, err
	}
	run, err := k.run(ctx, thread, map[string]any{"input": map[string]any{"kind": kind}})
	if err == nil {
		run.kind = kind
	}
	return run, err
}

// run starts a run once, however often it is sent.
func (k *client) run(ctx context.Context, thread string, body map[string]any) (*accepted, error) {
	body["assistant_id"] = "chaos"
	body["stream_mode"] = []string{"updates"}
	body["stream_resumable"] = true
	body["multitask_strategy"] = "enqueue"
	run := &accepted{}
	header := http.Header{"Idempotency-Key": {uuid.NewString()}}
	if err := k.try(ctx, http.MethodPost, "/threads/"+thread+"/runs", header, body, run); err != nil {
		return nil, err
	}
	return run, nil
}

// woken waits until a thread that slept has ended, and returns how many runs it took. It is two, the second of which a
// server has begun to wake the thread up, or one: that of a process which died, and which another one went on with when
// the time had come.
func (k *client) woken(ctx context.Context, slept *accepted) (int, error) {
	for {
		var th struct{ Status string }
		if err := k.try(ctx, http.MethodGet, "/threads/"+slept.Thread, nil, nil, &th); err != nil {
			return 0, err
		}
		if th.Status == "idle" || th.Status == "error" {
			var runs []json.RawMessage
			if err := k.try(ctx, http.MethodGet, "/threads/"+slept.Thread+"/runs", nil, nil, &runs); err != nil {
				return 0, err
			}
			if len(runs) > 2 {
				return 0, fmt.Errorf("%w: thread %s, which slept once, has %d runs: %s", errRefused, slept.Thread, len(runs), runs)
			}
			return len(runs), nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return 0, fmt.Errorf("thread %s is %s and is not woken up: %w", slept.Thread, th.Status, ctx.Err())
		}
	}
}

// stream reads the stream of a run to its end, and goes on with another server behind
// the last event when a connection breaks.
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
				return fmt.Errorf("%w: event %s comes behind %s", errRefused, e.id, last)
			}
			last = e.id
			events = append(events, e)
			return nil
		})
		if errors.Is(err, errRefused) || ctx.Err() != nil {
			return events, errors.Join(err, ctx.Err())
		}
		if ended {
			return events, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func number(id string) uint64 {
	n, _ := strconv.ParseUint(id, 10, 64)
	return n
}

type event struct{ id, name, data string }

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
			// A stream that ends by itself has told the end of the run, or its server is going.
			var now struct{ Status string }
			if errors.Is(err, io.EOF) && k.try(ctx, http.MethodGet, "/threads/"+run.Thread+"/runs/"+run.Run, nil, nil, &now) == nil {
				return now.Status != "pending" && now.Status != "running", nil
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
