package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// What a reflection says is not part of the answer, even if the run of the graph
// is still there when it says it.
func TestReflectionIsNotStreamed(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("aside"), llmtest.Say("answer"))
	r, err := memory.NewReflector(func(ctx context.Context, _ string, ms llm.Messages) (llm.Message, error) {
		return llm.Generate(ctx, model, ms...)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := treadle.New[llm.Chat]("chat")
	treadle.AddNode(b, "chat", func(ctx context.Context, in llm.Chat) (out struct{ Messages llm.Messages }, err error) {
		h, err := r.Submit(ctx, "k", in.Messages, 0)
		if err != nil {
			return out, err
		}
		if _, err := h.Wait(ctx); err != nil {
			return out, err
		}
		answer, err := llm.Generate(ctx, model, in.Messages...)
		out.Messages = llm.Messages{answer}
		return out, err
	})
	b.Edge(treadle.Start, "chat")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	for ev, err := range g.Stream(t.Context(), llm.Chat{Messages: chat(1, 1)}, treadle.Modes(treadle.ModeMessages)) {
		if err != nil {
			t.Fatal(err)
		}
		if tok, ok := ev.(treadle.Token); ok {
			tokens = append(tokens, tok.Chunk.(llm.Chunk).Content)
		}
	}
	if d := cmp.Diff([]string{"answer"}, tokens); d != "" {
		t.Error(d)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// LangMem's executor checks whether the run has a store and then runs without it, so a
// manager without its own store fails in the background. Here, it uses the store, the
// context, and the origin of the submitting run, even after that run has ended.
//
// Defect: §4.1 (2) a reflector that relies on the store of the run fails.
func TestReflectionUsesSubmittersStore(t *testing.T) {
	s := newStore(t, nil)
	m, err := memory.NewStoreManager(llmtest.Scripted(t, llmtest.Ask(note("first")), llmtest.Ask(note("second"))),
		&memory.StoreManagerOptions{Namespace: []string{"memories", "{user}"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := memory.NewReflector(func(ctx context.Context, _ string, ms llm.Messages) ([]memory.ItemChange, error) {
		return m.Reflect(ctx, ms...)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var handles []*memory.Reflection[[]memory.ItemChange]
	var from []treadle.Info
	b := treadle.New[llm.Chat]("chat")
	for _, node := range []string{"a", "b"} {
		treadle.AddNode(b, node, func(ctx context.Context, in llm.Chat) (struct{ Messages llm.Messages }, error) {
			h, err := r.Submit(ctx, node, in.Messages, map[string]time.Duration{"a": 0, "b": time.Hour}[node])
			handles, from = append(handles, h), append(from, treadle.InfoFrom(ctx))
			return struct{ Messages llm.Messages }{llm.Messages{llm.Assistant(node)}}, err
		})
	}
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	g, err := b.Compile(&treadle.Options{Store: s, Saver: checkpoint.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	type user struct {
		User string `json:"user"`
	}
	if _, err := g.With(treadle.Context(user{"ann"})).Thread("t1").Run(t.Context(), llm.Chat{Messages: chat(1, 1)}); err != nil {
		t.Fatal(err)
	}
	if _, err := handles[0].Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, h := range handles {
		changes, err := h.Wait(t.Context())
		if err != nil || len(changes) != 1 {
			t.Fatalf("got %v and %v, want one change", changes, err)
		}
		item, err := s.Get(t.Context(), store.Namespace{"memories", "ann"}, changes[0].Key, nil)
		if err != nil {
			t.Fatal(err)
		}
		var meta struct{ Provenance memory.Provenance }
		if err := item.DecodeMeta(&meta); err != nil {
			t.Fatal(err)
		}
		got := meta.Provenance
		if got.Thread != "t1" || got.Run != from[i].RunID || got.Checkpoint != from[i].CheckpointID {
			t.Errorf("memory %d comes from %+v, want checkpoint %s of run %s", i, got, from[i].CheckpointID, from[i].RunID)
		}
	}
}

// Many goroutines submit and flush concurrently while the reflector is closed: each
// accepted submit has run or is in the journal.
func TestConcurrentSubmitsLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memoryStore(t, nil)
		var mu sync.Mutex
		var ran []string
		run := func(_ context.Context, _ string, w words) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, w...)
			return "", nil
		}
		r := durable(t, s, run, nil)
		var taken []string
		var handles []*memory.Reflection[string]
		var callers sync.WaitGroup
		for c := range 8 {
			callers.Go(func() {
				for i := range 50 {
					word := fmt.Sprint(c, ".", i)
					h, err := r.Submit(context.Background(), fmt.Sprint("key ", i%3), words{word}, time.Duration(i%4)*time.Millisecond)
					if errors.Is(err, memory.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					taken, handles = append(taken, word), append(handles, h)
					mu.Unlock()
					if i%7 == c {
						_ = r.Flush(context.Background(), "key 1") // the close may come between
					}
					<-time.After(time.Millisecond) // virtual
				}
			})
		}
		<-time.After(20 * time.Millisecond)
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		callers.Wait()
		for _, h := range handles {
			if _, err := h.Wait(t.Context()); err != nil && !errors.Is(err, memory.ErrClosed) {
				t.Error(err)
			}
		}
		next, err := memory.OpenReflector(t.Context(), s, pendingWork, run, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if err := next.Close(t.Context()); err != nil {
			t.Error(err)
		}
		slices.Sort(taken)
		slices.Sort(ran)
		if d := cmp.Diff(taken, ran); d != "" || len(taken) < 100 {
			t.Errorf("%d were accepted: %s", len(taken), d)
		}
		if items, err := s.Search(t.Context(), pendingWork, &store.SearchOptions{}); err != nil || len(items) > 0 {
			t.Errorf("%d entries are left, %v", len(items), err)
		}
	})
}
