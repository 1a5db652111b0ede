package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/reduce"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

// The child is a server on a file that kills itself, kill -9, before or after the
// n-th write: each transaction of the ledger and each put of the saver is one.
const (
	childDir  = "TREADLE_SERVER_CHILD"
	childKill = "TREADLE_SERVER_KILL" // n, or -n for after the write; 0 means never
)

// killer counts the writes of a database.
type killer struct {
	*sqlite.DB
	at    int64
	count atomic.Int64
	armed atomic.Bool
}

// write performs a write, unless the process is to die at it.
func (k *killer) write(do func() error) error {
	if !k.armed.Load() {
		return do()
	}
	n := k.count.Add(1)
	if n == k.at {
		die()
	}
	err := do()
	if -n == k.at {
		die()
	}
	return err
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (k *killer) Put(ctx context.Context, p *checkpoint.Put) error {
	return k.write(func() error { return k.DB.Put(ctx, p) })
}

func (k *killer) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	return k.write(func() error { return k.DB.PutWrites(ctx, at, fence, ws) })
}

func (k *killer) Ledger() ledger.Backend { return &killerRows{k.DB.Ledger(), k} }

type killerRows struct {
	ledger.Backend
	k *killer
}

func (r *killerRows) Update(ctx context.Context, lock uuid.UUID, fn func(ledger.Tx) error) error {
	return r.k.write(func() error { return r.Backend.Update(ctx, lock, fn) })
}

func (r *killerRows) Append(ctx context.Context, e *ledger.Events) error {
	return r.k.write(func() error { return r.Backend.Append(ctx, e) })
}

type effects struct {
	Log reduce.List[string] `json:"log"`
}

// effectsGraph has three steps, each with an effect outside: a line in a file.
func effectsGraph(dir string) treadle.AnyGraph {
	b := treadle.New[effects]("effects")
	steps := []string{"one", "two", "three"}
	for _, name := range steps {
		treadle.AddNode(b, name, func(ctx context.Context, _ effects) (treadle.Update, error) {
			done, err := treadle.Do(ctx, "effect", func(ctx context.Context) (string, error) {
				f, err := os.OpenFile(filepath.Join(dir, "effects"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
				if err != nil {
					return "", err
				}
				_, err = fmt.Fprintln(f, name, treadle.InfoFrom(ctx).IdempotencyKey)
				return name, joinClose(err, f)
			})
			return treadle.Update{"log": reduce.List[string]{done}}, err
		})
	}
	b.Sequence(treadle.Nodes(slices.Concat([]string{treadle.Start}, steps, []string{treadle.End}))...)
	return treadle.Must(b.Compile(nil))
}

func joinClose(err error, c io.Closer) error {
	closeErr := c.Close()
	if err == nil {
		err = closeErr
	}
	return err
}

// child runs the process to kill.
func child(dir string) error {
	go killtest.EndWithParent()
	at, err := strconv.ParseInt(os.Getenv(childKill), 10, 64)
	if err != nil {
		return err
	}
	db, err := sqlite.Open(filepath.Join(dir, "treadle.db"), nil)
	if err != nil {
		return err
	}
	k := &killer{DB: db, at: at}
	srv, err := server.NewAlone(k, []treadle.AnyGraph{effectsGraph(dir), hangs(dir)}, &server.Options{Spans: &server.SpanOptions{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "http://"+l.Addr().String())
	k.armed.Store(true)
	return http.Serve(l, srv)
}

// startChild starts the child and returns a client of it.
func startChild(t *testing.T, dir string, at int) (*client, func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childKill+"="+strconv.Itoa(at))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the child does not serve: %v", err)
	}
	return &client{t: t, base: strings.TrimSpace(line), head: http.Header{}}, func() {
		_ = cmd.Process.Kill()
		_ = in.Close()
		_ = cmd.Wait()
		http.DefaultClient.CloseIdleConnections()
	}
}

// told contains what a client received before the server died.
type told struct {
	thread, run string
	frames      []frame
	whole       bool // it heard the end
}

// talk creates a thread and a run, and reads its stream for as long as it can.
func talk(c *client) (h told) {
	post := func(path, body string) *http.Response {
		resp, err := http.Post(c.base+path, "application/json", strings.NewReader(body)) //nolint:noctx // the server's death ends it
		if err != nil {
			return nil
		}
		return resp
	}
	resp := post("/threads", "{}")
	if resp == nil {
		return h
	}
	var th struct {
		ID string `json:"thread_id"`
	}
	err := json.NewDecoder(resp.Body).Decode(&th)
	_ = resp.Body.Close()
	if err != nil {
		return h
	}
	h.thread = th.ID
	resp = post("/threads/"+th.ID+"/runs/stream", `{"assistant_id":"effects","input":{},"stream_mode":["updates"],"stream_resumable":true}`)
	if resp == nil {
		return h
	}
	h.run = resp.Header.Get("Content-Location")
	raw, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	h.whole = err == nil
	if i := strings.LastIndex(string(raw), "\n\n"); i >= 0 { // a frame that is not whole was not heard
		h.frames = frames(raw[:i+2])
	}
	return h
}

func TestKilledAtEveryWrite(t *testing.T) {
	points := 0
	for n := 1; ; n++ {
		survived := true
		for _, at := range []int{n, -n} {
			dir := t.TempDir()
			c, stop := startChild(t, dir, at)
			heard := talk(c)
			stop()
			survived = survived && heard.whole
			c, stop = startChild(t, dir, 0)
			checkAfterKill(t, c, dir, heard, fmt.Sprintf("killed at write %d", at))
			stop()
			points++
		}
		if survived {
			break
		}
	}
	if points < 20 {
		t.Errorf("there were only %d points to die at", points)
	}
}

// checkAfterKill continues reading where the client's connection broke.
func checkAfterKill(t *testing.T, c *client, dir string, heard told, when string) {
	t.Helper()
	if heard.thread == "" {
		return
	}
	var runs []struct {
		ID     string `json:"run_id"`
		Status string
	}
	list := func() {
		c.ok("GET", "/threads/"+heard.thread+"/runs", "", &runs)
	}
	list()
	if heard.run != "" && len(runs) != 1 || len(runs) > 1 {
		t.Fatalf("%s: the client received run %q, but the runs are %v", when, heard.run, runs)
	}
	if len(runs) == 0 {
		return
	}
	run := "/threads/" + heard.thread + "/runs/" + runs[0].ID
	last := ""
	if len(heard.frames) > 0 {
		last = heard.frames[len(heard.frames)-1].id
	}
	c.head.Set("Last-Event-ID", last)
	_, _, raw := c.do("GET", run+"/stream", "")
	c.head.Del("Last-Event-ID")
	var got struct{ Log []string }
	c.ok("GET", run+"/join", "", &got)
	if strings.Join(got.Log, " ") != "one two three" {
		t.Errorf("%s: the run has ended with %v", when, got.Log)
	}
	list()
	if runs[0].Status != "success" {
		t.Errorf("%s: the run is %s", when, runs[0].Status)
	}
	wantSteps(t, when, append(heard.frames, frames(raw)...))
	wantEffects(t, when, filepath.Join(dir, "effects"))
}

// wantSteps checks that a reader has seen all steps, in order. The step that was
// running may have been shown twice.
func wantSteps(t *testing.T, when string, fs []frame) {
	t.Helper()
	var steps []string
	for _, f := range fs {
		if f.event != "updates" {
			continue
		}
		var u map[string]any
		if err := json.Unmarshal([]byte(f.data), &u); err != nil {
			t.Fatal(err)
		}
		for name := range u {
			if name == "effect" { // a call inside a step
				continue
			}
			if len(steps) == 0 || steps[len(steps)-1] != name {
				steps = append(steps, name)
			}
		}
	}
	if strings.Join(steps, " ") != "one two three" {
		t.Errorf("%s: a reader that came back has seen the steps %v", when, steps)
	}
}

// wantEffects checks that each effect happened, under one key, and that only the effect in
// progress when the process died was repeated.
func wantEffects(t *testing.T, when, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	keys, lines := map[string]string{}, 0
	for line := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n") {
		step, key, _ := strings.Cut(line, " ")
		if old, ok := keys[step]; ok && old != key {
			t.Errorf("%s: the effect of step %s was repeated under another key", when, step)
		}
		keys[step] = key
		lines++
	}
	if len(keys) != 3 || lines > 4 {
		t.Errorf("%s: effects\n%s", when, raw)
	}
}
