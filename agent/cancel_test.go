package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

var errStop = errors.New("the user pressed stop")

// Parity: 210.
func TestCanceledCallsLeaveThreadUsable(t *testing.T) {
	for name, next := range map[string]func(t *testing.T, thread *treadle.Thread[agent.State, agent.State]) (agent.State, error){
		"continue": func(t *testing.T, thread *treadle.Thread[agent.State, agent.State]) (agent.State, error) {
			return thread.Continue(t.Context())
		},
		"new message": func(t *testing.T, thread *treadle.Thread[agent.State, agent.State]) (agent.State, error) {
			return thread.Run(t.Context(), agent.Ask("never mind"))
		},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		finished := make(chan struct{})
		ran := atomic.Int32{}
		quick := llm.NewTool("quick", "", func(context.Context, struct{}) (string, error) {
			ran.Add(1)
			return "quick result", nil
		})
		stuck := true
		slow := llm.NewTool("slow", "", func(ctx context.Context, _ struct{}) (string, error) {
			if !stuck {
				return "slow result", nil
			}
			<-finished
			cancel(errStop)
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		o := &agent.Options{Tools: []*llm.Tool{quick, slow}, Graph: memory()}
		// The wrapper sees the quick call end before the slow one is canceled.
		o.Middleware = []*agent.Middleware{{Name: "see", WrapTool: func(ctx context.Context, c agent.ToolCall, next agent.ToolFunc) (any, error) {
			out, err := next(ctx, c)
			if c.Name == "quick" && stuck {
				close(finished)
			}
			return out, err
		}}}
		model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("quick", "{}"), llmtest.ToolCall("slow", "{}")), llmtest.Say("ok"))
		thread := made(t, model, o).Thread("1")
		if _, err := thread.Run(ctx, agent.Ask("go")); !errors.Is(err, errStop) && !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: err = %v", name, err)
		}
		cancel(nil)
		stuck = false
		out, err := next(t, thread)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := agent.Answer(out); got != "ok" {
			t.Errorf("%s: answer = %q", name, got)
		}
		if ran.Load() != 1 {
			t.Errorf("%s: the finished call ran %d times", name, ran.Load())
		}
		// Going on keeps what had finished. A new message gives the turn up, and
		// the results of that turn with it.
		const none = "tool: The call has no result: it was canceled or did not finish. (error)"
		want := map[string]string{"continue": "tool: quick result|tool: slow result", "new message": none + "|" + none + "|human: never mind"}
		if heard := strings.Join(lines(model.Requests()[1].Messages)[2:], "|"); heard != want[name] {
			t.Errorf("%s: the model heard %q", name, heard)
		}
	}
}

// Parity: 210.
func TestToolTimeoutAbandonsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := llm.NewTool("slow", "", func(ctx context.Context, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		slow.Timeout = 3 * time.Second
		model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("slow", "{}"), say("a")), llmtest.Say("ok"))
		start := time.Now()
		out := run(t, model, &agent.Options{Tools: []*llm.Tool{slow, echo}}, "go")
		wantLines(t, out.Messages[2:], "tool: Error: tool slow: timed out after 3s: context deadline exceeded\n Please fix your mistakes. (error)", "tool: a", "ai: ok")
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// Parity: 210.
func TestToolConcurrencyIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		work := llm.NewTool("work", "", func(ctx context.Context, _ struct{}) (string, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return "done", nil
		})
		var cs []llm.ToolCall
		for range 10 {
			cs = append(cs, llmtest.ToolCall("work", "{}"))
		}
		start := time.Now()
		model := llmtest.Scripted(t, llmtest.Ask(cs...), llmtest.Say("ok"))
		run(t, model, &agent.Options{Tools: []*llm.Tool{work}, ToolOptions: agent.ToolOptions{ToolConcurrency: 3}}, "go")
		if most.Load() != 3 || time.Since(start) != 4*time.Second {
			t.Errorf("%d at a time, in %v", most.Load(), time.Since(start))
		}
	})
}

// Parity: 210.
func TestSeveralToolsInterruptTogether(t *testing.T) {
	ran := atomic.Int32{}
	ask := llm.NewTool("ask", "", func(ctx context.Context, in struct {
		What string `json:"what"`
	}) (string, error) {
		ran.Add(1)
		return treadle.Interrupt[string](ctx, in.What)
	})
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("ask", `{"what":"a"}`), say("x"), llmtest.ToolCall("ask", `{"what":"b"}`)), llmtest.Say("ok"))
	thread := made(t, model, &agent.Options{Tools: []*llm.Tool{ask, echo}, Graph: memory()}).Thread("1")
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok || len(stop.Pauses) != 2 {
		t.Fatalf("want two questions, got %v", err)
	}
	ids := map[string]string{}
	for _, p := range stop.Pauses {
		ids[string(p.Value)] = p.ID
	}
	// After one answer, the other question stays pending and is not asked again.
	_, err = thread.Resume(t.Context(), treadle.Answers{ids[`"b"`]: "B!"})
	if p := asked(t, err); p.ID != ids[`"a"`] {
		t.Errorf("now it asks %s", p.Value)
	}
	out, err := thread.Resume(t.Context(), "A!")
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages[2:], "tool: A!", "tool: x", "tool: B!", "ai: ok")
}

// A failure takes precedence over an interrupt, which is raised again later.
//
// Parity: 210.
func TestFailureTakesPrecedenceOverInterrupt(t *testing.T) {
	ask := llm.NewTool("ask", "", func(ctx context.Context, _ struct{}) (string, error) { return treadle.Interrupt[string](ctx, "sure?") })
	down := true
	fail := llm.NewTool("fail", "", func(context.Context, struct{}) (string, error) {
		if down {
			return "", errors.New("down")
		}
		return "up again", nil
	})
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("ask", "{}"), llmtest.ToolCall("fail", "{}")), llmtest.Say("ok"))
	thread := made(t, model, &agent.Options{Tools: []*llm.Tool{ask, fail}, ToolOptions: agent.ToolOptions{OnToolError: agent.RaiseToolErrors}, Graph: memory()}).Thread("1")
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	if err == nil || !strings.Contains(err.Error(), "tool fail: down") {
		t.Fatalf("err = %v", err)
	}
	down = false
	_, err = thread.Continue(t.Context())
	asked(t, err)
	out, err := thread.Resume(t.Context(), "yes")
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages[2:], "tool: yes", "tool: up again", "ai: ok")
}

// A canceled model response leaves no partial message.
//
// Parity: 209.
func TestCanceledResponseLeavesThreadUsable(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Turn{Message: llm.Assistant("I was about to"), Hang: true}, llmtest.Say("ok"))
	thread := made(t, model, &agent.Options{Graph: memory()}).Thread("1")
	ctx, cancel := context.WithCancelCause(t.Context())
	for ev, err := range thread.Stream(ctx, agent.Ask("go"), treadle.Modes(treadle.ModeMessages)) {
		if err != nil {
			if !errors.Is(err, errStop) && !errors.Is(err, context.Canceled) {
				t.Errorf("err = %v", err)
			}
			break
		}
		if _, ok := ev.(treadle.Token); ok {
			cancel(errStop)
		}
	}
	cancel(nil)
	out, err := thread.Run(t.Context(), agent.Ask("again"))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: go", "human: again", "ai: ok")
}
