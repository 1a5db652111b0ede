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
	for ev, err := range g.Stream(t.Context(), llm.Chat{Messages: chat(1, 1)}, treadle.Modes(treadle.ModeTokens)) {
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

// Many submit and flush at once, and somebody closes the reflector under
// their hands: each submit that was taken has run or is in the
// journal.
func TestNothingIsLostAmongManyCallers(t *testing.T) {
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
			t.Errorf("%d were taken: %s", len(taken), d)
		}
		if items, err := s.Search(t.Context(), pendingWork, &store.SearchOptions{}); err != nil || len(items) > 0 {
			t.Errorf("%d entries are left, %v", len(items), err)
		}
	})
}
