package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// callAll returns a tool that starts all calls and returns their results in the order in which they
// ended.
func callAll(calls ...llm.ToolCall) *llm.Tool {
	return llm.NewTool("all", "Makes calls.", func(ctx context.Context, _ struct{}) ([]string, error) {
		c, err := agent.NewCalls(ctx)
		if err != nil {
			return nil, err
		}
		for _, call := range calls {
			if _, err := c.Start(call.Name, call.Args); err != nil {
				return nil, err
			}
		}
		var out []string
		for {
			end, ok, err := c.Next()
			if err != nil || !ok {
				return out, err
			}
			out = append(out, fmt.Sprint(end.Number, " ", end.Message.Text(), " ", end.IsJSON))
		}
	})
}

func allTurns() []llmtest.Turn {
	return []llmtest.Turn{llmtest.Ask(llmtest.ToolCall("all", struct{}{})), llmtest.Say("done")}
}

func TestNestedCallsReturnTextsAndValues(t *testing.T) {
	value := llm.NewTool("value", "Returns a value.", func(context.Context, struct{}) (any, error) { return []int{1}, nil })
	bad := llm.NewTool("bad", "Fails.", func(context.Context, struct{}) (string, error) { return "", errors.New("broken") })
	tools := []*llm.Tool{callAll(llmtest.ToolCall("send", mail{"a"}), llmtest.ToolCall("value", struct{}{}), llmtest.ToolCall("bad", struct{}{})),
		llm.NewTool("send", "Sends.", sendMail), value, bad}
	o := &agent.Options{Tools: tools, ToolOptions: agent.ToolOptions{ToolConcurrency: 1}}
	out, err := made(t, llmtest.Scripted(t, allTurns()...), o).Run(t.Context(), agent.Ask("go"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := json.Unmarshal([]byte(out.Messages[2].Text()), &got); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	want := []string{"1 sent to a false", "2 [1] true", "3 Error: tool bad: broken\n Please fix your mistakes. false"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
}

// Updates of nested calls become part of the state, in the order in which the calls ended.
func TestNestedCallsUpdateState(t *testing.T) {
	todos := func(text string) llm.ToolCall {
		return llmtest.ToolCall("write_todos", map[string]any{"todos": []agent.Todo{{Content: text, Status: "pending"}}})
	}
	type state struct {
		agent.State
		Todos []agent.Todo `json:"todos"`
	}
	one := llm.NewTool("all", "Makes calls in order.", func(ctx context.Context, _ struct{}) (string, error) {
		c, err := agent.NewCalls(ctx)
		if err != nil {
			return "", err
		}
		for _, call := range []llm.ToolCall{todos("a"), todos("b")} {
			if _, err := c.Start(call.Name, call.Args); err != nil {
				return "", err
			}
			if _, _, err := c.Next(); err != nil {
				return "", err
			}
		}
		return "ok", nil
	})
	a, err := agent.For[state](llmtest.Scripted(t, allTurns()...), &agent.Options{Tools: []*llm.Tool{one}, Middleware: []*agent.Middleware{agent.Todos()}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Run(t.Context(), state{State: agent.Ask("go")})
	if err != nil || len(out.Todos) != 1 || out.Todos[0].Content != "b" || len(out.Messages) != 4 {
		t.Errorf("got todos %v, %d messages, %v, want todo b and 4 messages", out.Todos, len(out.Messages), err)
	}
}

// Several calls ask at once, and what has ended does not run again.
func TestNestedCallsAskTogether(t *testing.T) {
	runs := map[string]int{}
	tools := []*llm.Tool{
		callAll(llmtest.ToolCall("send", mail{"a"}), llmtest.ToolCall("draft", mail{"b"}), llmtest.ToolCall("send", mail{"c"})),
		llm.NewTool("send", "Sends a mail.", sendMail),
		llm.NewTool("draft", "Writes a mail.", func(_ context.Context, m mail) (string, error) {
			runs[m.To]++
			return "draft " + m.To, nil
		}),
	}
	thread := made(t, llmtest.Scripted(t, allTurns()...), &agent.Options{Tools: tools, Graph: memory(),
		Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "send"})}}).Thread("1")
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok || len(stop.Pauses) != 2 {
		t.Fatalf("want two questions, got %v", err)
	}
	answers := treadle.Answers{}
	for _, p := range stop.Pauses {
		answers[p.ID] = agent.Decisions{{Type: agent.Approve}}
	}
	out, err := thread.Resume(t.Context(), answers)
	if err != nil || runs["b"] != 1 || !strings.HasPrefix(out.Messages[2].Text(), `["2 draft b false",`) {
		t.Errorf("got %v %v, draft ran %d times", out.Messages, err, runs["b"])
	}
}

func TestNestedCallsRefuseHandoffs(t *testing.T) {
	tools := []*llm.Tool{callAll(llmtest.ToolCall("transfer_to_bob", struct{}{})), agent.Handoff("bob", nil)}
	out, err := made(t, llmtest.Scripted(t, allTurns()...), &agent.Options{Tools: tools}).Run(t.Context(), agent.Ask("go"))
	if err != nil || !strings.Contains(out.Messages[2].Text(), "goes to another node or agent, which is not possible within another tool: call it directly") {
		t.Errorf("got %v %v", out.Messages, err)
	}
}

func TestNestedCallsReportMisuse(t *testing.T) {
	if _, err := agent.NewCalls(t.Context()); err == nil || !strings.Contains(err.Error(), "context of no tool call") {
		t.Errorf("outside of a tool: got %v", err)
	}
	inner := llm.NewTool("inner", "Makes calls too.", func(ctx context.Context, _ struct{}) (string, error) {
		_, err := agent.NewCalls(ctx)
		return "", err
	})
	tools := []*llm.Tool{callAll(llmtest.ToolCall("inner", struct{}{})), inner}
	out, err := made(t, llmtest.Scripted(t, allTurns()...), &agent.Options{Tools: tools}).Run(t.Context(), agent.Ask("go"))
	if err != nil || !strings.Contains(out.Messages[2].Text(), "tool inner was itself called by a tool: call it directly") {
		t.Errorf("nested twice: got %v %v", out.Messages, err)
	}
	tools = []*llm.Tool{callAll(llmtest.ToolCall("sned", struct{}{})), llm.NewTool("send", "Sends.", sendMail)}
	out, err = made(t, llmtest.Scripted(t, allTurns()...), &agent.Options{Tools: tools}).Run(t.Context(), agent.Ask("go"))
	if err != nil || !strings.Contains(out.Messages[2].Text(), "sned is not a valid tool") {
		t.Errorf("unknown tool: got %v %v", out.Messages, err)
	}
}

// A call that ends before Start returns is delivered once.
func TestQuickNestedCallsEndOnce(t *testing.T) {
	const n = 2000
	many := llm.NewTool("all", "Makes many calls.", func(ctx context.Context, _ struct{}) (string, error) {
		c, err := agent.NewCalls(ctx)
		if err != nil {
			return "", err
		}
		for i := 1; i <= n; i++ {
			if _, err := c.Start("send", json.RawMessage(`{"to":"a"}`)); err != nil {
				return "", err
			}
			end, ok, err := c.Next()
			if err != nil {
				return "", err
			}
			if !ok || end.Number != i {
				return "", fmt.Errorf("call %d: got the end of %d, %v", i, end.Number, ok)
			}
		}
		return "ok", nil
	})
	tools := []*llm.Tool{many, llm.NewTool("send", "Sends.", sendMail)}
	out, err := made(t, llmtest.Scripted(t, allTurns()...), &agent.Options{Tools: tools}).Run(t.Context(), agent.Ask("go"))
	if err != nil || out.Messages[2].Text() != "ok" {
		t.Errorf("got %v %v", out.Messages, err)
	}
}

// Nested calls appear in streams and traces as tool calls.
func TestNestedCallsAreTraced(t *testing.T) {
	tools := []*llm.Tool{callAll(llmtest.ToolCall("send", mail{"a"})), llm.NewTool("send", "Sends.", sendMail)}
	a := made(t, llmtest.Scripted(t, allTurns()...), &agent.Options{Tools: tools})
	var names []string
	for ev, err := range a.Stream(t.Context(), agent.Ask("go"), treadle.Modes(treadle.ModeEvents)) {
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := ev.(treadle.Lifecycle); ok && (e.Event == "on_tool_start" || e.Event == "on_tool_end") {
			names = append(names, e.Event+" "+e.Name)
		}
	}
	if want := []string{"on_tool_start all", "on_tool_start send", "on_tool_end send", "on_tool_end all"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}
