package catalog_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/catalog"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-12 }

// response returns a message with the usage and the metadata that adapters set.
func response(provider, model string, u llm.Usage) llm.Message {
	return llm.Message{Role: llm.RoleAI, Usage: &u, Metadata: map[string]any{"model_provider": provider, "model_name": model}}
}

func TestCostOfCachedAndLongInputs(t *testing.T) {
	table := catalog.Default()
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
		if got := table.Cost(response(c.provider, c.model, c.u)); !near(got, c.want) {
			t.Errorf("%s of %s costs %v, want %v", c.model, c.provider, got, c.want)
		}
	}
}

func TestCompleteCopiesFacts(t *testing.T) {
	model := llm.Info{Provider: "bedrock", Model: "anthropic.claude-haiku-5-5"}
	got, want := catalog.Complete(model), catalog.Complete(model)
	for _, list := range [][]string{got.Inputs, got.Outputs, got.Efforts} {
		list[0] = "changed"
	}
	p := got.Price
	p.Input = -1
	*p.CacheRead = -1
	*p.CacheCreation = -1
	*p.Long.CacheRead = -1
	*p.Long.CacheCreation = -1
	p.Long.Above = -1
	if d := cmp.Diff(want, catalog.Complete(model)); d != "" {
		t.Errorf("a caller changed the table (-want +got):\n%s", d)
	}
}

func TestCostIsUnknownWithoutPrice(t *testing.T) {
	table := catalog.Default()
	unpriced := response("openai", "mine", llm.Usage{Input: 1})
	for name, m := range map[string]llm.Message{
		"no model":        {Usage: &llm.Usage{Input: 1}},
		"no usage":        {Metadata: map[string]any{"model_name": "gpt-4o"}},
		"unknown model":   unpriced,
		"custom version":  response("openai", "gpt-4o-2024-08-06-custom", llm.Usage{Input: 1}),
		"another variant": response("openai", "gpt-4o-nano", llm.Usage{Input: 1}),
	} {
		if cost := table.Cost(m); !math.IsNaN(cost) {
			t.Errorf("%s: the cost is %v, want NaN", name, cost)
		}
	}
	table.Models["mine"] = llm.Info{Window: 1000}
	if cost := table.Cost(unpriced); !math.IsNaN(cost) {
		t.Errorf("a model without a price costs %v, want NaN", cost)
	}
	if _, ok := (*catalog.Table)(nil).Find("openai", "gpt-4o"); ok {
		t.Error("a nil table contains a model")
	}
}

func TestProviderPrefixIsLookedUpFirst(t *testing.T) {
	table := catalog.Default()
	table.Models["azure:gpt-4o"] = llm.Info{Price: &llm.Price{Input: 5}}
	got := table.Cost(response("azure", "gpt-4o-2024-11-20", llm.Usage{Input: 1e6}))
	if other := table.Cost(response("openai", "gpt-4o", llm.Usage{Input: 1e6})); got != 5 || other != 2.5 {
		t.Errorf("azure costs %v and openai %v", got, other)
	}
	if _, ok := catalog.Default().Models["azure:gpt-4o"]; ok {
		t.Error("tables of Default share their models")
	}
}

func TestReadRejectsInvalidTables(t *testing.T) {
	price := func(p string) string {
		return `{"date": "2026-01-01", "models": {"m": {"price": ` + p + `}}}`
	}
	for text, want := range map[string]string{
		`{"models": {}}`:                                          "invalid date",
		price(`{"input": -1}`):                                    `model "m": price: invalid input -1`,
		price(`{"inputs": 1}`):                                    "inputs",
		price(`{"input": 1, "long": {"above": 0}}`):               "invalid long.above 0",
		price(`{"input": 1, "cache_read": -2}`):                   "invalid cache_read -2",
		price(`{"long": {"above": 1, "output": -0.1}}`):           "invalid long.output -0.1",
		`{"date": "2026-01-01", "models": {"m": {"window": -1}}}`: "negative window",
		`[]`: "catalog:",
	} {
		if _, err := catalog.Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}

// The published table has the models of all providers, with plausible facts.
func TestDefaultDescribesCurrentModels(t *testing.T) {
	table := catalog.Default()
	for _, c := range []struct {
		provider, model string
		window          int
		image, choice   bool
	}{
		{"openai", "gpt-6-sol", 1_050_000, true, true},
		{"openai", "gpt-5-mini", 272_000, true, true},
		{"anthropic", "claude-sonnet-5-5", 1_000_000, true, false},
		{"gemini", "gemini-2.5-pro", 1_048_576, true, true},
		{"bedrock_converse", "us.anthropic.claude-sonnet-5-5", 1_000_000, true, true},
	} {
		got, ok := table.Find(c.provider, c.model)
		if !ok || got.Window != c.window || slices.Contains(got.Inputs, "image") != c.image || got.NoToolChoice == c.choice || got.Price == nil {
			t.Errorf("%s:%s: %+v, %t", c.provider, c.model, got, ok)
		}
	}
	for name, info := range table.Models {
		if info.Provider != "" || info.Model != "" || info.Window == 0 && info.Price == nil {
			t.Errorf("%s: %+v", name, info)
		}
	}
	if table.Source == "" {
		t.Error("the table does not name its source")
	}
}

func TestCompleteKeepsKnownValues(t *testing.T) {
	got := catalog.Complete(llm.Info{Provider: "openai", Model: "gpt-4o-2024-08-06", NativeOutput: true, Window: 1000})
	if got.Model != "gpt-4o-2024-08-06" || !got.NativeOutput || got.Window != 1000 || got.MaxOutput != 16_384 || got.Price == nil {
		t.Errorf("%+v", got)
	}
	unknown := llm.Info{Provider: "openai", Model: "mine"}
	if got := catalog.Complete(unknown); got.String() != "openai:mine" || got.Window != 0 || got.Price != nil {
		t.Errorf("%+v", got)
	}
}

func ExampleTable() {
	table := catalog.Default()
	table.Models["mine"] = llm.Info{Window: 32_000, Price: &llm.Price{Input: 0.5, Output: 2}}

	info, _ := table.Find("", "mine")
	fmt.Println(info.Window, info.Price.Cost(llm.Usage{Input: 1000, Output: 100}))
	_, known := table.Find("", "unheard-of")
	fmt.Println(known)
	// Output:
	// 32000 0.0007
	// false
}
