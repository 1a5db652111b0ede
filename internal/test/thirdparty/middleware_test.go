package thirdparty_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"example.com/thirdparty"
	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

func tool(name string, fn func(ctx context.Context) (string, error)) *llm.Tool {
	return llm.NewTool(name, "", func(ctx context.Context, _ struct{}) (string, error) { return fn(ctx) })
}

func TestMisspelledToolFailsBuild(t *testing.T) {
	pay := tool("pay", func(context.Context) (string, error) { return "paid", nil })
	search := &llm.Tool{Name: "web_search", Extra: map[string]any{"type": "web_search"}}
	for want, m := range map[string]*agent.Middleware{
		`agent: middleware breaker: unknown tool "payy": the agent's tools are ["pay" "web_search"]: did you mean "pay"?`: thirdparty.Breaker(1, "payy"),
		`agent: middleware breaker: tool "web_search" is run by the provider: the agent does not see its calls`:           thirdparty.Breaker(1, "web_search"),
		`agent: middleware breaker: invalid number of failures 0: want at least 1`:                                        thirdparty.Breaker(0, "pay"),
		`agent: middleware breaker: no tools`: thirdparty.Breaker(1),
	} {
		_, err := agent.New(llmtest.NewScript(), &agent.Options{Tools: []*llm.Tool{pay, search}, Middleware: []*agent.Middleware{m}})
		if err == nil || err.Error() != want {
			t.Errorf("err = %v\nwant  %s", err, want)
		}
	}
}

func TestBreakerStopsFailingTool(t *testing.T) {
	runs := 0
	pay := tool("pay", func(context.Context) (string, error) { runs++; return "", errors.New("bank closed") })
	call := llmtest.ToolCall("pay", "{}")
	var log strings.Builder
	a, err := agent.New(llmtest.Scripted(t, llmtest.Ask(call), llmtest.Ask(call), llmtest.Ask(call), llmtest.Say("sorry")),
		&agent.Options{Tools: []*llm.Tool{pay}, Middleware: []*agent.Middleware{thirdparty.Breaker(2, "pay")},
			Graph: treadle.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Run(t.Context(), agent.Ask("pay"))
	if err != nil {
		t.Fatal(err)
	}
	if last := out.Messages[len(out.Messages)-2]; runs != 2 || !strings.Contains(last.Text(), "out of order") {
		t.Errorf("tool ran %d times, last result %q", runs, last.Text())
	}
	if want := "level=WARN msg=\"tool out of order\" tool=pay error=\"tool pay: bank closed\"\n"; strings.Count(log.String(), "WARN") != 1 || !strings.HasSuffix(log.String(), want) {
		t.Errorf("log: %s\nwant one line: %s", log.String(), want)
	}
}

// The middleware has no model: each agent's own model writes the titles of its threads.
func TestTitlesByModelOfAgent(t *testing.T) {
	titles := thirdparty.Titles()
	for _, title := range []string{"Lost parcel", "Late refund"} {
		model := llmtest.Scripted(t, llmtest.Say("hello"), llmtest.Fail(errors.New("overloaded")),
			llmtest.Say("sorry"), llmtest.Say(title, llmtest.Asked("Give this conversation a title.")), llmtest.Say("bye"))
		var log strings.Builder
		a, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{titles},
			Graph: treadle.Options{Saver: checkpoint.NewMemory(), Logger: slog.New(slog.NewTextHandler(&log, nil))}})
		if err != nil {
			t.Fatal(err)
		}
		thread := a.Thread("1")
		for _, text := range []string{"hi", "where is it?", "thanks"} {
			if _, err := thread.Run(t.Context(), agent.Ask(text)); err != nil {
				t.Fatal(err)
			}
		}
		if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, `msg="thread not titled" error=`) {
			t.Errorf("log: %s", got)
		}
		snap, err := thread.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got thirdparty.Titled
		if err := snap.Read(&got); err != nil || got.Title != title {
			t.Errorf("title %q, %v, want %q", got.Title, err, title)
		}
	}
}

func TestBreakerIgnoresInterrupts(t *testing.T) {
	pay := tool("pay", func(ctx context.Context) (string, error) {
		return treadle.Interrupt[string](ctx, treadle.Question{Value: "PIN?"})
	})
	a, err := agent.New(llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("pay", "{}")), llmtest.Say("done")),
		&agent.Options{Tools: []*llm.Tool{pay}, Middleware: []*agent.Middleware{thirdparty.Breaker(1, "pay")}, Graph: treadle.Options{Saver: checkpoint.NewMemory()}})
	if err != nil {
		t.Fatal(err)
	}
	thread := a.Thread("1")
	if _, err := thread.Run(t.Context(), agent.Ask("pay")); !treadle.IsPause(err) {
		t.Fatalf("err = %v, want an interrupt", err)
	}
	out, err := thread.Resume(t.Context(), "1234")
	if err != nil || out.Messages[2].Text() != "1234" {
		t.Errorf("messages %v, %v", out.Messages, err)
	}
}
