package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// late delays the responses of a model. Its responses continue after it has been
// canceled, as those of a provider that charges for canceled requests.
type late struct {
	llm.Model
	waits []time.Duration // of its calls
	calls int
}

func (l *late) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	l.calls++
	wait := l.waits[min(l.calls, len(l.waits))-1]
	return func(yield func(llm.Chunk, error) bool) {
		<-time.After(wait)
		l.Model.Stream(context.WithoutCancel(ctx), req)(yield)
	}
}

// calling returns a turn of a model that calls a tool.
func calling(model string, tokens int) llmtest.Turn {
	turn := from(model, "", llm.StopTools, tokens)
	turn.Message.ToolCalls = []llm.ToolCall{say("a")}
	return turn
}

var down = llmtest.Fail(&llm.Error{Provider: "p", Status: 503, Message: "busy"})

// A budget counts each response that the agent uses once, with the price of the model that
// wrote it, whatever was called before it or at the same time.
func TestBudgetCountsResponsesOnce(t *testing.T) {
	retry := agent.RetryModel(&treadle.RetryPolicy{NoJitter: true})
	script := func(turns ...llmtest.Turn) llm.Model { return llmtest.NewScript(turns...) }
	for name, test := range map[string]struct {
		open func() (llm.Model, []*agent.Middleware)
		want string
	}{
		"retries": {func() (llm.Model, []*agent.Middleware) {
			return script(down, down, calling("a", 100), down, from("a", "ok", llm.StopEnd, 20)), []*agent.Middleware{retry}
		}, "a100 a20"},
		"retries and a fallback": {func() (llm.Model, []*agent.Middleware) {
			return script(calling("a", 100), down, down, down), []*agent.Middleware{retry, agent.Fallback(script(from("b", "ok", llm.StopEnd, 3)))}
		}, "a100 b3"},
		"retries of a fallback for a refusal": {func() (llm.Model, []*agent.Middleware) {
			return script(down, from("a", "no", llm.StopRefusal, 100)), []*agent.Middleware{agent.FallbackRefused(script(down, from("b", "ok", llm.StopEnd, 3))), retry}
		}, "a100 b3"},
		"second request wins": {func() (llm.Model, []*agent.Middleware) {
			first := &late{script(calling("a", 100), from("a", "ok", llm.StopEnd, 20)), []time.Duration{time.Minute}, 0}
			second := &late{script(calling("b", 3), from("b", "ok", llm.StopEnd, 4)), []time.Duration{time.Second}, 0}
			return llm.Hedge(first, &llm.HedgeOptions{After: time.Second, Model: second}), nil
		}, "b3 b4"},
		"first request wins": {func() (llm.Model, []*agent.Middleware) {
			first := &late{script(calling("a", 100), from("a", "ok", llm.StopEnd, 20)), []time.Duration{2 * time.Second}, 0}
			second := &late{script(calling("b", 3), from("b", "ok", llm.StopEnd, 4)), []time.Duration{time.Minute}, 0}
			return llm.Hedge(first, &llm.HedgeOptions{After: time.Second, Model: second}), nil
		}, "a100 a20"},
		"retries of hedged requests": {func() (llm.Model, []*agent.Middleware) {
			first := &late{script(down, calling("a", 100), from("a", "ok", llm.StopEnd, 20)), []time.Duration{2 * time.Second, time.Minute}, 0}
			second := &late{script(down, calling("b", 3), from("b", "ok", llm.StopEnd, 4)), []time.Duration{2 * time.Second}, 0}
			return llm.Hedge(first, &llm.HedgeOptions{After: time.Second, Model: second}), []*agent.Middleware{retry}
		}, "b3 b4"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, last := range []bool{false, true} { // the place of Budget
				synctest.Test(t, func(t *testing.T) {
					var counted []string
					cost := func(m llm.Message) float64 {
						counted = append(counted, fmt.Sprint(m.Metadata["model_name"], m.Usage.Total))
						return 1
					}
					model, others := test.open()
					all := []*agent.Middleware{agent.Budget(&agent.BudgetOptions{RunCost: 100, Cost: cost})}
					if last {
						all = slices.Concat(others, all)
					} else {
						all = slices.Concat(all, others)
					}
					out, err := made(t, model, with(all...)).Run(t.Context(), agent.Ask("go"))
					if err != nil || agent.Answer(out) != "ok" || strings.Join(counted, " ") != test.want {
						t.Errorf("answer %q, %v; counted %q, want %q", agent.Answer(out), err, counted, test.want)
					}
				})
			}
		})
	}
}

// The tokens of a canceled request do not use up a budget, and those of its winner do, in
// the next run as well.
func TestBudgetHoldsAcrossHedgedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := slices.Repeat([]llmtest.Turn{from("a", "slow", llm.StopEnd, 1000)}, 5)
		first := &late{llmtest.NewScript(turns...), []time.Duration{time.Minute}, 0}
		second := &late{llmtest.NewScript(slices.Repeat([]llmtest.Turn{down, from("b", "fast", llm.StopEnd, 100)}, 5)...), []time.Duration{0}, 0}
		model := llm.Hedge(first, &llm.HedgeOptions{After: time.Second, Model: llm.Retry(second, &treadle.RetryPolicy{NoJitter: true})})
		o := with(agent.Budget(&agent.BudgetOptions{ThreadTokens: 200, OnLimit: agent.OnLimitFail}))
		o.Graph.Saver = checkpoint.NewMemory()
		thread := made(t, model, o).Thread("1")
		for range 2 {
			if out, err := thread.Run(t.Context(), agent.Ask("go")); err != nil || agent.Answer(out) != "fast" {
				t.Fatalf("answer %q, %v", agent.Answer(out), err)
			}
		}
		_, err := thread.Run(t.Context(), agent.Ask("go"))
		if limit, ok := errors.AsType[*agent.LimitError](err); !ok || limit.Used != 200 {
			t.Errorf("the third run ended with %v, want a limit of 200 tokens", err)
		}
	})
}
