package oteltest

import (
	"math"
	"testing"

	common "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/catalog"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/oteltreadle"
	"github.com/treadle-go/treadle/server"
)

// point is a data point of a metric.
type point struct {
	attrs []*common.KeyValue
	count uint64
	sum   float64
}

// points returns the data points of a metric.
func (r *receiver) points(name string) []point {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.metrics[name]
	if m == nil {
		r.t.Errorf("no metric %s", name)
		return nil
	}
	var out []point
	for _, p := range m.GetHistogram().GetDataPoints() {
		out = append(out, point{p.Attributes, p.Count, p.GetSum()})
	}
	for _, p := range m.GetSum().GetDataPoints() {
		out = append(out, point{p.Attributes, 1, p.GetAsDouble() + float64(p.GetAsInt())})
	}
	return out
}

func TestRunMetrics(t *testing.T) {
	r := newReceiver(t)
	tel, flush := r.tel(oteltreadle.Options{Prices: catalog.Default()})
	ctx := tel.Context(t.Context())
	if _, err := supportGraph(t, tel).Thread("1").Run(ctx, support{Chat: llm.Chat{Messages: llm.Messages{llm.User("Umbrella?")}}}); err != nil {
		t.Fatal(err)
	}
	unpriced := treadle.Must(agent.New(llmtest.NewScript(llmtest.Say("hello")), nil))
	if _, err := unpriced.Run(ctx, agent.Ask("hi")); err != nil {
		t.Fatal(err)
	}
	url := serve(t, newDatabase(), adder(), server.Options{Context: tel.Context})
	post(t, url+"/runs/wait", `{"assistant_id": "counter", "input": {"n": 1}}`)
	flush()

	for _, c := range []struct {
		metric, key, value string
		count              uint64
		sum                float64 // 0 for a duration
	}{
		{"gen_ai.client.token.usage", "gen_ai.token.type", "input", 2, 300},
		{"gen_ai.client.token.usage", "gen_ai.token.type", "output", 2, 30},
		{"gen_ai.client.operation.duration", "gen_ai.request.model", "gpt-4o", 2, 0},
		{"gen_ai.client.operation.time_to_first_chunk", "gen_ai.provider.name", "openai", 2, 0},
		{"treadle.usage.cost", "gen_ai.request.model", "gpt-4o", 1, (300*2.5 + 30*10) / 1e6},
		{"treadle.usage.cost.unknown", "gen_ai.request.model", "script", 1, 1},
		{"treadle.run.duration", "treadle.graph", "support", 1, 0},
		{"treadle.run.duration", "treadle.graph", "assistant", 1, 0},
		{"treadle.node.duration", "treadle.node", "triage", 1, 0},
		{"treadle.tool.duration", "gen_ai.tool.name", "weather", 1, 0},
		{"treadle.store.duration", "treadle.store.operation", "search", 1, 0},
		{"treadle.retries", "treadle.outcome", "ok", 1, 1},
		{"treadle.run.queue.duration", "treadle.graph", "counter", 1, 0},
	} {
		found := false
		for _, p := range r.points(c.metric) {
			if attrOf(p.attrs, c.key) != c.value {
				continue
			}
			found = true
			if p.count != c.count || c.sum != 0 && math.Abs(p.sum-c.sum) > 1e-9 || p.sum < 0 {
				t.Errorf("%s{%s=%s} counts %d and sums up to %v, want %d and %v", c.metric, c.key, c.value, p.count, p.sum, c.count, c.sum)
			}
		}
		if !found {
			t.Errorf("%s has no %s=%s", c.metric, c.key, c.value)
		}
	}
	for _, p := range r.points("treadle.run.active") {
		if p.sum != 0 {
			t.Errorf("%v runs of %s are still active", p.sum, attrOf(p.attrs, "treadle.graph"))
		}
	}
	for _, name := range []string{"treadle.run.duration", "treadle.node.duration"} {
		for _, p := range r.points(name) {
			for _, a := range p.attrs {
				if a.Key == "treadle.run.id" || a.Key == "gen_ai.conversation.id" {
					t.Errorf("%s has the high-cardinality attribute %s", name, a.Key)
				}
			}
		}
	}
}
