package oteltest

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/catalog"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/oteltreadle"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/store"
)

// support is the state of the graph in docs/observability.md.
type support struct {
	llm.Chat
	Notes string `json:"notes"`
}

type notes struct {
	Notes string `json:"notes"`
}

type city struct {
	City string `json:"city"`
}

// soon is a retry policy with a short backoff.
var soon = treadle.RetryPolicy{Initial: time.Millisecond, NoJitter: true, On: func(error) bool { return true }}

// answer returns a model turn with token usage.
func answer(m llm.Message, in, out int) llmtest.Turn {
	m.Usage = &llm.Usage{Input: in, Output: out, Total: in + out}
	m.Metadata = map[string]any{"model_name": "gpt-4o-2024-08-06", "id": "answer"}
	return llmtest.Turn{Message: m}
}

// provided is a scripted model that describes itself as a model by OpenAI.
type provided struct{ *llmtest.Script }

// Describe implements [llm.Describer].
func (provided) Describe() llm.Info { return llm.Info{Provider: "openai", Model: "gpt-4o"} }

// supportGraph returns a graph with a node that fails once, a subgraph that searches the
// store, an agent with two tools, and a node that runs a graph on another server.
func supportGraph(t *testing.T, tel *oteltreadle.Telemetry) *treadle.Graph[support, support] {
	t.Helper()
	billing := treadle.New[notes]("billing")
	treadle.AddNode(billing, "invoice", func(_ context.Context, n notes) (notes, error) { return notes{n.Notes + ", paid"}, nil })
	billing.Edge(treadle.Start, "invoice")
	url := serve(t, newDatabase(), treadle.Must(billing.Compile(nil)), server.Options{Context: tel.Context})
	connections := &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	t.Cleanup(connections.CloseIdleConnections)
	other, err := client.New(url, &client.Options{HTTPClient: connections})
	if err != nil {
		t.Fatal(err)
	}
	items, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	weather := llm.NewTool("weather", "Tell the weather.", func(_ context.Context, c city) (string, error) { return "rain in " + c.City, nil })
	clock := llm.NewTool("clock", "Tell the time.", func(context.Context, city) (string, error) { return "noon", nil })
	model := provided{llmtest.Scripted(t,
		answer(llm.Assistant("", llmtest.ToolCall("weather", city{"Oslo"}), llmtest.ToolCall("clock", city{"Oslo"})), 120, 20),
		answer(llm.Assistant("Take an umbrella at noon."), 180, 10))}
	assistant := treadle.Must(agent.New(model, &agent.Options{Name: "assistant", Tools: []*llm.Tool{weather, clock}}))

	library := treadle.New[notes]("library")
	treadle.AddNode(library, "search", func(ctx context.Context, n notes) (notes, error) {
		found, err := llm.Retrieve(ctx, "handbook", n.Notes, func(ctx context.Context, query string) ([]*store.Item, error) {
			return treadle.StoreFrom(ctx).Search(ctx, store.Namespace{"handbook"}, &store.SearchOptions{Query: query})
		})
		return notes{n.Notes + " (" + strings.Repeat("x", len(found)) + ")"}, err
	})
	library.Edge(treadle.Start, "search")

	b := treadle.New[support]("support")
	var tries atomic.Int32
	treadle.AddNode(b, "triage", func(context.Context, support) (notes, error) {
		if tries.Add(1) == 1 {
			return notes{}, errors.New("the queue is busy")
		}
		return notes{"weather"}, nil
	}, treadle.Retry(soon))
	treadle.AddGraph(b, "research", treadle.Must(library.Compile(nil)))
	treadle.AddGraph(b, "assistant", assistant)
	b.Edge(treadle.Start, "triage")
	b.Edge("triage", "research")
	treadle.AddNode(b, "billing", client.NewGraph[notes, notes](other, "billing", nil).Run)
	b.Edge("research", "assistant")
	b.Edge("assistant", "billing")
	return treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory(), Store: items}))
}

// unsteady reports whether the value of an attribute differs from run to run.
func unsteady(key string) bool {
	return slices.Contains([]string{"treadle.run.id", "treadle.task.id", "treadle.namespace", "gen_ai.response.time_to_first_chunk", "gen_ai.conversation.id", "treadle.run.queue.duration"}, key)
}

func TestTraceMatchesDocs(t *testing.T) {
	r := newReceiver(t)
	tel, flush := r.tel(oteltreadle.Options{Prices: catalog.Default(), Agents: []string{"assistant"}})
	if _, err := supportGraph(t, tel).Thread("7").Run(tel.Context(t.Context()), support{Chat: llm.Chat{Messages: llm.Messages{llm.User("Umbrella?")}}}); err != nil {
		t.Fatal(err)
	}
	flush()
	const page, begin, end = "../../../../docs/observability.md", "<!-- trace -->\n```\n", "```\n<!-- /trace -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	was, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no section for the trace", page)
	}
	got := r.tree(unsteady)
	if *updating {
		if err := os.WriteFile(page, []byte(before+begin+got+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != was {
		t.Errorf("trace in %s is stale: run go test ./internal/test/system/oteltest -run TestTraceMatchesDocs -update\n%s", page, got)
	}
	for _, s := range r.spans {
		if !bytes.Equal(s.TraceId, r.spans[0].TraceId) {
			t.Errorf("span %s is in another trace", s.Name)
		}
		if s.EndTimeUnixNano < s.StartTimeUnixNano || s.StartTimeUnixNano == 0 {
			t.Errorf("span %s ends before it starts", s.Name)
		}
	}
	chat := r.named("chat gpt-4o")[0]
	if chat.Kind != tracepb.Span_SPAN_KIND_CLIENT || attr(chat, "gen_ai.conversation.id") != "7" {
		t.Errorf("chat is of kind %v in conversation %q", chat.Kind, attr(chat, "gen_ai.conversation.id"))
	}
	run := r.only("invoke_workflow support")
	if id := attr(run, "treadle.run.id"); id == "" || id != attr(r.only("invoke_agent assistant"), "treadle.run.id") {
		t.Errorf("run has the ID %q and the subgraph %q", id, attr(r.only("invoke_agent assistant"), "treadle.run.id"))
	}
}

// Prompts, responses, arguments, results, keys, and states are recorded only with
// Options.Content.
func TestContentIsOptIn(t *testing.T) {
	secrets := []string{"the prompt", "the answer", "Bergen", "the result", "the key", "the value"}
	run := func(content bool) *receiver {
		r := newReceiver(t)
		tel, flush := r.tel(oteltreadle.Options{Content: content})
		items, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		tool := llm.NewTool("weather", "Tell the weather.", func(ctx context.Context, _ city) (string, error) {
			return "the result", items.Put(ctx, store.Namespace{"a"}, "the key", map[string]string{"v": "the value"}, nil)
		})
		model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("weather", city{"Bergen"}), llmtest.ToolCall("weather", `{"city": 5, "x": "Bergen"}`)), llmtest.Say("the answer"))
		g := treadle.Must(agent.New(model, &agent.Options{Tools: []*llm.Tool{tool}}))
		if _, err := g.Run(tel.Context(t.Context()), agent.Ask("the prompt")); err != nil {
			t.Fatal(err)
		}
		flush()
		return r
	}
	without := run(false)
	for _, secret := range secrets {
		if strings.Contains(without.raw.String(), secret) {
			t.Errorf("%q is recorded:\n%s", secret, without.tree(nil))
		}
	}
	with := run(true)
	chats, tool, put := with.named("chat script"), with.named("execute_tool weather"), with.only("store put")
	if len(chats) != 2 || len(tool) != 2 {
		t.Fatalf("got %d chats and %d tool calls", len(chats), len(tool))
	}
	good, bad := tool[0], tool[1]
	if good.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		good, bad = bad, good
	}
	for what, c := range map[string]struct{ got, want string }{
		"input":     {attr(chats[0], "gen_ai.input.messages"), `[{"role":"user","parts":[{"type":"text","content":"the prompt"}]}]`},
		"output":    {attr(chats[1], "gen_ai.output.messages"), `[{"role":"assistant","parts":[{"type":"text","content":"the answer"}],"finish_reason":"stop"}]`},
		"call":      {attr(chats[1], "gen_ai.input.messages"), `{"type":"tool_call","id":"call_1","name":"weather","arguments":{"city":"Bergen"}}`},
		"response":  {attr(chats[1], "gen_ai.input.messages"), `{"type":"tool_call_response","id":"call_1","response":"the result"}`},
		"tools":     {attr(chats[0], "gen_ai.tool.definitions"), `"name":"weather","description":"Tell the weather."`},
		"arguments": {attr(good, "gen_ai.tool.call.arguments"), `{"city":"Bergen"}`},
		"result":    {attr(good, "gen_ai.tool.call.result"), `"the result"`},
		"failure":   {bad.Status.Message, "Bergen"},
		"keys":      {attr(put, "treadle.store.keys"), "the key"},
		"run":       {attr(with.only("invoke_workflow agent"), "treadle.output"), "the answer"},
		"node":      {attr(with.named("node model")[0], "treadle.input"), "the prompt"},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("%s: %s\nwant %s", what, c.got, c.want)
		}
	}
	if got := attr(bad, "error.type"); got != "invalid_arguments" {
		t.Errorf("invalid arguments have the error type %q", got)
	}
}
