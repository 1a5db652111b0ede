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
	"github.com/treadle-go/treadle/store"
)

// run asks an agent a question and returns its state.
func run(t *testing.T, model llm.Model, o *agent.Options, question string) agent.State {
	t.Helper()
	out, err := made(t, model, o).Run(t.Context(), agent.Ask(question))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Parity: 209.
func TestPromptPrecedesConversation(t *testing.T) {
	shout := agent.Prompt(func(_ context.Context, s agent.State, prompt string) (string, error) {
		return fmt.Sprintf("%s There are %d messages.", prompt, len(s.Messages)), nil
	})
	for _, tt := range map[string]struct {
		o    *agent.Options
		want []llm.Message
	}{
		"none":     {nil, []llm.Message{llm.User("hi")}},
		"text":     {&agent.Options{Prompt: "Be brief."}, []llm.Message{llm.System("Be brief."), llm.User("hi")}},
		"computed": {&agent.Options{Prompt: "Be brief.", Middleware: []*agent.Middleware{shout}}, []llm.Message{llm.System("Be brief. There are 1 messages."), llm.User("hi")}},
	} {
		out := run(t, llmtest.Scripted(t, llmtest.Say("ok", llmtest.Heard(tt.want...))), tt.o, "hi")
		wantLines(t, out.Messages, "human: hi", "ai: ok") // the prompt is not part of the conversation
	}
}

// Parity: 209.
func TestPromptRejectsOtherStateType(t *testing.T) {
	other := agent.Prompt(func(context.Context, user, string) (string, error) { return "", nil })
	failing := agent.Prompt(func(context.Context, agent.State, string) (string, error) { return "", errors.New("no prompt today") })
	for want, m := range map[string]*agent.Middleware{"which is not the type of the agent's state": other, "no prompt today": failing} {
		_, err := made(t, llmtest.NewScript(), &agent.Options{Middleware: []*agent.Middleware{m}}).Run(t.Context(), agent.Ask("hi"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q", err, want)
		}
	}
}

// Parity: 209.
func TestNewReportsInvalidOptions(t *testing.T) {
	m := &agent.Middleware{Name: "twice"}
	for want, o := range map[string]*agent.Options{
		`duplicate tool name "echo"`:        {Tools: []*llm.Tool{echo, echo}},
		"nil tool at index 1":               {Tools: []*llm.Tool{echo, nil}},
		`middleware "twice" listed twice`:   {Middleware: []*agent.Middleware{m, m}},
		`invalid name "a b"`:                {Middleware: []*agent.Middleware{{Name: "a b"}}},
		"nil middleware at index 0":         {Middleware: []*agent.Middleware{nil}},
		`duplicate tool name "write_todos"`: {Tools: []*llm.Tool{named("write_todos")}, Middleware: []*agent.Middleware{agent.Todos()}},
		`invalid name "redact_my kind" of middleware at index 0: use letters`: {Middleware: []*agent.Middleware{agent.Redact(&agent.RedactOptions{Find: []agent.PII{{Name: "my kind"}}})}},
	} {
		if _, err := agent.New(llmtest.NewScript(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q", err, want)
		}
	}
	if _, err := agent.New(nil, nil); err == nil || !strings.Contains(err.Error(), "nil model") {
		t.Errorf("err = %v", err)
	}
	if _, err := agent.For[struct{ Text string }](llmtest.NewScript(), nil); err == nil || !strings.Contains(err.Error(), "embed llm.Chat") {
		t.Errorf("err = %v", err)
	}
}

// Parity: 209.
func TestProviderToolsAreOfferedAndNotRun(t *testing.T) {
	search := &llm.Tool{Name: "web", Extra: map[string]any{"type": "web_search"}}
	call := llm.ToolCall{ID: "w", Name: "web"}
	model := llmtest.Scripted(t, llmtest.Turn{Message: llm.Assistant("found", call), Expect: []func(*llm.Request) error{llmtest.Offered("web", "echo")}})
	out := run(t, model, &agent.Options{Tools: []*llm.Tool{search, echo}}, "hi")
	wantLines(t, out.Messages, "human: hi", "ai: found [web {}]")
}

// Parity: 209.
func TestMessagesCarryAgentName(t *testing.T) {
	out := run(t, llmtest.Scripted(t, llmtest.Say("hello")), &agent.Options{Name: "bob"}, "hi")
	if got := out.Messages[1].Name; got != "bob" {
		t.Errorf("name = %q", got)
	}
}

// Parity: 209.
func TestResponseUsesOtherModelAndPrompt(t *testing.T) {
	type report struct {
		Sky string `json:"sky"`
	}
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("get_weather", city{"Rome"})), llmtest.Say("It rains."))
	formatter := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("report", `{"sky":"grey"}`)))
	out := run(t, model, &agent.Options{Prompt: "Be brief.", Tools: []*llm.Tool{getWeather}, Response: agent.NewResponse[report]("Report.", formatter)}, "weather?")
	if r, err := agent.ResponseAs[report](out); err != nil || r.Sky != "grey" {
		t.Errorf("response = %+v, %v", r, err)
	}
	wantLines(t, formatter.Requests()[0].Messages, "system: Report.", "human: weather?", `ai:  [get_weather {"location":"Rome"}]`, "tool: It's rainy!", "ai: It rains.")
	if last := out.Messages[len(out.Messages)-1].Text(); last != "It rains." {
		t.Errorf("the structured answer is among the messages: %q", last)
	}
	if _, err := agent.ResponseAs[report](agent.State{}); err == nil {
		t.Error("unexpected structured response")
	}
}

// Parity: 209.
func TestResultsFollowCallOrder(t *testing.T) {
	second := make(chan struct{})
	slow := llm.NewTool("slow", "", func(context.Context, struct{}) (string, error) { <-second; return "slow", nil })
	fast := llm.NewTool("fast", "", func(context.Context, struct{}) (string, error) { defer close(second); return "fast", nil })
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("slow", "{}"), llmtest.ToolCall("fast", "{}")), llmtest.Say("ok"))
	out := run(t, model, &agent.Options{Tools: []*llm.Tool{slow, fast}}, "go")
	wantLines(t, out.Messages, "human: go", "ai:  [slow {}] [fast {}]", "tool: slow", "tool: fast", "ai: ok")
}

// Parity: 209.
func TestDirectResultEndsAgent(t *testing.T) {
	direct := llm.NewTool("direct", "", func(_ context.Context, in struct {
		Fail bool `json:"fail"`
	}) (string, error) {
		if in.Fail {
			return "", errors.New("no")
		}
		return "the answer", nil
	})
	direct.ReturnDirect = true
	tools := []*llm.Tool{direct, echo}
	out := run(t, llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("direct", `{"fail":false}`))), &agent.Options{Tools: tools}, "go")
	wantLines(t, out.Messages, "human: go", `ai:  [direct {"fail":false}]`, "tool: the answer")

	out = run(t, llmtest.Scripted(t, llmtest.Ask(say("a"), llmtest.ToolCall("direct", `{"fail":false}`))), &agent.Options{Tools: tools}, "go")
	wantLines(t, out.Messages[2:], "tool: a", "tool: the answer")

	// A failure is for the model, and other tools lead back to it as ever.
	out = run(t, llmtest.Scripted(t, llmtest.Ask(say("a")), llmtest.Ask(llmtest.ToolCall("direct", `{"fail":true}`)), llmtest.Say("sorry")), &agent.Options{Tools: tools}, "go")
	wantLines(t, out.Messages[2:], "tool: a", `ai:  [direct {"fail":true}]`, "tool: Error: tool direct: no\n Please fix your mistakes. (error)", "ai: sorry")
}

// Parity: 209.
func TestGraphAsToolStreamsAndInterrupts(t *testing.T) {
	expert := made(t, llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("confirm", "{}")), llmtest.Say("Owls hoot.")), &agent.Options{Name: "expert",
		Tools: []*llm.Tool{llm.NewTool("confirm", "", func(ctx context.Context, _ struct{}) (string, error) {
			return treadle.Interrupt[string](ctx, "may I look it up?")
		})}})
	ask := llm.NewTool("ask_expert", "", func(ctx context.Context, in struct {
		Question string `json:"question"`
	}) (string, error) {
		out, err := expert.Run(ctx, agent.Ask(in.Question))
		return agent.Answer(out), err
	})
	thread := made(t, llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("ask_expert", `{"question":"owls?"}`), say("x")), llmtest.Say("They hoot.")),
		&agent.Options{Tools: []*llm.Tool{ask, echo}, Graph: memory()}).Thread("1")
	_, err := thread.Run(t.Context(), agent.Ask("What do owls do?"))
	var q string
	if err := asked(t, err).Decode(&q); err != nil || q != "may I look it up?" {
		t.Fatalf("question = %q, %v", q, err)
	}
	said := map[string]string{}
	var out agent.State
	for ev, err := range thread.ResumeStream(t.Context(), "yes", treadle.Modes(treadle.ModeMessages)) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev := ev.(type) {
		case treadle.Token:
			if c, ok := ev.Chunk.(llm.Chunk); ok {
				said[fmt.Sprint(len(ev.Namespace) > 0)] += c.Content
			}
		case treadle.Finished[agent.State]:
			out = ev.Output
		}
	}
	if d := cmp.Diff(map[string]string{"true": "Owls hoot.", "false": "They hoot."}, said); d != "" {
		t.Errorf("streamed, by whether it is nested (-want +got):\n%s", d)
	}
	wantLines(t, out.Messages, "human: What do owls do?", `ai:  [ask_expert {"question":"owls?"}] [echo {"text":"x"}]`, "tool: Owls hoot.", "tool: x", "ai: They hoot.")
}

// A wrapper changes the model's input, not the saved conversation.
//
// Parity: 209.
func TestBeforeModelHookChangesModelInput(t *testing.T) {
	last := &agent.Middleware{Name: "last", WrapModel: func(ctx context.Context, c agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
		c.Messages = c.Messages[len(c.Messages)-1:]
		return next(ctx, c)
	}}
	model := llmtest.Scripted(t, llmtest.Say("ok", llmtest.Heard(llm.User("new"))))
	out, err := made(t, model, &agent.Options{Middleware: []*agent.Middleware{last}}).Run(t.Context(), chat(llm.User("old"), llm.Assistant("yes"), llm.User("new")))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: old", "ai: yes", "human: new", "ai: ok")

	// And a hook that rewrites the conversation does so for good.
	drop := &agent.Middleware{Name: "drop", BeforeModel: agent.NewHook(func(_ context.Context, c llm.Chat) (llm.Chat, error) {
		return llm.Chat{Messages: llm.Messages{llm.RemoveAll(), c.Messages[len(c.Messages)-1]}}, nil
	})}
	out, err = made(t, llmtest.Scripted(t, llmtest.Say("ok", llmtest.Heard(llm.User("new")))), &agent.Options{Middleware: []*agent.Middleware{drop}}).
		Run(t.Context(), chat(llm.User("old"), llm.Assistant("yes"), llm.User("new")))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: new", "ai: ok")
}

// Parity: 209.
func TestAfterModelHookHandlesCalls(t *testing.T) {
	type redo struct {
		agent.Detour
		Messages llm.Messages
	}
	guard := &agent.Middleware{Name: "guard", AfterModel: agent.NewHook(func(_ context.Context, c llm.Chat) (redo, error) {
		m := c.Messages[len(c.Messages)-1]
		switch {
		case strings.Contains(m.Text(), "damn"):
			return redo{agent.Detour{JumpTo: agent.JumpModel}, llm.Messages{llm.Remove(m.ID), llm.User("Politely, please.")}}, nil
		case len(m.ToolCalls) > 0:
			return redo{Messages: llm.Messages{llm.ToolResult(m.ToolCalls[0], "from the guard")}}, nil
		}
		return redo{}, nil
	}, agent.JumpModel)}
	model := llmtest.Scripted(t, llmtest.Say("damn"), llmtest.Ask(say("a")), llmtest.Ask(say("b"), say("c")), llmtest.Say("Thank you."))
	out := run(t, model, with(guard), "hi")
	wantLines(t, out.Messages, "human: hi", "human: Politely, please.", `ai:  [echo {"text":"a"}]`, "tool: from the guard",
		`ai:  [echo {"text":"b"}] [echo {"text":"c"}]`, "tool: from the guard", "tool: c", "ai: Thank you.")
}

// An agent ended by a hook produces no structured response, which would be another model
// call.
//
// Parity: 209.
func TestLimitSkipsStructuredResponse(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Ask(say("a")))
	ended := false
	type nothing struct{}
	after := &agent.Middleware{Name: "after", AfterAgent: agent.NewHook(func(context.Context, llm.Chat) (*nothing, error) { ended = true; return nil, nil })}
	o := with(agent.LimitModelCalls(agent.Limit{Run: 1}), after)
	o.Response = agent.NewResponse[city]("", nil)
	if out := run(t, model, o, "go"); out.Response != nil || !ended {
		t.Errorf("response = %s, and the hook after the agent ran: %v", out.Response, ended)
	}
}

// A tool provided only by middleware is offered to the model and run by the wrapper.
//
// Parity: 209, 210.
func TestMiddlewareAddsToolsPerCall(t *testing.T) {
	m := &agent.Middleware{Name: "dynamic",
		WrapModel: func(ctx context.Context, c agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
			c.Tools = append(slices.Clip(c.Tools), echo)
			return next(ctx, c)
		},
		WrapTool: func(ctx context.Context, c agent.ToolCall, next agent.ToolFunc) (any, error) {
			if c.Tool == nil && c.Name == "echo" {
				c.Tool = echo
			}
			return next(ctx, c)
		}}
	call := say("dynamic")
	model := llmtest.Scripted(t, llmtest.Turn{Message: llm.Assistant("", call), Expect: []func(*llm.Request) error{llmtest.Offered("echo")}}, llmtest.Say("ok"))
	out := run(t, model, &agent.Options{Middleware: []*agent.Middleware{m}}, "go")
	wantLines(t, out.Messages[2:], "tool: dynamic", "ai: ok")
}

// Parity: 209.
func TestInvalidJumpNamesHook(t *testing.T) {
	type leave struct{ agent.Detour }
	to := func(j agent.Jump) *agent.Middleware {
		return &agent.Middleware{Name: "astray", BeforeModel: agent.NewHook(func(context.Context, llm.Chat) (leave, error) {
			return leave{agent.Detour{JumpTo: j}}, nil
		}, agent.JumpEnd)}
	}
	for want, j := range map[string]agent.Jump{"astray.before_model: invalid jump \"moon\"": "moon", "jumps to the tools, but the agent has no tools": agent.JumpTools} {
		_, err := made(t, llmtest.NewScript(), &agent.Options{Middleware: []*agent.Middleware{to(j)}}).Run(t.Context(), agent.Ask("hi"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q", err, want)
		}
	}
}

// Parity: 209.
func TestModelDependsOnState(t *testing.T) {
	small, big := llmtest.Scripted(t, llmtest.Ask(say("x"))), llmtest.Scripted(t, llmtest.Say("big answers", llmtest.Offered("echo")))
	pick := &agent.Middleware{Name: "pick", WrapModel: func(ctx context.Context, c agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
		if s, _ := llm.StateFrom[agent.State](ctx); len(s.Messages) > 2 {
			c.Model, c.Tools = big, c.Tools[:1]
		}
		return next(ctx, c)
	}}
	if out := run(t, small, with(pick), "hi"); agent.Answer(out) != "big answers" {
		t.Errorf("answer = %q", agent.Answer(out))
	}
}

// Parity: 209.
func TestAgentApologizesWhenOutOfSteps(t *testing.T) {
	// The third step asks the model; the fourth could run its tools, but nobody
	// would be left to read their results.
	model := llmtest.Scripted(t, llmtest.Ask(say("a")), llmtest.Ask(say("b")))
	out := run(t, model, &agent.Options{Tools: []*llm.Tool{echo}, Graph: treadle.Options{StepLimit: 4}}, "go")
	wantLines(t, out.Messages, "human: go", `ai:  [echo {"text":"a"}]`, "tool: a", "ai: Sorry, need more steps to process this request.")
	out = run(t, llmtest.Scripted(t, llmtest.Ask(say("a")), llmtest.Say("done")), &agent.Options{Tools: []*llm.Tool{echo}, Graph: treadle.Options{StepLimit: 4}}, "go")
	if got := agent.Answer(out); got != "done" {
		t.Errorf("with the steps that it needs: %q", got)
	}
}

// By default, an agent takes at most a hundred steps, so that an endless loop ends.
func TestAgentTakesHundredSteps(t *testing.T) {
	var turns []llmtest.Turn
	for range 50 {
		turns = append(turns, llmtest.Ask(say("again")))
	}
	out := run(t, llmtest.Scripted(t, turns...), &agent.Options{Tools: []*llm.Tool{echo}}, "go")
	if got := agent.Answer(out); len(out.Messages) != 100 || got != "Sorry, need more steps to process this request." {
		t.Errorf("%d messages, the last is %q", len(out.Messages), got)
	}
}

// Parity: 209.
func TestAgentContinuesThread(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("Hello Ada."), llmtest.Say("Ada.", llmtest.Heard(llm.User("I am Ada."), llm.Assistant("Hello Ada."), llm.User("Who am I?"))))
	a := made(t, model, &agent.Options{Graph: memory()})
	for _, text := range []string{"I am Ada.", "Who am I?"} {
		if _, err := a.Thread("1").Run(t.Context(), agent.Ask(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// Parity: 209.
func TestAgentStopsBeforeTools(t *testing.T) {
	o := with()
	o.Graph.Before = []any{"tools"}
	thread := made(t, llmtest.Scripted(t, llmtest.Ask(say("a"))), o).Thread("1")
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	if stop, ok := errors.AsType[*treadle.InterruptError](err); !ok || !cmp.Equal(stop.Before, []string{"tools"}) {
		t.Fatalf("err = %v", err)
	}
	snap, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var s agent.State
	if err := snap.Read(&s); err != nil {
		t.Fatal(err)
	}
	// Another writer changes the call in the meantime.
	m := s.Messages[1]
	m.ToolCalls = []llm.ToolCall{{ID: m.ToolCalls[0].ID, Name: "echo", Args: json.RawMessage(`{"text":"b"}`)}}
	_, err = thread.Update(t.Context(), llm.Chat{Messages: llm.Messages{m}}, treadle.AsNode("model"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := made(t, llmtest.Scripted(t, llmtest.Say("ok")), &agent.Options{Tools: o.Tools, Graph: treadle.Options{Saver: o.Graph.Saver}}).Thread("1").Continue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: go", `ai:  [echo {"text":"b"}]`, "tool: b", "ai: ok")
}

// What a tool needs of the run is in its context, and no model sees it.
//
// Parity: 209, 210.
func TestToolsReadStateStoreAndCall(t *testing.T) {
	tool := llm.NewTool("who", "", func(ctx context.Context, in struct {
		Polite bool `json:"polite"`
	}) (string, error) {
		s, _ := llm.StateFrom[user](ctx)
		call, _ := llm.CallFrom(ctx)
		item, err := treadle.StoreFrom(ctx).Get(ctx, store.Namespace{"names"}, "ada", nil)
		if err != nil {
			return "", err
		}
		var name map[string]string
		if err := json.Unmarshal(item.Value, &name); err != nil {
			return "", err
		}
		return fmt.Sprint(s.UserInfo, " ", call.ID, " ", name["name"]), nil
	})
	raw, err := json.Marshal(tool.Parameters)
	if err != nil || string(raw) != `{"type":"object","properties":{"polite":{"type":"boolean"}},"required":["polite"],"additionalProperties":false}` {
		t.Errorf("parameters = %s, %v", raw, err)
	}
	names, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := names.Put(t.Context(), store.Namespace{"names"}, "ada", map[string]string{"name": "Ada Lovelace"}, nil); err != nil {
		t.Fatal(err)
	}
	model := llmtest.Scripted(t,
		// The model cannot supply the state: it is not an argument.
		llmtest.Ask(llmtest.ToolCall("who", `{"polite":true,"state":{"user_info":"root"}}`)),
		llmtest.Ask(llmtest.ToolCall("who", `{"polite":true}`)), llmtest.Say("ok"))
	a, err := agent.For[user](model, &agent.Options{Tools: []*llm.Tool{tool}, Graph: treadle.Options{Store: names}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Run(t.Context(), user{Chat: llm.Chat{Messages: llm.Messages{llm.User("who?")}}, UserInfo: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	got := lines(out.Messages)
	if !strings.Contains(got[2], `unexpected additional properties ["state"]`) || got[4] != "tool: ada call_2 Ada Lovelace" {
		t.Errorf("results = %q and %q", got[2], got[4])
	}
}

// A thread with calls without results can be continued.
//
// Parity: 209.
func TestIncompleteInputIsRepaired(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("ok"))
	_, err := made(t, model, with()).Run(t.Context(), chat(llm.User("a"), llm.Assistant("", llm.ToolCall{ID: "1", Name: "echo"}), llm.User("b")))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, model.Requests()[0].Messages, "human: a", "ai:  [echo ]", "tool: The call has no result: it was canceled or did not finish. (error)", "human: b")
}
