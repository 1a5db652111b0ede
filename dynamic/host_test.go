package dynamic_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/store"
)

type hosted struct {
	Asked string         `json:"asked"`
	Seen  map[string]any `json:"seen"`
	Found int            `json:"found"`
}

// hostedGraph returns a graph without a saver or store.
func hostedGraph(t *testing.T) *treadle.Graph[hosted, hosted] {
	t.Helper()
	b := treadle.New[hosted]("hosted")
	treadle.AddNode(b, "look", func(ctx context.Context, s hosted) (treadle.Update, error) {
		s2 := treadle.StoreFrom(ctx)
		if err := s2.Put(ctx, store.Namespace{"seen"}, s.Asked, map[string]any{"n": 1}, nil); err != nil {
			return nil, err
		}
		items, err := s2.Search(ctx, store.Namespace{"seen"}, nil)
		return treadle.Update{"seen": treadle.InfoFrom(ctx).Config, "found": len(items)}, err
	})
	treadle.AddNode(b, "ask", func(ctx context.Context, _ hosted) (treadle.Update, error) {
		_, err := treadle.Interrupt[string](ctx, "go on?")
		return nil, err
	})
	b.Sequence(treadle.Start, "look", "ask", treadle.End)
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestHostProvidesSaverStoreConfig(t *testing.T) {
	g := hostedGraph(t)
	shared, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, scratch := range []bool{false, true} {
		saver := checkpoint.NewMemory()
		config := map[string]any{"configurable": map[string]any{"model": "m"}}
		th := dynamic.Open(g, "t1", dynamic.Host{Saver: saver, Scratch: scratch, Store: shared, Config: config}.Option())
		if _, err := th.RunJSON(t.Context(), json.RawMessage(`{"asked":"a"}`)); err == nil {
			t.Fatal("run ended without an interrupt")
		}
		snap, err := th.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(snap.State)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "values", `{"asked":"a","seen":{"configurable":{"model":"m"}},"found":1}`, string(raw))
		same(t, "next", []string{"ask"}, snap.Next)
		if cp, err := saver.Get(t.Context(), checkpoint.Key{Thread: "t1"}); err != nil || cp.ID != snap.ID {
			t.Errorf("checkpoint in the host's saver: %v, %v", cp, err)
		}
	}
}

func TestHostFenceRejectsOlderLease(t *testing.T) {
	g, saver := hostedGraph(t), checkpoint.NewMemory()
	shared, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(epoch uint64) *dynamic.Thread {
		return dynamic.Open(g, "t", dynamic.Host{Saver: saver, Store: shared, Fence: epoch}.Option())
	}
	if _, err := at(2).UpdateJSON(t.Context(), json.RawMessage(`{"asked":"new"}`), treadle.AsNode("look")); err != nil {
		t.Fatal(err)
	}
	_, err = at(1).UpdateJSON(t.Context(), json.RawMessage(`{"asked":"old"}`), treadle.AsNode("look"))
	if !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("edit with an older lease: %v", err)
	}
}

func TestStateJSONMatchesPlatform(t *testing.T) {
	inner := treadle.New[hosted]("inner")
	treadle.AddNode(inner, "ask", func(ctx context.Context, _ hosted) (treadle.Update, error) {
		_, err := treadle.Interrupt[string](ctx, "go on?")
		return nil, err
	})
	inner.Sequence(treadle.Start, "ask", treadle.End)
	b := treadle.New[hosted]("outer")
	treadle.AddGraph(b, "child", treadle.Must(inner.Compile(nil)))
	b.Sequence(treadle.Start, "child", treadle.End)
	th := dynamic.Open(treadle.Must(b.Compile(nil)), "t", dynamic.Host{Saver: checkpoint.NewMemory()}.Option())
	type task struct {
		ID, Name   string
		Path       []any
		Interrupts []struct{ ID, Value string }
		Checkpoint *struct {
			NS string `json:"checkpoint_ns"`
		}
		State *struct {
			Next       []string
			Checkpoint struct {
				ID  string            `json:"checkpoint_id"`
				NS  string            `json:"checkpoint_ns"`
				Map map[string]string `json:"checkpoint_map"`
			}
			Metadata struct{ Parents map[string]string }
		}
	}
	var got struct {
		Values     json.RawMessage
		Next       []string
		Tasks      []task
		Checkpoint map[string]any
		ID         string `json:"checkpoint_id"`
		Metadata   struct {
			Source string
			Step   int
		}
	}
	read := func(nested bool) {
		t.Helper()
		snap, err := th.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		raw, err := dynamic.StateJSON(snap, nested)
		if err != nil {
			t.Fatal(err)
		}
		got.Tasks = nil
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
	}
	read(false)
	same(t, "values of an unused thread", "{}", string(got.Values))
	if _, err := th.RunJSON(t.Context(), json.RawMessage(`{"asked":"a"}`)); err == nil {
		t.Fatal("run ended without an interrupt")
	}
	read(false)
	same(t, "next", []string{"child"}, got.Next)
	same(t, "path", []any{"__pregel_pull", "child"}, got.Tasks[0].Path)
	same(t, "question", "go on?", got.Tasks[0].Interrupts[0].Value)
	ns := "child:" + got.Tasks[0].ID
	same(t, "checkpoint of the subgraph", ns, got.Tasks[0].Checkpoint.NS)
	read(true)
	inside := got.Tasks[0].State
	same(t, "next inside", []string{"ask"}, inside.Next)
	same(t, "map", map[string]string{"": got.ID, ns: inside.Checkpoint.ID}, inside.Checkpoint.Map)
	same(t, "parents", map[string]string{"": got.ID}, inside.Metadata.Parents)
}

func TestBulkUpdateJSONSupersteps(t *testing.T) {
	th := dynamic.Open(hostedGraph(t), "t", dynamic.Host{Saver: checkpoint.NewMemory()}.Option())
	_, err := th.BulkUpdateJSON(t.Context(), json.RawMessage(`[
		{"updates":[{"values":{"asked":"x"},"as_node":"__input__"}]},
		{"updates":[{"values":{"asked":"x"},"as_node":"__start__"}]},
		{"updates":[{"command":{"update":{"found":7},"goto":"ask"},"as_node":"look"}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := th.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "values", `{"asked":"x","found":7}`, snap.State.String())
	same(t, "step", 1, snap.Step)
	same(t, "next", "ask", snap.Next[0])
	for _, bad := range []string{`{}`, `[{"updates":[{"command":{"resume":1},"as_node":"look"}]}]`, `[{"updates":[{"values":{"nope":1},"as_node":"look"}]}]`} {
		if _, err := th.BulkUpdateJSON(t.Context(), json.RawMessage(bad)); err == nil {
			t.Errorf("supersteps %s accepted", bad)
		}
	}
}

func TestHostAnyGraphContinuesThread(t *testing.T) {
	saver := checkpoint.NewMemory()
	first := dynamic.Open(hostedGraph(t), "t", dynamic.Host{Saver: saver}.Option())
	if _, err := first.UpdateJSON(t.Context(), json.RawMessage(`{"asked":"a","found":3}`), treadle.AsNode("look")); err != nil {
		t.Fatal(err)
	}
	type other struct {
		Found int `json:"found"`
		Twice int `json:"twice"`
	}
	b := treadle.New[other]("other")
	treadle.AddNode(b, "double", func(_ context.Context, s other) (treadle.Update, error) {
		return treadle.Update{"twice": 2 * s.Found}, nil
	})
	b.Sequence(treadle.Start, "double", treadle.End)
	g := treadle.Must(b.Compile(nil))
	if _, err := dynamic.Open(g, "t", dynamic.Host{Saver: saver}.Option()).RunJSON(t.Context(), json.RawMessage(`{}`)); err == nil {
		t.Error("graph continues the thread of another graph without AnyGraph")
	}
	out, err := dynamic.Open(g, "t", dynamic.Host{Saver: saver, AnyGraph: true}.Option()).RunJSON(t.Context(), json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "output", `{"found":3,"twice":6}`, string(out))
}

// recordingSaver calls back when the result of a call is saved.
type recordingSaver struct {
	*checkpoint.Memory
	saved func()
}

func (s recordingSaver) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	s.saved()
	return s.Memory.PutWrites(ctx, at, fence, ws)
}

// A process that is killed after it has saved the result of a Do does not run it again, so the
// event of the result must have reached the stream by then.
func TestDoEmitsEventsBeforeRecord(t *testing.T) {
	b := treadle.New[hosted]("hosted")
	treadle.AddNode(b, "work", func(ctx context.Context, _ hosted) (treadle.Update, error) {
		_, err := treadle.Do(ctx, "effect", func(context.Context) (int, error) { return 7, nil })
		return nil, err
	})
	b.Sequence(treadle.Start, "work", treadle.End)
	g := treadle.Must(b.Compile(nil))
	var streamed, recorded, saved []string
	saver := recordingSaver{checkpoint.NewMemory(), func() { saved = append(saved, recorded...) }}
	host := dynamic.Host{Saver: saver, Recorded: func() error { recorded = append(recorded[:0], streamed...); return nil }}
	for ev, err := range dynamic.Open(g, "t", host.Option()).StreamJSON(t.Context(), json.RawMessage(`{}`), treadle.Modes(treadle.ModeUpdates)) {
		if err != nil {
			t.Fatal(err)
		}
		streamed = append(streamed, ev.Where().Node)
	}
	same(t, "events before the record", []string{"effect"}, saved)
}

func TestHostNoOutputOmitsOutput(t *testing.T) {
	b := treadle.New[hosted]("echo")
	treadle.AddNode(b, "echo", func(context.Context, hosted) (treadle.Update, error) { return treadle.Update{"found": 1}, nil })
	b.Edge(treadle.Start, "echo")
	g := treadle.Must(b.Compile(nil))
	for _, none := range []bool{false, true} {
		th := dynamic.Open(g, "t", dynamic.Host{Saver: checkpoint.NewMemory(), NoOutput: none}.Option())
		for name, stream := range map[string]iter.Seq2[treadle.Event, error]{
			"stream":  th.StreamJSON(t.Context(), json.RawMessage(`{"asked":"a"}`)),
			"command": th.CommandJSON(t.Context(), json.RawMessage(`{"update":{"asked":"a"},"goto":"echo"}`)),
		} {
			var last treadle.Event
			for ev, err := range stream {
				if err != nil {
					t.Fatal(err)
				}
				last = ev
			}
			end, ok := last.(treadle.Finished[json.RawMessage])
			if !ok || (end.Output == nil) != none {
				t.Errorf("%s with NoOutput %v: last event %+v", name, none, last)
			}
		}
	}
}
