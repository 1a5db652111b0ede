package clienttest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/client"
)

// travel is the state of the graph "nested".
type travel struct {
	Value string `json:"value"`
}

// review is the state of the graph "hitl".
type review struct {
	Topic    string          `json:"topic,omitempty"`
	Approval json.RawMessage `json:"approval,omitempty"`
	Log      []string        `json:"log,omitempty"`
}

func (s *suite) remote(t *testing.T) {
	ctx := t.Context()
	g := client.NewGraph[travel, travel](s.Client, "nested", nil)
	out, err := g.Run(ctx, travel{"s"})
	if must(t, out, err).Value != "s>before>c1>c2>after" {
		t.Fatalf("%+v", out)
	}
	var got []client.Event
	for ev, err := range g.Stream(ctx, travel{"s"}) {
		ok(t, err)
		got = append(got, ev)
	}
	if got := modes(got); got != "metadata updates updates|child updates|child updates updates" {
		t.Error(got)
	}

	on := g.Thread(uuid.NewString())
	_, err = on.Run(ctx, travel{"pause"})
	asked, is := errors.AsType[*treadle.InterruptError](err)
	if !is || len(asked.Pauses) != 1 || string(asked.Pauses[0].Value) != `"child paused"` {
		t.Fatalf("%v", err)
	}
	out, err = on.Resume(ctx, treadle.Answers{asked.Pauses[0].ID: "yes"})
	if must(t, out, err).Value != "pause>before>c1>c2(yes)>after" {
		t.Fatalf("%+v", out)
	}
	out, err = on.Continue(ctx)
	if must(t, out, err).Value != "pause>before>c1>c2(yes)>after" {
		t.Fatalf("%+v", out)
	}
	_, err = client.NewGraph[map[string]any, travel](s.Client, "failing", nil).Run(ctx, map[string]any{"message": "m"})
	if failed, is := errors.AsType[*client.RunError](err); !is || failed.Message != "boom: m" {
		t.Errorf("%v", err)
	}
	_, err = g.Resume(ctx, "yes")
	fails(t, err, treadle.ErrNoThread)
}

// outer returns a graph with a remote one as its node.
func outer[T any](t *testing.T, remote *client.Graph[T, T]) *treadle.Graph[T, T] {
	t.Helper()
	b := treadle.New[T]("outer")
	treadle.AddNode(b, "remote", remote.Run)
	b.Edge(treadle.Start, "remote")
	g, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})
	return must(t, g, err)
}

func (s *suite) node(t *testing.T) {
	g := outer(t, client.NewGraph[travel, travel](s.Client, "nested", nil))
	out, err := g.Run(t.Context(), travel{"s"})
	if must(t, out, err).Value != "s>before>c1>c2>after" {
		t.Fatalf("%+v", out)
	}
	id := uuid.NewString()
	out, err = g.Thread(id).Run(t.Context(), travel{"s"})
	if must(t, out, err).Value != "s>before>c1>c2>after" {
		t.Fatalf("%+v", out)
	}
	// The state of the remote thread can be read.
	found, err := s.Threads.Search(t.Context(), &client.ThreadSearch{Metadata: map[string]any{"treadle_thread": id, "treadle_graph": "outer", "treadle_node": "remote"}})
	must(t, found, err)
	if len(found) != 1 {
		t.Fatalf("%+v", found)
	}
	state, err := s.Threads.State(t.Context(), found[0].ID, nil)
	same(t, must(t, state, err).Values, `{"value":"s>before>c1>c2>after"}`)
}

func (s *suite) questions(t *testing.T) {
	ctx := t.Context()
	type decided struct {
		Approval json.RawMessage `json:"approval"`
		Log      []string        `json:"log"`
	}
	remote := client.NewGraph[review, decided](s.Client, "hitl", nil)
	b := treadle.New[review]("outer")
	treadle.AddNode(b, "remote", remote.Run)
	b.Edge(treadle.Start, "remote")
	g, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})
	thread := must(t, g, err).Thread("questions " + uuid.NewString())
	_, err = thread.Run(ctx, review{Topic: "cats"})
	asked, is := errors.AsType[*treadle.InterruptError](err)
	if !is || len(asked.Pauses) != 1 || asked.Pauses[0].Node != "remote" {
		t.Fatalf("%v", err)
	}
	same(t, asked.Pauses[0].Value, `{"question":"approve?","topic":"cats"}`)
	_, err = thread.Continue(ctx) // asks again, and starts no second run
	if again, is := errors.AsType[*treadle.InterruptError](err); !is || again.Pauses[0].ID != asked.Pauses[0].ID {
		t.Fatalf("%v", err)
	}
	out, err := thread.Resume(ctx, map[string]any{"ok": true})
	same(t, must(t, out, err).Log, `["proposed:cats","reviewed:{\"ok\":true}","finished"]`)
	if !strings.Contains(string(out.Approval), "true") {
		t.Errorf("%s", out.Approval)
	}
	found, err := s.Threads.Search(ctx, &client.ThreadSearch{Metadata: map[string]any{"treadle_node": "remote", "graph_id": "hitl"}, Page: client.Page{Limit: 100}})
	must(t, found, err)
	runs, err := s.Runs.List(ctx, found[0].ID, nil)
	must(t, runs, err)
	if len(runs) != 2 {
		t.Errorf("%d runs, want one for the input and one for the answer", len(runs))
	}
}

// breaks cuts the connections of a stream and of a remote node.
func (s *suite) breaks(t *testing.T) {
	p, c := broken(t, s.url, &client.Options{Retry: quick(1000)})
	thread, err := c.Threads.Create(t.Context(), nil)
	must(t, thread, err)
	ticks := map[string]any{"count": 4, "delay_ms": 200}
	var got []client.Event
	for ev, err := range c.Runs.Stream(t.Context(), thread.ID, &client.RunCreate{Assistant: "slow", Input: ticks, StreamMode: []string{"updates"}}) {
		ok(t, err)
		got = append(got, ev)
		p.Cut()
		p.Heal()
	}
	if got := modes(got); got != "metadata updates updates updates updates updates" {
		t.Error(got)
	}
	same(t, got[len(got)-1].Data, `{"tick":{"ticks":["t3"],"i":4}}`)

	type clock struct {
		Count int      `json:"count,omitempty"`
		Delay int      `json:"delay_ms,omitempty"`
		Ticks []string `json:"ticks,omitempty"`
	}
	done := make(chan struct{})
	go func() { // cut the connection while the node waits
		defer close(done)
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for range 5 {
			<-tick.C
			p.Cut()
			p.Heal()
		}
	}()
	out, err := outer(t, client.NewGraph[clock, clock](c, "slow", nil)).Thread("breaks").Run(t.Context(), clock{Count: 4, Delay: 300})
	same(t, must(t, out, err).Ticks, `["t0","t1","t2","t3"]`)
	<-done
	found, err := c.Threads.Search(t.Context(), &client.ThreadSearch{Metadata: map[string]any{"treadle_thread": "breaks"}})
	must(t, found, err)
	runs, err := c.Runs.List(t.Context(), found[0].ID, nil)
	must(t, runs, err)
	if len(runs) != 1 {
		t.Errorf("%d runs", len(runs))
	}
}
