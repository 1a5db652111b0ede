package clienttest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/client"
)

// nodeThread returns the remote thread that a node has made, and its runs.
func nodeThread(t *testing.T, c *client.Client) (string, []client.Run) {
	t.Helper()
	found, err := c.Threads.Search(t.Context(), &client.ThreadSearch{Metadata: map[string]any{"treadle_node": "remote"}})
	must(t, found, err)
	if len(found) != 1 {
		t.Fatalf("%d remote threads, want one", len(found))
	}
	runs, err := c.Runs.List(t.Context(), found[0].ID, nil)
	return found[0].ID, must(t, runs, err)
}

func TestRemoteNodeSurvivesBrokenConnection(t *testing.T) {
	for _, durable := range []bool{true, false} {
		g := newGate(t)
		url := serve(t, nil, g)
		p, c := broken(t, url, &client.Options{Retry: quick(1000)})
		graph := outer(t, client.NewGraph[passed, passed](c, "gate", nil))
		go func() {
			<-g.waiting
			p.Cut()
			p.Heal()
			close(g.open)
		}()
		run := graph.Run
		if durable {
			run = graph.Thread("7").Run
		}
		out, err := run(t.Context(), passed{})
		if must(t, out, err).Steps != 2 || g.second.Load() != 1 {
			t.Fatalf("%+v, %d executions", out, g.second.Load())
		}
		if durable {
			if _, runs := nodeThread(t, c); len(runs) != 1 {
				t.Errorf("%d runs", len(runs))
			}
			continue
		}
		if n, err := c.Threads.Count(t.Context(), nil); must(t, n, err) != 0 {
			t.Errorf("%d threads are left", n)
		}
	}
}

// A node that runs again, because its process died or lost the server, finds its run.
func TestRerunRemoteNodeJoinsRun(t *testing.T) {
	g := newGate(t)
	url := serve(t, nil, g)
	p, c := broken(t, url, &client.Options{Retry: quick(2)})
	graph := outer(t, client.NewGraph[passed, passed](c, "gate", nil))
	thread := graph.Thread("7")
	go func() {
		<-g.waiting
		p.Cut()
	}()
	_, err := thread.Run(t.Context(), passed{})
	says(t, err, "remote", "client: GET /threads/")
	p.Heal()
	close(g.open)
	out, err := thread.Continue(t.Context())
	if must(t, out, err).Steps != 2 || g.second.Load() != 1 {
		t.Fatalf("%+v, %d executions", out, g.second.Load())
	}
	if _, runs := nodeThread(t, c); len(runs) != 1 {
		t.Errorf("%d runs", len(runs))
	}
}

// The result is recorded: a node that runs again after it does not ask the server.
func TestRemoteGraphResultIsRecorded(t *testing.T) {
	c := connect(t, serve(t, nil, counter(t)), nil)
	remote := client.NewGraph[counting, counted](c, "counter", nil)
	var fail atomic.Bool
	fail.Store(true)
	b := treadle.New[counting]("outer")
	treadle.AddNode(b, "remote", func(ctx context.Context, in counting) (counted, error) {
		out, err := remote.Run(ctx, in)
		if err == nil && fail.Load() {
			err = errors.New("later")
		}
		return out, err
	})
	b.Edge(treadle.Start, "remote")
	g, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})
	thread := must(t, g, err).Thread("7")
	_, err = thread.Run(t.Context(), counting{N: 1})
	says(t, err, "later")
	id, runs := nodeThread(t, c)
	ok(t, c.Threads.Delete(t.Context(), id))
	fail.Store(false)
	out, err := thread.Continue(t.Context())
	must(t, out, err)
	if !out.Done || len(runs) != 1 {
		t.Errorf("%+v, %d runs", out, len(runs))
	}
}

func TestCanceledRemoteNodeCancelsRun(t *testing.T) {
	g := newGate(t)
	c := connect(t, serve(t, nil, g), nil)
	thread := outer(t, client.NewGraph[passed, passed](c, "gate", nil)).Thread("7")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-g.waiting
		cancel()
	}()
	_, err := thread.Run(ctx, passed{})
	fails(t, err, context.Canceled)
	id, runs := nodeThread(t, c)
	_, err = c.Runs.Join(t.Context(), id, runs[0].ID)
	ok(t, err)
	if _, runs = nodeThread(t, c); runs[0].Status != "interrupted" {
		t.Fatalf("%+v", runs[0])
	}
	close(g.open)
	out, err := thread.Continue(t.Context())
	if must(t, out, err).Steps != 2 || g.first.Load() != 1 || g.second.Load() != 2 {
		t.Errorf("%+v, %d and %d executions", out, g.first.Load(), g.second.Load())
	}
}

// A remote graph that failed is continued: what had finished does not run again.
func TestFailedRemoteGraphIsContinued(t *testing.T) {
	var first, second atomic.Int32
	b := treadle.New[passed]("flaky")
	treadle.AddNode(b, "first", func(context.Context, passed) (passed, error) {
		first.Add(1)
		return passed{1}, nil
	})
	treadle.AddNode(b, "second", func(_ context.Context, s passed) (passed, error) {
		if second.Add(1) == 1 {
			return passed{}, errors.New("not yet")
		}
		return passed{s.Steps + 1}, nil
	})
	b.Sequence(treadle.Start, "first", "second")
	flaky, err := b.Compile(nil)
	c := connect(t, serve(t, nil, must(t, flaky, err)), nil)
	thread := outer(t, client.NewGraph[passed, passed](c, "flaky", nil)).Thread("7")
	_, err = thread.Run(t.Context(), passed{})
	if failed, is := errors.AsType[*client.RunError](err); !is || !strings.Contains(failed.Message, "not yet") || failed.Run == "" {
		t.Fatalf("%v", err)
	}
	out, err := thread.Continue(t.Context())
	if must(t, out, err).Steps != 2 || first.Load() != 1 || second.Load() != 2 {
		t.Errorf("%+v, %d and %d executions", out, first.Load(), second.Load())
	}
}

// Servers that do not know Idempotency-Key are asked for the run.
func TestRemoteNodeFindsRunAfterLostCreate(t *testing.T) {
	for _, alien := range []bool{false, true} {
		c := losing(t, serve(t, nil, counter(t)), http.MethodPost, "/runs", alien)
		out, err := outer(t, client.NewGraph[counting, counting](c, "counter", nil)).Thread("7").Run(t.Context(), counting{N: 1})
		must(t, out, err)
		if !out.Done {
			t.Errorf("%+v", out)
		}
		if _, runs := nodeThread(t, c); len(runs) != 1 {
			t.Errorf("%d runs", len(runs))
		}
	}
}

type asking struct {
	Names []string `json:"names,omitempty"`
}

// The node passes on all pending interrupts of the remote graph together.
func TestRemoteNodePassesAllInterrupts(t *testing.T) {
	b := treadle.New[asking]("two")
	type said struct {
		A, B string
	}
	type a struct{ A string }
	type bb struct{ B string }
	treadle.AddNode(b, "a", func(ctx context.Context, _ asking) (a, error) {
		v, err := treadle.Interrupt[string](ctx, "a?")
		return a{v}, err
	})
	treadle.AddNode(b, "b", func(ctx context.Context, _ asking) (bb, error) {
		v, err := treadle.Interrupt[string](ctx, "b?")
		return bb{v}, err
	})
	treadle.AddNode(b, "join", func(_ context.Context, s said) (asking, error) { return asking{[]string{s.A, s.B}}, nil })
	b.Edge(treadle.Start, "a")
	b.Edge(treadle.Start, "b")
	b.Join([]any{"a", "b"}, "join")
	two, err := b.Compile(nil)
	c := connect(t, serve(t, nil, must(t, two, err)), nil)
	thread := outer(t, client.NewGraph[asking, asking](c, "two", nil)).Thread("7")
	_, err = thread.Run(t.Context(), asking{})
	asked, is := errors.AsType[*treadle.InterruptError](err)
	if !is || len(asked.Pauses) != 2 {
		t.Fatalf("%v", err)
	}
	answers := treadle.Answers{}
	for _, q := range asked.Pauses {
		answers[q.ID] = strings.Trim(string(q.Value), `"?`) + "!"
	}
	out, err := thread.Resume(t.Context(), answers)
	same(t, must(t, out, err).Names, `["a!","b!"]`)
}

// A graph that asks twice is answered twice, also if it asks the same.
func TestRemoteNodeInterruptsAgain(t *testing.T) {
	b := treadle.New[asking]("twice")
	treadle.AddNode(b, "ask", func(ctx context.Context, _ asking) (asking, error) {
		first, err := treadle.Interrupt[string](ctx, "name?")
		if err != nil {
			return asking{}, err
		}
		second, err := treadle.Interrupt[string](ctx, "name?")
		return asking{[]string{first, second}}, err
	})
	b.Edge(treadle.Start, "ask")
	twice, err := b.Compile(nil)
	c := connect(t, serve(t, nil, must(t, twice, err)), nil)
	thread := outer(t, client.NewGraph[asking, asking](c, "twice", nil)).Thread("7")
	_, err = thread.Run(t.Context(), asking{})
	says(t, err, "name?")
	_, err = thread.Resume(t.Context(), "ann")
	says(t, err, "name?")
	out, err := thread.Resume(t.Context(), "bob")
	same(t, must(t, out, err).Names, `["ann","bob"]`)
	if _, runs := nodeThread(t, c); len(runs) != 3 {
		t.Errorf("%d runs", len(runs))
	}
}

// A question of a remote graph without a thread cannot be answered.
func TestRemoteInterruptRequiresThread(t *testing.T) {
	c := connect(t, serve(t, nil, ten(t)...), nil)
	g := client.NewGraph[travel, travel](c, "nested", nil)
	_, err := g.Run(t.Context(), travel{"pause"})
	says(t, err, "has no thread", "Graph.Thread")
	if _, is := errors.AsType[*treadle.InterruptError](err); !is {
		t.Errorf("%v", err)
	}
	_, err = outer(t, g).Run(t.Context(), travel{"pause"})
	fails(t, err, treadle.ErrNoThread)
	says(t, err, "child paused")
	if n, err := c.Threads.Count(t.Context(), nil); must(t, n, err) != 0 {
		t.Errorf("%d threads are left", n)
	}
}

// A node may use a remote thread that others use too.
func TestRemoteNodeOnBoundThread(t *testing.T) {
	c := connect(t, serve(t, nil, ten(t)...), nil)
	id := uuid.NewString()
	type trip struct {
		Target string   `json:"target"`
		Path   []string `json:"path,omitempty"`
	}
	g := client.NewGraph[trip, trip](c, "router", nil).Thread(id)
	_, err := g.Run(t.Context(), trip{Target: "left"})
	ok(t, err)
	out, err := outer(t, g).Thread("7").Run(t.Context(), trip{Target: "right"})
	same(t, must(t, out, err).Path, `["route","left","route","right"]`)
}

func TestRemoteBreakpointFailsNode(t *testing.T) {
	b := treadle.New[passed]("stops")
	treadle.AddNode(b, "first", func(context.Context, passed) (passed, error) { return passed{1}, nil })
	b.Edge(treadle.Start, "first")
	stops, err := b.Compile(&treadle.Options{Before: []any{"first"}})
	c := connect(t, serve(t, nil, must(t, stops, err)), nil)
	g := client.NewGraph[passed, passed](c, "stops", nil)
	_, err = outer(t, g).Thread("7").Run(t.Context(), passed{})
	says(t, err, `stopped before ["first"]`)
	on := g.Thread(uuid.NewString())
	_, err = on.Run(t.Context(), passed{})
	if stopped, is := errors.AsType[*treadle.InterruptError](err); !is || len(stopped.Before) != 1 {
		t.Fatalf("%v", err)
	}
	out, err := on.Continue(t.Context())
	if must(t, out, err).Steps != 1 {
		t.Errorf("%+v", out)
	}
}

// The settings of a remote graph reach its runs.
func TestRemoteGraphSettings(t *testing.T) {
	c := connect(t, serve(t, nil, ten(t)...), nil)
	type seen struct {
		Seen map[string]any `json:"seen"`
	}
	out, err := client.NewGraph[struct{}, seen](c, "configurable", &client.GraphOptions{
		Config: map[string]any{"configurable": map[string]any{"model": "m"}, "tags": []string{"a"}}, Context: map[string]any{"tier": "gold"},
	}).Run(t.Context(), struct{}{})
	must(t, out, err)
	if out.Seen["model"] != "m" || out.Seen["tier"] != "gold" {
		t.Errorf("%+v", out)
	}
	_, err = client.NewGraph[struct{}, []int](c, "configurable", nil).Run(t.Context(), struct{}{})
	says(t, err, "as []int")
	_, err = client.NewGraph[struct{}, seen](c, "no-such", nil).Run(t.Context(), struct{}{})
	fails(t, err, client.ErrNotFound)
}

// An answer that was given is not asked for again, although the run that it was sent with was
// canceled.
func TestAnswerSurvivesCanceledRun(t *testing.T) {
	begun, open := make(chan struct{}, 10), make(chan struct{})
	b := treadle.New[asking]("slow")
	treadle.AddNode(b, "ask", func(ctx context.Context, _ asking) (asking, error) {
		name, err := treadle.Interrupt[string](ctx, "name?")
		if err != nil {
			return asking{}, err
		}
		begun <- struct{}{}
		select {
		case <-open:
			return asking{[]string{name}}, nil
		case <-ctx.Done():
			return asking{}, ctx.Err()
		}
	})
	b.Edge(treadle.Start, "ask")
	slow, err := b.Compile(nil)
	c := connect(t, serve(t, nil, must(t, slow, err)), nil)
	thread := outer(t, client.NewGraph[asking, asking](c, "slow", nil)).Thread("7")
	_, err = thread.Run(t.Context(), asking{})
	says(t, err, "name?")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	_, err = thread.Resume(ctx, "ann")
	fails(t, err, context.Canceled)
	id, runs := nodeThread(t, c)
	_, err = c.Runs.Join(t.Context(), id, runs[0].ID)
	ok(t, err)
	close(open)
	out, err := thread.Continue(t.Context())
	same(t, must(t, out, err).Names, `["ann"]`)
}
