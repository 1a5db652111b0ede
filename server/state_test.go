package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/server"
)

// brokenDisk is a database whose checkpoints cannot be stored while it is full.
type brokenDisk struct {
	*memory
	full atomic.Bool
}

func (d *brokenDisk) Put(ctx context.Context, p *checkpoint.Put) error {
	if d.full.Load() {
		return errors.New("write /secret/path: no space left")
	}
	return d.memory.Put(ctx, p)
}

func TestFailuresOfTheDatabaseAreNotTheCallersMistakes(t *testing.T) {
	db := &brokenDisk{memory: newMemory()}
	c := serveOn(t, db, &server.Options{})
	thread := c.thread()
	c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"router","input":{"target":"left"}}`, nil)
	db.full.Store(true)
	for path, body := range map[string]string{
		"/threads/" + thread + "/state": `{"values":{"target":"right"}}`,
		"/threads":                      `{"metadata":{"graph_id":"router"},"supersteps":[{"updates":[{"values":{"target":"left"},"as_node":"route"}]}]}`,
	} {
		status, _, raw := c.do("POST", path, body)
		if status != http.StatusInternalServerError || string(raw) != `{"detail":"Internal Server Error"}` {
			t.Errorf("POST %s: %d %s", path, status, raw)
		}
	}
}

func TestMistakesInEditsAreNamed(t *testing.T) {
	c := serve(t, nil)
	thread := c.thread()
	c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"fanout","input":{"items":["a","b"]}}`, nil)
	state, threads := "/threads/"+thread+"/state", "/threads"
	steps := func(updates string) string {
		return `{"metadata":{"graph_id":"fanout"},"supersteps":[{"updates":[` + updates + `]}]}`
	}
	for _, x := range []struct{ path, body, want string }{
		{state, `{"values":{"items":7}}`, "items"},
		{state, `{"values":7}`, "values"},
		{state, `{"values":[["items"]]}`, "values"},
		{state, `{"values":{},"as_node":"nope"}`, "nope"},
		{state, `{"values":{},"as_node":"__copy__"}`, "takes no values"},
		{threads, `{"metadata":{"graph_id":"fanout"},"supersteps":[{"updates":7}]}`, "supersteps"},
		{threads, steps(`{"values":{"items":7},"as_node":"plan"}`), "items"},
		{threads, steps(`{"values":{},"as_node":"nope"}`), "nope"},
		{threads, steps(`{"command":{"resume":1},"as_node":"plan"}`), "cannot answer a question"},
		{threads, steps(`{"command":{"goto":7},"as_node":"plan"}`), "goto"},
		{threads, steps(``), "no edits"},
	} {
		status, _, raw := c.do("POST", x.path, x.body)
		var answer struct{ Detail string }
		if err := json.Unmarshal(raw, &answer); err != nil || status < 400 || status >= 500 || !strings.Contains(answer.Detail, x.want) {
			t.Errorf("POST %s %s: %d %s, want a refusal that has %q", x.path, x.body, status, raw, x.want)
		}
	}
}
