package clienttest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/backgroundtest"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/sqlite"
)

// The process that a test kills, with the address of the server and its file.
const (
	parentEnv  = "TREADLE_TEST_PARENT_OF"
	parentFile = "TREADLE_TEST_PARENT_FILE"
)

// family is an agent whose background agent runs on a server.
type family struct {
	thread *treadle.Thread[deep.State, deep.State]
	parent *treadle.Graph[deep.State, deep.State]
	tasks  *deep.Local
	db     *sqlite.DB
}

// newFamily opens a family, whose parent starts a task, waits, and calls heard with the notice
// of the result.
func newFamily(c *client.Client, file string, heard func(notice string)) (*family, error) {
	db, err := sqlite.Open(file, nil)
	if err != nil {
		return nil, err
	}
	tasks, err := deep.NewLocal("tasks", client.NewGraph[deep.State, deep.State](c, "worker", nil), &treadle.Options{Saver: db})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	model := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		last := r.Messages[len(r.Messages)-1]
		switch {
		case last.Text() == "go":
			return llm.Assistant("", llmtest.ToolCall("start_async_task", map[string]any{"subagent_type": "worker", "description": "count owls"})), nil
		case strings.HasPrefix(last.Text(), "[notice"):
			heard(last.Text())
			return llm.Assistant("thank you"), nil
		}
		return llm.Assistant("I wait."), nil
	})
	parent, err := deep.New(model, &deep.Options{Name: "parent", Graph: treadle.Options{Saver: db},
		Background: []deep.BackgroundAgent{{Name: "worker", Description: "works on a server", Runner: tasks}}})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &family{parent.Thread("p"), parent, tasks, db}, nil
}

// announcing is a transport that prints when a run was created.
type announcing struct{ http.RoundTripper }

func (a announcing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.RoundTripper.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/runs") {
		fmt.Println("run created") //nolint:forbidigo // the test reads it
	}
	return resp, err
}

// doomedParent starts a task on a server and serves it until the process is killed.
func doomedParent(url, file string) error {
	c, err := client.New(url, &client.Options{HTTPClient: &http.Client{Transport: announcing{http.DefaultTransport}}})
	if err != nil {
		return err
	}
	f, err := newFamily(c, file, func(string) {})
	if err != nil {
		return err
	}
	if _, err := f.thread.Run(context.Background(), deep.Ask("go")); !treadle.IsPause(err) {
		return fmt.Errorf("parent does not wait: %w", err)
	}
	return f.tasks.Serve(context.Background(), f.parent)
}

// worker is a deep agent on a server that finishes when released.
func worker(t *testing.T, began, release, stopped chan struct{}, calls *atomic.Int32) string {
	t.Helper()
	g, err := deep.New(llmtest.Func(func(ctx context.Context, r *llm.Request) (llm.Message, error) {
		calls.Add(1)
		began <- struct{}{}
		select {
		case <-release:
			return llm.Assistant("report on " + r.Messages[len(r.Messages)-1].Text()), nil
		case <-ctx.Done():
			close(stopped)
			return llm.Message{}, ctx.Err()
		}
	}), &deep.Options{Name: "worker"})
	ok(t, err)
	return serve(t, nil, g)
}

// hear serves the tasks until the parent hears the result of one.
func (f *family) hear(t *testing.T, done <-chan string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- f.tasks.Serve(ctx, f.parent) }()
	notice := <-done
	cancel()
	ok(t, <-served)
	return notice
}

// The parent's process is killed while its task runs on a server. The task goes on, and
// another process continues the parent with the result.
func TestRemoteTaskSurvivesParent(t *testing.T) {
	began, release, stopped := make(chan struct{}, 10), make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	url := worker(t, began, release, stopped, &calls)
	file := filepath.Join(t.TempDir(), "parent.db")
	t.Setenv(parentFile, file)
	killtest.Lines(t, parentEnv+"="+url, 1)
	<-began
	close(release) // the task ends without a parent

	done := make(chan string, 10)
	f, err := newFamily(connect(t, url, nil), file, func(notice string) { done <- notice })
	must(t, f, err)
	defer func() { ok(t, f.db.Close()) }()
	if notice := f.hear(t, done); !strings.Contains(notice, "ended: success") || !strings.Contains(notice, "report on count owls") {
		t.Errorf("got %q", notice)
	}
	if calls.Load() != 1 || len(done) != 0 {
		t.Errorf("the task ran %d times; %d more notices", calls.Load(), len(done))
	}
}

// A canceled task stops on the server.
func TestCanceledTaskStopsOnServer(t *testing.T) {
	began, release, stopped := make(chan struct{}, 10), make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	url := worker(t, began, release, stopped, &calls)
	f, err := newFamily(connect(t, url, nil), filepath.Join(t.TempDir(), "parent.db"), func(string) {})
	must(t, f, err)
	defer func() { ok(t, f.db.Close()) }()
	if _, err := f.thread.Run(t.Context(), deep.Ask("go")); !treadle.IsPause(err) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- f.tasks.Serve(ctx, f.parent) }()
	<-began
	ok(t, f.tasks.Cancel(t.Context(), taskOf(t, f)))
	cancel()
	ok(t, <-served)
	<-stopped
}

// joining is a transport that reports requests that wait for a run.
type joining struct {
	http.RoundTripper
	joins chan struct{}
}

func (j joining) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/runs/") && r.Method == http.MethodGet {
		select {
		case j.joins <- struct{}{}:
		default: // reported already
		}
	}
	return j.RoundTripper.RoundTrip(r)
}

// A process ends and cancels the run on the server, which takes a while to stop. Another
// process finds it still running, and continues the task nevertheless.
func TestStoppingTaskContinues(t *testing.T) {
	began, stops, release := make(chan struct{}, 10), make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	g, err := deep.New(llmtest.Func(func(ctx context.Context, r *llm.Request) (llm.Message, error) {
		if calls.Add(1) > 1 {
			return llm.Assistant("report on " + r.Messages[len(r.Messages)-1].Text()), nil
		}
		began <- struct{}{}
		<-ctx.Done()
		close(stops)
		<-release
		return llm.Message{}, ctx.Err()
	}), &deep.Options{Name: "worker"})
	ok(t, err)
	url, file, done := serve(t, nil, g), filepath.Join(t.TempDir(), "parent.db"), make(chan string, 10)
	joins, transport := make(chan struct{}, 1), &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	f, err := newFamily(connect(t, url, &client.Options{HTTPClient: &http.Client{Transport: joining{transport, joins}}}), file, func(notice string) { done <- notice })
	must(t, f, err)
	defer func() { ok(t, f.db.Close()) }()
	if _, err := f.thread.Run(t.Context(), deep.Ask("go")); !treadle.IsPause(err) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- f.tasks.Serve(ctx, f.parent) }()
	<-began
	cancel()
	ok(t, <-served)
	<-stops
	for len(joins) > 0 {
		<-joins
	}
	go func() {
		<-joins
		close(release)
	}()
	if notice := f.hear(t, done); !strings.Contains(notice, "report on count owls") {
		t.Errorf("got %q", notice)
	}
}

// taskOf returns the ID of the only task.
func taskOf(t *testing.T, f *family) string {
	t.Helper()
	snap, err := f.thread.State(t.Context())
	must(t, snap, err)
	var s deep.State
	ok(t, snap.Read(&s))
	for _, m := range s.Messages {
		if rest, found := strings.CutPrefix(m.Text(), "Started task "); found {
			return strings.TrimSuffix(rest, ".")
		}
	}
	t.Fatal("no task")
	return ""
}

// Tasks on a server keep the promises of tasks in the same process.
func TestRemoteTasks(t *testing.T) {
	backgroundtest.Run(t, func(t *testing.T, worker *treadle.Graph[deep.State, deep.State]) func() backgroundtest.Process {
		url, saver := serve(t, nil, worker), checkpoint.NewMemory()
		return func() backgroundtest.Process {
			tasks, err := deep.NewLocal("tasks", client.NewGraph[deep.State, deep.State](connect(t, url, nil), "worker", nil),
				&treadle.Options{Saver: saver, Logger: slog.New(slog.DiscardHandler)})
			must(t, tasks, err)
			return backgroundtest.Process{Background: tasks, Serve: tasks.Serve, Answer: tasks.Resume}
		}
	})
}
