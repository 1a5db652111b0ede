package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/server"
)

// brokenDisk is a database whose checkpoints cannot be stored while it is full.
type brokenDisk struct {
	*memory
	full atomic.Bool
	away atomic.Bool // it cannot be reached

	noSpace atomic.Bool // it reports a full disk
}

func (d *brokenDisk) Put(ctx context.Context, p *checkpoint.Put) error {
	if d.full.Load() {
		return errors.New("write /secret/path: no space left")
	}
	if d.noSpace.Load() {
		return fmt.Errorf("%w: %w", checkpoint.ErrUnavailable, syscall.ENOSPC)
	}
	if d.away.Load() {
		return fmt.Errorf("dial 10.0.0.1: %w", checkpoint.ErrUnavailable)
	}
	return d.memory.Put(ctx, p)
}

func TestDatabaseFailuresAreServerErrors(t *testing.T) {
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

// A full disk is reported as such, and by the health check too. The run that it stopped ends when
// there is space again.
func TestFullDiskReturns507(t *testing.T) {
	db := &brokenDisk{memory: newMemory()}
	c := serveOn(t, db, &server.Options{})
	thread := c.thread()
	c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"router","input":{"target":"left"}}`, nil)
	c.ok("GET", "/ok?check_db=1", "", nil)
	db.noSpace.Store(true)
	status, _, raw := c.do("POST", "/threads/"+thread+"/state", `{"values":{"target":"right"}}`)
	if status != http.StatusInsufficientStorage || string(raw) != `{"detail":"database disk full: free space and retry"}` {
		t.Errorf("an edit: %d %s", status, raw)
	}
	var run struct {
		ID     string `json:"run_id"`
		Status string
	}
	c.ok("POST", "/threads/"+thread+"/runs", `{"assistant_id":"router","input":{"target":"right"}}`, &run)
	status = 0
	for status != http.StatusInsufficientStorage { // until the run has met the full disk
		status, _, raw = c.do("GET", "/ok?check_db=1", "")
	}
	if !strings.Contains(string(raw), "disk full") {
		t.Errorf("the health check: %d %s", status, raw)
	}
	db.noSpace.Store(false)
	c.ok("GET", "/threads/"+thread+"/runs/"+run.ID+"/join", "", nil)
	c.ok("GET", "/threads/"+thread+"/runs/"+run.ID, "", &run)
	if run.Status != "success" {
		t.Errorf("the run is %s, want success", run.Status)
	}
	c.ok("GET", "/ok?check_db=1", "", nil)
}

func TestUnreachableDatabaseReturns503(t *testing.T) {
	db := &brokenDisk{memory: newMemory()}
	b := bus.NewMemory()
	c := serveOn(t, db, &server.Options{Bus: b})
	t.Cleanup(func() { _ = b.Close() })
	thread := c.thread()
	c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"router","input":{"target":"left"}}`, nil)
	db.away.Store(true)
	status, _, raw := c.do("POST", "/threads/"+thread+"/state", `{"values":{"target":"right"}}`)
	if status != http.StatusServiceUnavailable || string(raw) != `{"detail":"database unavailable: retry"}` {
		t.Errorf("an edit: %d %s", status, raw)
	}
	// A run does not fail. It resumes when the database is available again.
	var run struct {
		ID     string `json:"run_id"`
		Status string
	}
	c.ok("POST", "/threads/"+thread+"/runs", `{"assistant_id":"router","input":{"target":"right"}}`, &run)
	time.AfterFunc(300*time.Millisecond, func() { db.away.Store(false) })
	var got map[string]any
	c.ok("GET", "/threads/"+thread+"/runs/"+run.ID+"/join", "", &got)
	c.ok("GET", "/threads/"+thread+"/runs/"+run.ID, "", &run)
	if run.Status != "success" || fmt.Sprint(got["path"]) != "[route left route right]" {
		t.Errorf("the run is %s with %v", run.Status, got)
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
		{threads, steps(`{"command":{"resume":1},"as_node":"plan"}`), "cannot answer an interrupt"},
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
