package code_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/code"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

const (
	benchCalls = 20  // of the model
	fewCalls   = 20  // of a script
	manyCalls  = 220 // of a script
)

// callCases returns agents that make calls of the same tool: the model makes benchCalls, one in
// each response, or a script makes few or many, one after the other or all at once.
func callCases(tb testing.TB) map[string]*treadle.Graph[agent.State, agent.State] {
	tb.Helper()
	unchecked := new(bool) // the check, which go test enables, costs more than the calls
	echo := llm.NewTool("echo", "Returns the text.", func(_ context.Context, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	scripted := func(script string) llm.Model {
		return llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
			if len(r.Messages) > 1 {
				return llm.Assistant("done"), nil
			}
			return llm.Assistant("", llmtest.ToolCall("run_code", map[string]string{"code": script})), nil
		})
	}
	loop := func(n int) llm.Model {
		return scripted(fmt.Sprintf(`for (let i = 0; i < %d; i++) await tools.echo({text: "x"});`, n))
	}
	all := func(n int) llm.Model {
		return scripted(fmt.Sprintf(`await Promise.all(Array.from({length: %d}, () => tools.echo({text: "x"})));`, n))
	}
	out := map[string]*treadle.Graph[agent.State, agent.State]{}
	for name, model := range map[string]llm.Model{
		"plain": llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
			if len(r.Messages) > 2*benchCalls {
				return llm.Assistant("done"), nil
			}
			return llm.Assistant("", llmtest.ToolCall("echo", map[string]string{"text": "x"})), nil
		}),
		"loopFew": loop(fewCalls), "loopMany": loop(manyCalls), "allFew": all(fewCalls), "allMany": all(manyCalls),
	} {
		opts := &agent.Options{Tools: []*llm.Tool{echo}, Graph: treadle.Options{Saver: checkpoint.NewMemory(), Check: unchecked}}
		if name != "plain" {
			opts.Middleware = []*agent.Middleware{code.Mode(nil)}
		}
		var err error
		if out[name], err = agent.New(model, opts); err != nil {
			tb.Fatal(err)
		}
	}
	return out
}

var benchThreads atomic.Int64

func once(tb testing.TB, g *treadle.Graph[agent.State, agent.State]) {
	if _, err := g.Thread(fmt.Sprint(benchThreads.Add(1))).Run(tb.Context(), agent.Ask("go")); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkCall reports the median duration of a call of the model and of each further call of a
// script, their ratio, and the duration of a script without calls. The agents take turns, so that
// a busy machine affects all of them.
func BenchmarkCall(b *testing.B) {
	all := callCases(b)
	took := map[string][]float64{}
	for b.Loop() {
		for name, g := range all {
			start := time.Now()
			once(b, g)
			took[name] = append(took[name], float64(time.Since(start).Nanoseconds())/1000)
		}
	}
	median := func(name string) float64 {
		slices.Sort(took[name])
		return took[name][len(took[name])/2]
	}
	plain := median("plain") / benchCalls
	b.ReportMetric(plain, "plain-µs")
	for _, name := range []string{"loop", "all"} {
		call := (median(name+"Many") - median(name+"Few")) / (manyCalls - fewCalls)
		b.ReportMetric(call, name+"-µs")
		b.ReportMetric(call/plain, name+"/plain")
		b.ReportMetric(median(name+"Few")-call*fewCalls, name+"Script-µs")
	}
}
