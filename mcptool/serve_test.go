package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/mcptool"
)

type topic struct {
	Topic string `json:"topic"`
}

type told struct {
	Joke string `json:"joke"`
}

type jokes struct {
	topic
	told
}

// graphOf returns a graph with one node.
func graphOf(t *testing.T, fn func(context.Context, topic) (told, error), saver checkpoint.Saver) treadle.AnyGraph {
	t.Helper()
	b := treadle.New[jokes]("jokes")
	treadle.AddNode(b, "tell", fn)
	b.Edge(treadle.Start, "tell")
	b.Edge("tell", treadle.End)
	g, err := treadle.Compile[topic, told](b, &treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// offer serves tools over HTTP and connects to them.
func offer(t *testing.T, tools ...*llm.Tool) toolset {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "ours", Version: "v1"}, nil)
	if err := mcptool.Add(s, tools...); err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(mcptool.Handler(s, nil))
	t.Cleanup(h.Close)
	_, set := open(t, mcptool.Server{Name: "ours", URL: h.URL})
	return set
}

func graphTool(t *testing.T, g treadle.AnyGraph) *llm.Tool {
	t.Helper()
	tool, err := mcptool.Graph(g, "Tells jokes.")
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func TestSessionFloodIsLimited(t *testing.T) {
	s := newServer(func(string) {})
	h := httptest.NewServer(mcptool.Handler(s, &mcptool.HandlerOptions{Sessions: true, MaxUserSessions: 3}))
	defer h.Close()
	defer func() {
		for one := range s.Sessions() {
			_ = one.Close()
		}
	}()
	for i := range 20 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL,
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		want := http.StatusOK
		if i >= 3 {
			want = http.StatusTooManyRequests
		}
		if resp.StatusCode != want {
			t.Errorf("session %d: status %d, want %d", i, resp.StatusCode, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestGraphRunsAsTool(t *testing.T) {
	tools := offer(t, graphTool(t, graphOf(t, func(_ context.Context, in topic) (told, error) {
		return told{"Two " + in.Topic + " walk into a bar."}, nil
	}, nil)))
	m, err := tools.call(t.Context(), "jokes", `{"topic":"owls"}`)
	if err != nil {
		t.Fatal(err)
	}
	want := llm.Message{Role: llm.RoleTool, Name: "jokes", ToolCallID: "c1",
		Content: `{"joke":"Two owls walk into a bar."}`, Artifact: map[string]any{"joke": "Two owls walk into a bar."}}
	if d := cmp.Diff(want, m); d != "" {
		t.Errorf("result (-want +got):\n%s", d)
	}
	if tools["jokes"].Description != "Tells jokes." || tools["jokes"].Parameters.Properties["topic"].Type != "string" {
		t.Errorf("tool: %+v", tools["jokes"])
	}
}

func TestGraphWrapsNonStructInput(t *testing.T) {
	w, err := treadle.NewWorkflow("shout", func(_ context.Context, in string) (string, error) { return strings.ToUpper(in), nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	tools := offer(t, graphTool(t, w))
	m, err := tools.call(t.Context(), "shout", `{"input":"owls"}`)
	if err != nil || m.Text() != `"OWLS"` {
		t.Errorf("got %q, %v", m.Text(), err)
	}
	if d := cmp.Diff(map[string]any{"result": "OWLS"}, m.Artifact); d != "" {
		t.Errorf("artifact (-want +got):\n%s", d)
	}
}

func TestUnsupportedResultsAreToolErrors(t *testing.T) {
	ask := func(ctx context.Context, _ topic) (told, error) {
		joke, err := treadle.Interrupt[string](ctx, "which one?")
		return told{joke}, err
	}
	for _, test := range []struct {
		name string
		tool *llm.Tool
		want string
	}{
		{"interrupt", graphTool(t, graphOf(t, ask, nil)), "tool jokes interrupted, which cannot be answered over MCP: tool jokes: graph \"jokes\": node \"tell\" (step 1): interrupt: treadle: graph has no saver"},
		{"interrupt with a saver", graphTool(t, graphOf(t, ask, checkpoint.NewMemory())), "tool jokes interrupted, which cannot be answered over MCP: client does not support elicitation"},
		{"failing graph", graphTool(t, graphOf(t, func(context.Context, topic) (told, error) { return told{}, fmt.Errorf("no jokes left") }, nil)), "no jokes left"},
		{"panic", llm.NewTool("jokes", "", func(context.Context, topic) (string, error) { panic("boom") }), "tool jokes: panic: boom"},
		{"a command", llm.NewTool("jokes", "", func(context.Context, topic) (treadle.Command[any], error) { return treadle.Command[any]{}, nil }),
			"tool jokes returned a command"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := offer(t, test.tool).call(t.Context(), "jokes", `{"topic":"owls"}`)
			if err != nil || m.Status != llm.StatusError || !strings.Contains(m.Text(), test.want) {
				t.Errorf("got %v %q, %v", m.Status, m.Text(), err)
			}
		})
	}
}

func TestAddRejectsUncallableTools(t *testing.T) {
	run := func(context.Context, json.RawMessage) (any, error) { return nil, nil }
	for _, test := range []struct {
		tools []*llm.Tool
		want  string
	}{
		{[]*llm.Tool{nil}, "mcptool: nil tool"},
		{[]*llm.Tool{{Name: "web"}}, `mcptool: tool "web": nil Run`},
		{[]*llm.Tool{{Name: "a b", Run: run}}, `mcptool: invalid tool name "a b": want letters, digits, _, and -`},
		{[]*llm.Tool{{Name: "a", Run: run}, {Name: "a", Run: run}}, `mcptool: duplicate tool name "a"`},
		{[]*llm.Tool{{Name: "a", Run: run, Parameters: &jsonschema.Schema{Type: "array"}}}, `mcptool: tool "a": parameters must be of type object`},
	} {
		s := mcp.NewServer(&mcp.Implementation{Name: "ours", Version: "v1"}, nil)
		good := &llm.Tool{Name: "good", Run: run}
		if err := mcptool.Add(s, append([]*llm.Tool{good}, test.tools...)...); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
		h := httptest.NewServer(mcptool.Handler(s, nil))
		if _, tools := open(t, mcptool.Server{Name: "ours", URL: h.URL}); len(tools) > 0 {
			t.Errorf("%s: %d tools are offered", test.want, len(tools))
		}
		h.Close()
	}
}

// A tool's content reaches the client's model unchanged.
func TestBlocksRoundTrip(t *testing.T) {
	blocks := []llm.Block{llm.Text("look:"), llm.Image("image/png", []byte("png")), llm.Audio("audio/wav", []byte("wav")),
		{Type: llm.BlockImage, URL: "https://example.com/owl.png", MIMEType: "image/png"}, llm.File("owl.pdf", "application/pdf", []byte("pdf"))}
	show := llm.NewTool("show", "", func(context.Context, struct{}) ([]llm.Block, error) {
		return append(slices.Clip(blocks), llm.Block{Type: llm.BlockReasoning, Reasoning: "hm"}), nil
	})
	m, err := offer(t, show).call(t.Context(), "show", "{}")
	if err != nil {
		t.Fatal(err)
	}
	// MCP has no other kinds, so other blocks are sent as JSON.
	want := append(slices.Clip(blocks), llm.Text(`{"type":"reasoning","reasoning":"hm"}`))
	if d := cmp.Diff(want, m.Blocks); d != "" {
		t.Errorf("blocks (-want +got):\n%s", d)
	}
}

func TestAgentCallsToolsAndEmitsProgress(t *testing.T) {
	overBoth(t, func(t *testing.T, s mcptool.Server, _ words) {
		all, tools := open(t, s)
		list, err := all.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		model := llmtest.Scripted(t,
			llmtest.Ask(llmtest.ToolCall("add", sum{1, 2}), llmtest.ToolCall("long_job", "{}"), llmtest.ToolCall("fail", "{}")),
			llmtest.Say("3, and no owls."))
		a, err := agent.New(model, &agent.Options{Tools: list})
		if err != nil {
			t.Fatal(err)
		}
		var heard []mcptool.Progress
		var out agent.State
		for ev, err := range a.Stream(t.Context(), agent.Ask("go"), treadle.Modes(treadle.ModeCustom)) {
			if err != nil {
				t.Fatal(err)
			}
			switch ev := ev.(type) {
			case treadle.Custom:
				if p, ok := ev.Value.(mcptool.Progress); ok {
					p.CallID = ""
					heard = append(heard, p)
					tools.says(t, "release", "")
				}
			case treadle.Finished[agent.State]:
				out = ev.Output
			}
		}
		if d := cmp.Diff([]mcptool.Progress{{Server: s.Name, Tool: "long_job", Progress: 1, Total: 2, Message: "half"}}, heard); d != "" {
			t.Errorf("progress (-want +got):\n%s", d)
		}
		var said []string
		for _, m := range out.Messages {
			said = append(said, fmt.Sprint(m.Role, ": ", m.Text(), " ", m.Status))
		}
		want := []string{"human: go ", "ai:  ", "tool: 3 ", "tool: done ", "tool: tool fail: out of owls error", "ai: 3, and no owls. "}
		if d := cmp.Diff(want, said); d != "" {
			t.Errorf("messages (-want +got):\n%s", d)
		}
	})
}

func TestNilArgumentsAreErrors(t *testing.T) {
	var none context.Context
	var graph *treadle.Graph[string, string]
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "v1"}, nil)
	endless := &llm.Tool{Name: "t", Parameters: &jsonschema.Schema{Type: "object", Ref: "#"}, Run: func(context.Context, json.RawMessage) (any, error) { return "", nil }}
	for want, call := range map[string]func() error{
		"mcptool: nil graph":                                    func() error { _, err := mcptool.Graph(nil, ""); return err },
		"mcptool: nil graph ":                                   func() error { _, err := mcptool.Graph(graph, ""); return err },
		"mcptool: nil server":                                   func() error { return mcptool.Add(nil) },
		"mcptool: nil tool":                                     func() error { return mcptool.Add(server, nil) },
		"mcptool: llm: tool t: nil function":                    func() error { return mcptool.Add(server, llm.NewTool[struct{}, string]("t", "", nil)) },
		"mcptool: llm: tool t: parameters: invalid schema: end": func() error { return mcptool.Add(server, endless) },
		"mcptool: nil context":                                  func() error { _, err := mcptool.Connect(none); return err },
	} {
		if err := call(); err == nil || !strings.HasPrefix(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("err = %v, want %s", err, want)
		}
	}
}

// Other clients reject a tool list that contains the boolean schema true.
func TestToolWithAnyFieldHasNoBooleanSchema(t *testing.T) {
	keep := llm.NewTool("keep", "Keeps a value.", func(context.Context, struct {
		Name  string `json:"name"`
		Extra any    `json:"extra"`
		List  []any  `json:"list"`
	}) (string, error) {
		return "ok", nil
	})
	s := mcp.NewServer(&mcp.Implementation{Name: "ours", Version: "v1"}, nil)
	if err := mcptool.Add(s, keep); err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(mcptool.Handler(s, nil))
	t.Cleanup(h.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if text := string(raw); !strings.Contains(text, `"extra":{}`) || !strings.Contains(text, `"items":{}`) || strings.Contains(text, "true") {
		t.Errorf("tool list: %s", text)
	}
}

// A served tool can have what llm.Tool lacks. Its results must match what it announces.
func TestServedToolsAreDescribed(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "v1"}, nil)
	count := llm.NewTool("count", "Counts owls.", func(_ context.Context, in struct{ Owls any }) (llm.ToolOutput, error) {
		return llm.ToolOutput{Content: "counted", Artifact: map[string]any{"n": in.Owls}}, nil
	})
	describe := func(t *mcp.Tool) {
		t.Name, t.Title, t.Annotations = "other", "Owls", &mcp.ToolAnnotations{ReadOnlyHint: true}
		t.OutputSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
	}
	if err := mcptool.AddWith(s, describe, count); err != nil {
		t.Fatal(err)
	}
	if err := mcptool.AddWith(s, func(t *mcp.Tool) { t.OutputSchema = json.RawMessage(`{"$ref":"#"}`) }, count); err == nil {
		t.Error("an endless output schema was accepted")
	}
	h := httptest.NewServer(mcptool.Handler(s, nil))
	t.Cleanup(h.Close)
	all, tools := open(t, mcptool.Server{Name: "test", URL: h.URL})
	session, err := all.Session(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "count" || list.Tools[0].Title != "Owls" || !list.Tools[0].Annotations.ReadOnlyHint || list.Tools[0].OutputSchema == nil {
		t.Errorf("tools %+v, %v", list, err)
	}
	for args, want := range map[string]llm.Status{`{"Owls":3}`: "", `{"Owls":"three"}`: llm.StatusError} {
		if m, err := tools.call(t.Context(), "count", args); err != nil || m.Status != want {
			t.Errorf("%s: %+v, %v", args, m, err)
		}
	}
}
