package prices_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/prices"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-12 }

func TestACostCountsCachedAndLongInputs(t *testing.T) {
	table := prices.Default()
	cached := llm.Usage{Input: 1000, Output: 100, InputDetails: map[string]int{llm.UsageCacheRead: 600, llm.UsageCacheCreation: 300}}
	for _, c := range []struct {
		provider, model string
		u               llm.Usage
		want            float64
	}{
		{"openai", "gpt-4o", llm.Usage{Input: 1000, Output: 100}, 0.0025 + 0.001},
		{"openai", "gpt-4o-2024-08-06", llm.Usage{Input: 1000, Output: 100}, 0.0035},
		{"", "claude-sonnet-4-5-20250929", cached, (100*3 + 600*0.3 + 300*3.75 + 100*15) / 1e6},
		{"openai", "gpt-4o", cached, (100*2.5 + 600*1.25 + 300*2.5 + 100*10) / 1e6},
		{"gemini", "gemini-2.5-pro", llm.Usage{Input: 200_000, Output: 1000}, 0.25 + 0.01},
		{"gemini", "gemini-2.5-pro", llm.Usage{Input: 200_001, Output: 1000}, (200_001*2.5 + 1000*15) / 1e6},
	} {
		if got, ok := table.Of(c.provider, c.model, c.u); !ok || !near(got, c.want) {
			t.Errorf("%s of %s: %v, %t, want %v", c.model, c.provider, got, ok, c.want)
		}
	}
}

func TestTheCostOfAModelWithoutAPriceIsUnknown(t *testing.T) {
	table := prices.Default()
	for _, model := range []string{"", "gpt-4o-audio-preview", "gpt-4", "llama-3.3-70b", "gpt-4o-2024-08-06-custom"} {
		if cost, ok := table.Of("openai", model, llm.Usage{Input: 10}); ok {
			t.Errorf("%q costs %v", model, cost)
		}
	}
	known := map[string]any{"model_name": "gpt-4o"}
	for name, m := range map[string]llm.Message{
		"no model":      {Usage: &llm.Usage{Input: 1}},
		"no usage":      {Metadata: known},
		"unknown model": {Metadata: map[string]any{"model_name": "mine"}, Usage: &llm.Usage{Input: 1}},
	} {
		if cost := table.Cost(m); !math.IsNaN(cost) {
			t.Errorf("%s: the cost is %v, want NaN", name, cost)
		}
	}
	if _, ok := (*prices.Table)(nil).Of("openai", "gpt-4o", llm.Usage{}); ok {
		t.Error("a nil table knows a price")
	}
}

func TestAPriceOfAProviderComesFirst(t *testing.T) {
	table := prices.Default()
	table.Models["azure:gpt-4o"] = prices.Price{Input: 5}
	got, _ := table.Of("azure", "gpt-4o-2024-11-20", llm.Usage{Input: 1e6})
	if other, _ := table.Of("openai", "gpt-4o", llm.Usage{Input: 1e6}); got != 5 || other != 2.5 {
		t.Errorf("azure costs %v and openai %v", got, other)
	}
	if _, ok := prices.Default().Models["azure:gpt-4o"]; ok {
		t.Error("tables of Default share their models")
	}
}

func TestReadRefusesABadTable(t *testing.T) {
	for text, want := range map[string]string{
		`{"models": {}}`: "date is",
		`{"date": "2026-01-01", "models": {"m": {"input": -1}}}`:                          `model "m": input is -1`,
		`{"date": "2026-01-01", "models": {"m": {"inputs": 1}}}`:                          "inputs",
		`{"date": "2026-01-01", "models": {"m": {"input": 1, "long": {"above": 0}}}}`:     "long.above is 0",
		`{"date": "2026-01-01", "models": {"m": {"input": 1, "cache_read": -2}}}`:         "cache_read is -2",
		`{"date": "2026-01-01", "models": {"m": {"long": {"above": 1, "output": -0.1}}}}`: "long.output is -0.1",
		`[]`: "prices:",
	} {
		if _, err := prices.Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}

func ExampleTable() {
	table := prices.Default()
	table.Models["mine"] = prices.Price{Input: 0.5, Output: 2}

	used := llm.Usage{Input: 1000, Output: 100}
	for _, model := range []string{"mine", "unheard-of"} {
		cost, known := table.Of("", model, used)
		fmt.Println(model, cost, known)
	}
	// Output:
	// mine 0.0007 true
	// unheard-of 0 false
}
