package oteltest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/oteltreadle"
	"github.com/treadle-go/treadle/server"
)

// get decodes a response.
func get(t *testing.T, url string, into any) {
	t.Helper()
	resp, err := http.Get(url) //nolint:noctx // of a server in this process
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", url, resp.StatusCode, err)
	}
}

func TestStoredSpansHaveTelemetryIDs(t *testing.T) {
	r := newReceiver(t)
	tel, flush := r.tel(oteltreadle.Options{})
	weather := llm.NewTool("weather", "Tell the weather.", func(context.Context, struct{}) (string, error) { return "rain", nil })
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("weather", struct{}{})), llmtest.Say("Take an umbrella."))
	g := treadle.Must(agent.New(model, &agent.Options{Name: "agent", Tools: []*llm.Tool{weather}}))
	url := serve(t, newDatabase(), g, server.Options{Context: tel.Context, Spans: &server.SpanOptions{}}) + "/threads/0197a000-0000-7000-8000-000000000001/runs"
	post(t, url+"/wait", `{"assistant_id":"agent","input":{"messages":[{"role":"user","content":"Umbrella?"}]},"if_not_exists":"create"}`)
	var runs []struct {
		ID string `json:"run_id"`
	}
	get(t, url, &runs)
	var stored struct{ Spans []ledger.Span }
	get(t, url+"/"+runs[0].ID+"/spans", &stored)
	flush()
	ids := map[string]string{} // trace IDs by span ID
	for _, name := range []string{"chat script", "execute_tool weather"} {
		for _, s := range r.named(name) {
			ids[hex.EncodeToString(s.SpanId)] = hex.EncodeToString(s.TraceId)
		}
	}
	if len(stored.Spans) != 3 || len(ids) != 3 {
		t.Fatalf("stored %d spans, exported %d", len(stored.Spans), len(ids))
	}
	for _, s := range stored.Spans {
		if ids[s.SpanID] != s.TraceID || s.TraceID != callersTrace {
			t.Errorf("%s has span ID %s and trace ID %s, want one of %v", s.Name, s.SpanID, s.TraceID, ids)
		}
	}
}
