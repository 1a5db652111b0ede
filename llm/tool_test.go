package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

type nothing struct{}

func TestToolContextHasCallAndState(t *testing.T) {
	tool := llm.NewTool("who", "", func(ctx context.Context, _ nothing) (string, error) {
		call, _ := llm.CallFrom(ctx)
		state, _ := llm.StateFrom[llm.Chat](ctx)
		return call.ID + " of " + call.Name + " after " + state.Messages[0].Content, nil
	})
	ctx := llm.WithState(t.Context(), llm.Chat{Messages: llm.Messages{llm.User("hi")}})
	out, err := tool.Call(ctx, llm.ToolCall{ID: "c1", Name: "who"})
	if err != nil || out != "c1 of who after hi" {
		t.Errorf("got %v, %v", out, err)
	}
	if raw, err := json.Marshal(tool.Parameters); err != nil || strings.Contains(string(raw), "state") {
		t.Errorf("the model sees %s, %v", raw, err)
	}
	if _, ok := llm.CallFrom(t.Context()); ok {
		t.Error("there is a call outside of tools")
	}
	if _, ok := llm.StateFrom[string](ctx); ok {
		t.Error("a state of another type was found")
	}
}

func TestToolFailuresNameTool(t *testing.T) {
	broken := errors.New("broken")
	call := llm.ToolCall{ID: "c1", Name: "f"}
	for name, fn := range map[string]func(context.Context, nothing) (string, error){
		"error": func(context.Context, nothing) (string, error) { return "", broken },
		"panic": func(context.Context, nothing) (string, error) { panic(broken) },
	} {
		out, err := llm.NewTool("f", "", fn).Call(t.Context(), call)
		e, ok := errors.AsType[*llm.ToolError](err)
		if !ok || !errors.Is(err, broken) || e.Tool != "f" || e.CallID != "c1" || !strings.HasPrefix(err.Error(), "tool f: ") || out != nil {
			t.Errorf("%s: got %v, %v; want a ToolError that names tool and call", name, out, err)
		}
		if ok && (name == "panic") != strings.Contains(string(e.Stack), "tool_test.go") {
			t.Errorf("%s: the stack is %q", name, e.Stack)
		}
	}
	if _, err := llm.NewTool("f", "", func(context.Context, nothing) (string, error) { panic("plain") }).Call(t.Context(), call); err == nil || !strings.HasPrefix(err.Error(), "tool f: panic: plain (llm_test.TestToolFailuresNameTool.func3, tool_test.go:") {
		t.Errorf("the panic became %v", err)
	}
	if _, err := (&llm.Tool{Name: "web", Extra: map[string]any{"type": "web_search"}}).Call(t.Context(), call); err == nil || !strings.Contains(err.Error(), "the provider runs it") {
		t.Errorf("a provider's own tool gave %v", err)
	}
	bad := llm.NewTool("f", "", func(context.Context, chan int) (string, error) { return "", nil })
	if _, err := bad.Call(t.Context(), call); err == nil || !strings.Contains(err.Error(), "tool f: no schema for chan int") {
		t.Errorf("a tool without a schema gave %v", err)
	}
}

func bounded(t *llm.Tool, timeout time.Duration) *llm.Tool {
	t.Timeout = timeout
	return t
}

func TestToolTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, _ nothing) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		start := time.Now()
		_, err := bounded(llm.NewTool("slow", "", slow), 3*time.Second).Call(t.Context(), llm.ToolCall{ID: "1"})
		if time.Since(start) != 3*time.Second || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "tool slow: timed out after 3s") {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		// What it returns nevertheless counts.
		late := func(ctx context.Context, _ nothing) (string, error) {
			<-ctx.Done()
			return "late", nil
		}
		if out, err := bounded(llm.NewTool("late", "", late), time.Second).Call(t.Context(), llm.ToolCall{ID: "1"}); out != "late" || err != nil {
			t.Errorf("a late result gave %v, %v", out, err)
		}
		// The caller's own deadline is not the tool's.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = bounded(llm.NewTool("slow", "", slow), 3*time.Second).Call(ctx, llm.ToolCall{ID: "1"})
		if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "timed out after") {
			t.Errorf("the caller's deadline gave %v", err)
		}
	})
}

func TestToolIsObserved(t *testing.T) {
	var d diary
	tool := llm.NewTool("f", "", func(context.Context, nothing) (string, error) { return "done", nil })
	if _, err := tool.Call(d.in(t.Context()), llm.ToolCall{ID: "c1", Name: "f"}); err != nil {
		t.Fatal(err)
	}
	same(t, "observed calls", []string{"begin tool f []", "end done <nil>"}, d.lines)
	same(t, "the call", observe.Call{Kind: observe.Tool, Name: "f", Input: json.RawMessage(`{}`), ToolCall: "c1"}, d.calls[0])
	_, err := tool.Call(d.in(t.Context()), llm.ToolCall{ID: "c2", Args: json.RawMessage(`{"x":1}`)})
	if last := d.lines[len(d.lines)-1]; err == nil || !strings.HasPrefix(last, "end <nil> Error invoking tool") {
		t.Errorf("for invalid arguments, the run observed %q", last)
	}
}

// Tools whose schema is known only at run time are literals.
func TestToolFromSchema(t *testing.T) {
	tool := &llm.Tool{Name: "f", Parameters: &jsonschema.Schema{Type: "object", Required: []string{"a"}},
		Run: func(_ context.Context, args json.RawMessage) (any, error) { return args, nil }}
	if out, err := tool.Call(t.Context(), llm.ToolCall{Args: json.RawMessage(`{"a":1}`)}); err != nil || string(out.(json.RawMessage)) != `{"a":1}` {
		t.Errorf("got %s, %v", out, err)
	}
	if _, err := tool.Call(t.Context(), llm.ToolCall{}); err == nil || !strings.Contains(err.Error(), "a") {
		t.Errorf("got %v", err)
	}
	free := &llm.Tool{Name: "f", Run: tool.Run}
	if out, err := free.Call(t.Context(), llm.ToolCall{Args: json.RawMessage(`{"b":2}`)}); err != nil || string(out.(json.RawMessage)) != `{"b":2}` {
		t.Errorf("got %s, %v", out, err)
	}
}

func TestToolResult(t *testing.T) {
	call := llm.ToolCall{ID: "c1", Name: "f"}
	base := llm.Message{Role: llm.RoleTool, Name: "f", ToolCallID: "c1"}
	with := func(fill func(*llm.Message)) llm.Message {
		m := base
		fill(&m)
		return m
	}
	image := llm.ImageURL("u")
	for _, test := range []struct {
		name string
		v    any
		want llm.Message
	}{
		{"a string", "sunny", with(func(m *llm.Message) { m.Content = "sunny" })},
		{"nothing", nil, with(func(m *llm.Message) { m.Content = "null" })},
		{"JSON", map[string]any{"a": "<b>"}, with(func(m *llm.Message) { m.Content = `{"a":"<b>"}` })},
		{"raw JSON", json.RawMessage(`{"a": 1}`), with(func(m *llm.Message) { m.Content = `{"a": 1}` })},
		{"a block", image, with(func(m *llm.Message) { m.Blocks = []llm.Block{image} })},
		{"blocks", []llm.Block{llm.Text("a"), image}, with(func(m *llm.Message) { m.Blocks = []llm.Block{llm.Text("a"), image} })},
		{"content and artifact", llm.ToolOutput{Content: 3, Artifact: []int{1, 2}}, with(func(m *llm.Message) { m.Content, m.Artifact = "3", []int{1, 2} })},
		{"content and artifact by pointer", &llm.ToolOutput{Content: "x"}, with(func(m *llm.Message) { m.Content = "x" })},
		{"an error", errors.New("no"), with(func(m *llm.Message) { m.Content, m.Status = "no", llm.StatusError })},
		{"a message", llm.Message{ID: "m", Content: "x", Name: "own"}, with(func(m *llm.Message) { m.ID, m.Content, m.Name = "m", "x", "own" })},
		{"no JSON", make(chan int), with(func(m *llm.Message) {
			m.Content, m.Status = "tool f: result cannot be encoded as JSON: json: unsupported type: chan int", llm.StatusError
		})},
	} {
		t.Run(test.name, func(t *testing.T) { same(t, "the message", test.want, llm.ToolResult(call, test.v)) })
	}
}

func TestProviderToolName(t *testing.T) {
	for want, fields := range map[string]map[string]any{
		"web_search":   {"type": "web_search", "search_context_size": "low"},
		"docs":         {"type": "mcp", "server_label": "docs", "server_url": "https://example.com/mcp"},
		"memory":       {"type": "memory_20250818", "name": "memory"},
		"googleSearch": {"googleSearch": map[string]any{}},
		"":             {"a": 1, "b": 2},
	} {
		tool := llm.ProviderTool(fields)
		if tool.Name != want || tool.Run != nil || tool.Check() != nil {
			t.Errorf("%v: name %q, error %v; want %q", fields, tool.Name, tool.Check(), want)
		}
	}
	if err := llm.ProviderTool(nil).Check(); err == nil {
		t.Error("a tool without fields is valid")
	}
	model := llmtest.NewScript(llmtest.Say("ok"))
	unnamed := llm.ProviderTool(map[string]any{"a": 1, "b": 2})
	if _, err := llm.Generate(t.Context(), llm.With(model, llm.Tools(unnamed, unnamed)), llm.User("Hi")); err != nil {
		t.Errorf("two unnamed provider tools: %v", err)
	}
}
