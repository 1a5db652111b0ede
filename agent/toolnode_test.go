package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/reduce"
)

// toolGraph returns a graph with only the tool node.
func toolGraph(t *testing.T, tools []*llm.Tool, o *agent.ToolOptions) *treadle.Graph[agent.State, agent.State] {
	t.Helper()
	b := treadle.New[agent.State]("own")
	treadle.AddNode(b, "tools", agent.Tools[agent.State](tools, o))
	b.Edge(treadle.Start, "tools")
	g, err := b.Compile(&treadle.Options{Saver: memory().Saver})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// calls returns a conversation that ends with calls c0, c1, and so on.
func calls(cs ...llm.ToolCall) agent.State {
	for i := range cs {
		cs[i].ID = fmt.Sprint("c", i)
	}
	return chat(llm.User("go"), llm.Assistant("", cs...))
}

func results(t *testing.T, g *treadle.Graph[agent.State, agent.State], in agent.State) llm.Messages {
	t.Helper()
	out, err := g.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.Messages[len(in.Messages):]
}

// Parity: 210.
func TestToolNodeRunsCallsWithoutResult(t *testing.T) {
	g := toolGraph(t, []*llm.Tool{echo}, nil)
	in := calls(say("a"), say("b"))
	in.Messages = append(llm.Messages{llm.User("before"), llm.Assistant("", llm.ToolCall{ID: "old", Name: "echo"})}, in.Messages...)
	in.Messages = append(in.Messages, llm.ToolResult(llm.ToolCall{ID: "c0", Name: "echo"}, "there already"))
	got := results(t, g, in)
	wantLines(t, got, "tool: b")
	if m := got[0]; m.ToolCallID != "c1" || m.Name != "echo" || m.ID == "" {
		t.Errorf("result = %+v", m)
	}
}

// Parity: 210.
func TestToolNodeReportsInvalidInput(t *testing.T) {
	if _, err := toolGraph(t, []*llm.Tool{echo}, nil).Run(t.Context(), agent.Ask("hi")); err == nil || !strings.Contains(err.Error(), "has no AI message") {
		t.Errorf("no answer: %v", err)
	}
	if _, err := toolGraph(t, []*llm.Tool{echo, echo}, nil).Run(t.Context(), calls(say("a"))); err == nil || !strings.Contains(err.Error(), `duplicate tool name "echo"`) {
		t.Errorf("two tools of a name: %v", err)
	}
	_, err := agent.Tools[struct{ Text string }]([]*llm.Tool{echo}, nil)(t.Context(), struct{ Text string }{})
	if err == nil || !strings.Contains(err.Error(), "has no field Messages") {
		t.Errorf("no messages: %v", err)
	}
}

// Parity: 210.
func TestToolsConditionRoutesCalls(t *testing.T) {
	cond := agent.ToolsCondition("tools", treadle.End)
	for want, ms := range map[string]llm.Messages{"tools": calls(say("a")).Messages, treadle.End: {llm.Assistant("no")}} {
		got, err := cond(t.Context(), llm.Chat{Messages: ms})
		if d := cmp.Diff(fmt.Sprint(treadle.To(want)), fmt.Sprint(got)); err != nil || d != "" {
			t.Errorf("leads elsewhere (-want +got), %v:\n%s", err, d)
		}
	}
	if _, err := cond(t.Context(), llm.Chat{}); err == nil {
		t.Error("an empty conversation was accepted")
	}
}

// Parity: 210.
func TestToolReturnsAnyValue(t *testing.T) {
	tool := func(name string, v any) *llm.Tool {
		return llm.NewTool(name, "", func(context.Context, struct{}) (any, error) { return v, nil })
	}
	tools := []*llm.Tool{tool("text", "hi"), tool("number", 7), tool("object", map[string]any{"b": 1, "a": "<x>"}), tool("nothing", nil),
		tool("blocks", []llm.Block{llm.Text("one"), llm.Text("two")}), tool("artifact", llm.ToolOutput{Content: "told", Artifact: 3}),
		tool("message", llm.Message{Content: "mine", Status: llm.StatusError}), tool("no_json", make(chan int)),
		// A message for another call is assigned to this call.
		tool("stray", llm.Message{Role: llm.RoleTool, Content: "x", ToolCallID: "other"})}
	var cs []llm.ToolCall
	for _, tool := range tools {
		cs = append(cs, llmtest.ToolCall(tool.Name, "{}"))
	}
	got := results(t, toolGraph(t, tools, nil), calls(cs...))
	wantLines(t, got, "tool: hi", "tool: 7", `tool: {"a":"<x>","b":1}`, "tool: null", "tool: onetwo", "tool: told", "tool: mine (error)",
		"tool: tool no_json: result cannot be encoded as JSON: json: unsupported type: chan int (error)", "tool: x")
	for i, m := range got {
		if m.ToolCallID != fmt.Sprint("c", i) || m.Name != tools[i].Name {
			t.Errorf("result %d answers %s of %s", i, m.ToolCallID, m.Name)
		}
	}
	if fmt.Sprint(got[5].Artifact) != "3" {
		t.Errorf("artifact = %v", got[5].Artifact)
	}
}

// Parity: 210.
func TestErrorPolicies(t *testing.T) {
	broken := errors.New("broken")
	fails := llm.NewTool("fails", "", func(context.Context, struct {
		N int `json:"n"`
	}) (string, error) {
		return "", broken
	})
	panics := llm.NewTool("panics", "", func(context.Context, struct{}) (string, error) { panic("oh") })
	own := func(_ context.Context, call agent.ToolCall, err error) (string, error) {
		if errors.Is(err, broken) {
			return "sorry about " + call.Name, nil
		}
		return "", err
	}
	n := `{"n":1}`
	for name, tt := range map[string]struct {
		policy func(context.Context, agent.ToolCall, error) (string, error)
		call   llm.ToolCall
		want   string // a result, or
		err    string
	}{
		"returned":            {nil, llmtest.ToolCall("fails", n), "tool: Error: tool fails: broken\n Please fix your mistakes. (error)", ""},
		"panic":               {nil, llmtest.ToolCall("panics", "{}"), "tool: Error: tool panics: panic: oh\n Please fix your mistakes. (error)", ""},
		"arguments":           {nil, llmtest.ToolCall("fails", `{"n":"x"}`), "tool: Error invoking tool 'fails' with kwargs {\"n\":\"x\"} with error:\n validating root: validating /properties/n: type: x has type \"string\", want \"integer\"\n Please fix the error and try again. (error)", ""},
		"raised":              {agent.RaiseToolErrors, llmtest.ToolCall("fails", n), "", "tool fails: broken"},
		"panic raised":        {agent.RaiseToolErrors, llmtest.ToolCall("panics", "{}"), "", "tool panics: panic: oh"},
		"arguments in any":    {agent.RaiseToolErrors, llmtest.ToolCall("fails", "{}"), "tool: Error invoking tool 'fails' with kwargs {} with error:\n validating root: required: missing properties: [\"n\"]\n Please fix the error and try again. (error)", ""},
		"own text":            {own, llmtest.ToolCall("fails", n), "tool: sorry about fails (error)", ""},
		"own choice":          {own, llmtest.ToolCall("panics", "{}"), "", "tool panics: panic: oh"},
		"unknown tool":        {agent.RaiseToolErrors, llmtest.ToolCall("nope", "{}"), "tool: Error: nope is not a valid tool, try one of [fails, panics]. (error)", ""},
		"unknown tool by own": {own, llmtest.ToolCall("nope", "{}"), "tool: Error: nope is not a valid tool, try one of [fails, panics]. (error)", ""},
	} {
		in := calls(tt.call)
		out, err := toolGraph(t, []*llm.Tool{fails, panics}, &agent.ToolOptions{OnToolError: tt.policy}).Run(t.Context(), in)
		switch {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: err = %v", name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		default:
			if d := cmp.Diff([]string{tt.want}, lines(out.Messages[2:])); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		}
	}
	_, err := toolGraph(t, []*llm.Tool{fails}, &agent.ToolOptions{OnToolError: agent.RaiseToolErrors}).Run(t.Context(), calls(llmtest.ToolCall("fails", n)))
	if failed, ok := errors.AsType[*llm.ToolError](err); !ok || failed.CallID != "c0" || !errors.Is(err, broken) {
		t.Errorf("err = %v", err)
	}
}

func TestToolPanicIsLogged(t *testing.T) {
	var log bytes.Buffer
	b := treadle.New[agent.State]("own")
	treadle.AddNode(b, "tools", agent.Tools[agent.State]([]*llm.Tool{
		llm.NewTool("fails", "", func(context.Context, struct{}) (string, error) { return "", errors.New("broken") }),
		llm.NewTool("panics", "", func(context.Context, struct{}) (string, error) { panic("oh") }),
	}, nil))
	b.Edge(treadle.Start, "tools")
	g, err := b.Compile(&treadle.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Run(t.Context(), calls(llmtest.ToolCall("fails", "{}"), llmtest.ToolCall("panics", "{}"))); err != nil {
		t.Fatal(err)
	}
	got := log.String()
	if strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, `msg="tool panicked" tool=panics call=c1`) || !strings.Contains(got, "toolnode_test.go") {
		t.Errorf("log: %s", got)
	}
}

// Parity: 210.
func TestErrorsReturnedToModelAreEvents(t *testing.T) {
	fails := llm.NewTool("fails", "", func(ctx context.Context, _ struct{}) (string, error) {
		treadle.Emit(ctx, "half way")
		return "", errors.New("broken")
	})
	var got []any
	for ev, err := range toolGraph(t, []*llm.Tool{fails}, nil).Stream(t.Context(), calls(llmtest.ToolCall("fails", "{}")), treadle.Modes(treadle.ModeCustom)) {
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := ev.(treadle.Custom); ok {
			got = append(got, c.Value)
		}
	}
	if d := cmp.Diff([]any{"half way", agent.ToolFailed{Tool: "fails", CallID: "c0", Error: "tool fails: broken"}}, got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

// Parity: 210.
func TestWrapToolControlsCall(t *testing.T) {
	wrap := &agent.Middleware{Name: "wrap", WrapTool: func(ctx context.Context, c agent.ToolCall, next agent.ToolFunc) (any, error) {
		switch {
		case c.Tool == nil:
			return "made up for " + c.Name, nil // a tool that only the wrapper provides
		case strings.Contains(string(c.Args), "cached"):
			return "from the cache", nil
		case strings.Contains(string(c.Args), "bad"):
			return nil, errors.New("the wrapper failed")
		}
		c.Args = []byte(`{"text":"rewritten"}`)
		if _, err := next(ctx, c); err != nil {
			return nil, err
		}
		return next(ctx, c)
	}}
	model := llmtest.Scripted(t, llmtest.Ask(say("a"), say("cached"), say("bad"), llmtest.ToolCall("ghost", "{}")), llmtest.Say("ok"))
	out := run(t, model, with(wrap), "go")
	wantLines(t, out.Messages[2:], "tool: rewritten", "tool: from the cache", "tool: Error: the wrapper failed\n Please fix your mistakes. (error)", "tool: made up for ghost", "ai: ok")
}

type noted struct {
	llm.Chat
	Notes reduce.List[string] `json:"notes"`
	Mood  string              `json:"mood"`
}

// command returns a tool whose result is a command that also contains the tool result.
func command(name string, cmd func(call llm.ToolCall) treadle.Command[treadle.Update]) *llm.Tool {
	return llm.NewTool(name, "", func(ctx context.Context, _ struct{}) (treadle.Command[treadle.Update], error) {
		call, _ := llm.CallFrom(ctx)
		return cmd(call), nil
	})
}

func update(call llm.ToolCall, fields treadle.Update) treadle.Command[treadle.Update] {
	fields["messages"] = llm.Messages{llm.ToolResult(call, "did "+call.Name)}
	return treadle.Command[treadle.Update]{Update: &fields}
}

// Parity: 210.
func TestCommandsAndResultsMix(t *testing.T) {
	note := command("note", func(c llm.ToolCall) treadle.Command[treadle.Update] {
		return update(c, treadle.Update{"notes": []string{"note of " + c.ID}})
	})
	mood := command("mood", func(c llm.ToolCall) treadle.Command[treadle.Update] { return update(c, treadle.Update{"mood": "fine"}) })
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("note", "{}"), say("a"), llmtest.ToolCall("mood", "{}"), say("b"), llmtest.ToolCall("note", "{}")), llmtest.Say("ok"))
	a, err := agent.For[noted](model, &agent.Options{Tools: []*llm.Tool{note, mood, echo}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Run(t.Context(), noted{Chat: llm.Chat{Messages: llm.Messages{llm.User("go")}}})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages[2:], "tool: did note", "tool: a", "tool: did mood", "tool: b", "tool: did note", "ai: ok")
	if d := cmp.Diff(noted{Notes: reduce.List[string]{"note of call_1", "note of call_5"}, Mood: "fine"}, noted{Notes: out.Notes, Mood: out.Mood}); d != "" {
		t.Errorf("state (-want +got):\n%s", d)
	}
}

// counted counts how often it is encoded.
type counted struct {
	N     int
	times *atomic.Int32
}

func (c counted) MarshalJSON() ([]byte, error) {
	c.times.Add(1)
	return fmt.Appendf(nil, `{"N":%d}`, c.N), nil
}

type counting struct {
	llm.Chat
	Count counted `json:"count"`
}

// A value of the field's type reaches the state without a detour through JSON; any other value
// whose JSON has the form of the field is converted.
func TestCommandKeepsTypedValues(t *testing.T) {
	var times atomic.Int32
	typed := command("typed", func(c llm.ToolCall) treadle.Command[treadle.Update] {
		return update(c, treadle.Update{"Count": counted{1, &times}})
	})
	loose := command("loose", func(c llm.ToolCall) treadle.Command[treadle.Update] {
		return update(c, treadle.Update{"count": map[string]int{"N": 2}})
	})
	unchecked := new(bool) // the check encodes values
	for name, want := range map[string]int{"typed": 1, "loose": 2} {
		model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall(name, "{}")), llmtest.Say("ok"))
		a, err := agent.For[counting](model, &agent.Options{Tools: []*llm.Tool{typed, loose}, Graph: treadle.Options{Check: unchecked}})
		if err != nil {
			t.Fatal(err)
		}
		out, err := a.Run(t.Context(), counting{Chat: llm.Chat{Messages: llm.Messages{llm.User("go")}}, Count: counted{0, &times}})
		if err != nil || out.Count.N != want || times.Load() != 0 {
			t.Errorf("%s: %+v, encoded %d times (%v)", name, out.Count, times.Load(), err)
		}
	}
}

// Parity: 210.
func TestCommandWithUnknownFieldFails(t *testing.T) {
	wrong := command("wrong", func(c llm.ToolCall) treadle.Command[treadle.Update] {
		return update(c, treadle.Update{"moood": "fine"})
	})
	_, err := toolGraph(t, []*llm.Tool{wrong}, nil).Run(t.Context(), calls(llmtest.ToolCall("wrong", "{}")))
	if err == nil || !strings.Contains(err.Error(), "moood") {
		t.Errorf("err = %v", err)
	}
}

// Parity: 210.
func TestListOfCommandsIsRejected(t *testing.T) {
	several := llm.NewTool("several", "", func(context.Context, struct{}) ([]any, error) {
		return []any{"text", treadle.Command[treadle.Update]{}}, nil
	})
	_, err := toolGraph(t, []*llm.Tool{several}, nil).Run(t.Context(), calls(llmtest.ToolCall("several", "{}")))
	if err == nil || !strings.Contains(err.Error(), "tool several: returned a list of commands") {
		t.Errorf("err = %v", err)
	}
}

// Parity: 210.
func TestCommandGotoFromTool(t *testing.T) {
	leave := command("leave", func(c llm.ToolCall) treadle.Command[treadle.Update] {
		cmd := update(c, treadle.Update{})
		cmd.Goto = treadle.To("porch")
		return cmd
	})
	b := treadle.New[agent.State]("house")
	treadle.AddNode(b, "tools", agent.Tools[agent.State]([]*llm.Tool{leave, echo}, nil), treadle.Destinations("porch"))
	treadle.AddNode(b, "porch", func(context.Context, agent.State) (llm.Chat, error) {
		return llm.Chat{Messages: llm.Messages{llm.Assistant("on the porch")}}, nil
	})
	b.Edge(treadle.Start, "tools")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, results(t, g, calls(say("a"), llmtest.ToolCall("leave", "{}"))), "tool: a", "tool: did leave", "ai: on the porch")
}

// Parity: 210.
func TestCommandClearsConversation(t *testing.T) {
	forget := command("forget", func(llm.ToolCall) treadle.Command[treadle.Update] {
		return treadle.Command[treadle.Update]{Update: &treadle.Update{"messages": llm.Messages{llm.RemoveAll()}}}
	})
	in := calls(llmtest.ToolCall("forget", "{}"))
	out, err := toolGraph(t, []*llm.Tool{forget}, nil).Run(t.Context(), in)
	if err != nil || len(out.Messages) != 0 {
		t.Errorf("messages = %q, %v", lines(out.Messages), err)
	}
}

func TestClearingRemovesOtherResults(t *testing.T) {
	forget := command("forget", func(llm.ToolCall) treadle.Command[treadle.Update] {
		return treadle.Command[treadle.Update]{Update: &treadle.Update{"messages": llm.Messages{llm.RemoveAll(), llm.User("start over")}}}
	})
	forgets := llmtest.ToolCall("forget", "{}")
	for name, turn := range map[string][]llm.ToolCall{"before": {forgets, say("a")}, "after": {say("a"), forgets}} {
		t.Run(name, func(t *testing.T) {
			out, err := toolGraph(t, []*llm.Tool{forget, echo}, nil).Run(t.Context(), calls(turn...))
			if err != nil {
				t.Fatal(err)
			}
			wantLines(t, out.Messages, "human: start over")
		})
	}
}

// team returns two specialists and an agent that hands off to them.
func team(t *testing.T, hand ...llm.ToolCall) noted {
	t.Helper()
	tools := []*llm.Tool{echo}
	for _, who := range []string{"ann", "bob"} {
		tools = append(tools, agent.Handoff(who, &agent.HandoffOptions{Update: treadle.Update{"notes": []string{"handed off"}}}),
			agent.Handoff(who, &agent.HandoffOptions{Name: "only_" + who, Update: treadle.Update{"mood": who}}))
	}
	front, err := agent.For[noted](llmtest.Scripted(t, llmtest.Ask(hand...)), &agent.Options{Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	b := treadle.New[noted]("team")
	treadle.AddGraph(b, "front", front, treadle.Destinations("ann", "bob"))
	for _, who := range []string{"ann", "bob"} {
		treadle.AddNode(b, who, func(_ context.Context, s noted) (llm.Chat, error) {
			if err := llm.Check(s.Messages); err != nil {
				return llm.Chat{}, err
			}
			return llm.Chat{Messages: llm.Messages{llm.Assistant(who + " here")}}, nil
		})
	}
	b.Edge(treadle.Start, "front")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Run(t.Context(), noted{Chat: llm.Chat{Messages: llm.Messages{llm.User("go")}}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Parity: 210.
func TestHandoffsKeepOtherResults(t *testing.T) {
	out := team(t, say("a"), llmtest.ToolCall("transfer_to_ann", "{}"), say("b"), llmtest.ToolCall("transfer_to_bob", "{}"))
	wantLines(t, out.Messages[2:], "tool: a", "tool: Successfully transferred to ann", "tool: b", "tool: Successfully transferred to bob", "ai: ann here", "ai: bob here")
	if d := cmp.Diff(reduce.List[string]{"handed off"}, out.Notes); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
}

// Parity: 210.
func TestConflictingHandoffsKeepFirst(t *testing.T) {
	out := team(t, llmtest.ToolCall("only_ann", "{}"), llmtest.ToolCall("only_bob", "{}"))
	wantLines(t, out.Messages[2:], "tool: Successfully transferred to ann", "tool: only one handoff at a time can set mood; this one was not made (error)", "ai: ann here")
	if out.Mood != "ann" {
		t.Errorf("mood = %q", out.Mood)
	}
}

// Each call has its own result and decision, even if the model gave several calls the same
// ID.
//
// Parity: 210.
func TestToolCallsWithMissingOrDuplicateIDs(t *testing.T) {
	thread := made(t, llmtest.Scripted(t, llmtest.Turn{Chunks: []llm.Chunk{{ID: "m", ToolCalls: []llm.ToolCallChunk{
		{Index: new(0), ID: "same", Name: "echo", Args: `{"text":"a"}`},
		{Index: new(1), ID: "same", Name: "echo", Args: `{"text":"b"}`},
		{Index: new(2), Name: "echo", Args: `{"text":"c"}`},
	}}}}, llmtest.Say("ok")), with(agent.Gates(agent.Gate{Tool: "echo"}))).Thread("1")
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	asked(t, err)
	out, err := thread.Resume(t.Context(), agent.Decisions{{Type: agent.Approve}, {Type: agent.Reject}, {Type: agent.Edit, Edited: &agent.Action{Name: "echo", Args: say("d").Args}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range out.Messages[2:5] {
		got = append(got, m.ToolCallID+" "+m.Text())
	}
	want := []string{"m_1 User rejected the tool call for `echo` with id m_1. The tool was not executed. Do not retry this tool call unless the user explicitly requests it.", "same a", "m_2 d"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
}
