package code_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
)

// Unlike in langchain-quickjs, a script does not see the variables of an earlier one.
func TestScriptsShareNoVariables(t *testing.T) {
	e := &effects{}
	thread := build(t, e, nil, nil, `globalThis.x = 1; return "set"`, `return typeof x`).Thread("1")
	var got []string
	for range 2 {
		out, err := thread.Run(t.Context(), agent.Ask("go"))
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for _, m := range results(out) {
			got = append(got, m.Text())
		}
	}
	if want := []string{"set", "undefined", "set", "undefined"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The calls of a script, sub-agents included, run at the same time up to ToolConcurrency,
// without another limit.
func TestScriptConcurrencyIsLimited(t *testing.T) {
	for limit, want := range map[int]int{0: 40, 3: 3} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var running, most int
			work := llm.NewTool("work", "Works.", func(context.Context, struct{}) (string, error) {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second) //nolint:forbidigo // virtual time
				mu.Lock()
				running--
				mu.Unlock()
				return "", nil
			})
			o := &agent.Options{Tools: []*llm.Tool{work}, ToolOptions: agent.ToolOptions{ToolConcurrency: limit}}
			g := build(t, &effects{}, o, nil, `await Promise.all(Array.from({length: 40}, () => tools.work({}))); return "done"`)
			if _, err := g.Thread("1").Run(t.Context(), agent.Ask("go")); err != nil {
				t.Fatal(err)
			}
			if most != want {
				t.Errorf("limit %d: %d calls at a time, want %d", limit, most, want)
			}
		})
	}
}
