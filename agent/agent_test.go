package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

type city struct {
	Location string `json:"location"`
}

func weather(_ context.Context, in city) (string, error) {
	if strings.Contains(strings.ToLower(in.Location), "san francisco") {
		return "It's sunny!", nil
	}
	return "It's rainy!", nil
}

var getWeather = llm.NewTool("get_weather", "The weather in a place.", weather)

// lines returns one line per message.
func lines(ms llm.Messages) []string {
	var out []string
	for _, m := range ms {
		line := string(m.Role) + ": " + m.Text()
		for _, c := range m.ToolCalls {
			line += fmt.Sprintf(" [%s %s]", c.Name, c.Args)
		}
		if m.Status == llm.StatusError {
			line += " (error)"
		}
		out = append(out, line)
	}
	return out
}

func wantLines(t *testing.T, ms llm.Messages, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, lines(ms)); d != "" {
		t.Errorf("messages (-want +got):\n%s", d)
	}
}

func TestAgentCallsToolsUntilAnswer(t *testing.T) {
	model := llmtest.Scripted(t,
		llmtest.Ask(llmtest.ToolCall("get_weather", city{"San Francisco"}), llmtest.ToolCall("get_weather", city{"Boston"})),
		llmtest.Say("Sunny there, rainy here."))
	a, err := agent.New(model, &agent.Options{Prompt: "Be brief.", Tools: []*llm.Tool{getWeather}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Run(t.Context(), agent.Ask("SF and Boston?"))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages,
		"human: SF and Boston?",
		`ai:  [get_weather {"location":"San Francisco"}] [get_weather {"location":"Boston"}]`,
		"tool: It's sunny!",
		"tool: It's rainy!",
		"ai: Sunny there, rainy here.")
	if got := agent.Answer(out); got != "Sunny there, rainy here." {
		t.Errorf("Answer = %q", got)
	}
	first := model.Requests()[0]
	if first.Messages[0].Role != llm.RoleSystem || first.Messages[0].Text() != "Be brief." {
		t.Errorf("the model was not given the prompt: %v", lines(first.Messages))
	}
}

func TestInterruptDoesNotRerunSiblingCalls(t *testing.T) {
	ran := 0
	count := llm.NewTool("count", "", func(context.Context, struct{}) (int, error) { ran++; return ran, nil })
	ask := llm.NewTool("ask", "", func(ctx context.Context, _ struct{}) (string, error) {
		return treadle.Interrupt[string](ctx, "sure?")
	})
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("count", "{}"), llmtest.ToolCall("ask", "{}")), llmtest.Say("done"))
	a, err := agent.New(model, &agent.Options{Tools: []*llm.Tool{count, ask}, Graph: treadle.Options{Saver: checkpoint.NewMemory()}})
	if err != nil {
		t.Fatal(err)
	}
	thread := a.Thread("1")
	_, err = thread.Run(t.Context(), agent.Ask("go"))
	if _, ok := errors.AsType[*treadle.InterruptError](err); !ok {
		t.Fatalf("want a question, got %v", err)
	}
	out, err := thread.Resume(t.Context(), "yes")
	if err != nil {
		t.Fatal(err)
	}
	if ran != 1 {
		t.Errorf("the sibling ran %d times", ran)
	}
	wantLines(t, out.Messages, "human: go", "ai:  [count {}] [ask {}]", "tool: 1", "tool: yes", "ai: done")
}

// Days pass in virtual time.
func TestToolSleepsAndWaitsForSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ordered := 0
		order := llm.NewTool("order", "", func(ctx context.Context, _ struct{}) (string, error) {
			if _, err := treadle.Do(ctx, "order", func(context.Context) (int, error) { ordered++; return ordered, nil }); err != nil {
				return "", err
			}
			if err := treadle.Sleep(ctx, 72*time.Hour); err != nil {
				return "", err
			}
			return treadle.WaitFor[string](ctx, "delivered", nil)
		})
		model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("order", "{}")), llmtest.Say("It is here."))
		a, err := agent.New(model, &agent.Options{Tools: []*llm.Tool{order}, Graph: treadle.Options{Saver: checkpoint.NewMemory()}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		woken := make(chan error, 1)
		go func() { woken <- treadle.Wake(ctx, a) }()
		thread := a.Thread("1")
		_, err = thread.Run(t.Context(), agent.Ask("a lamp"))
		if asked, ok := errors.AsType[*treadle.InterruptError](err); !ok || time.Until(asked.Pauses[0].Due) != 72*time.Hour {
			t.Fatalf("want a sleep of three days, got %v", err)
		}
		time.Sleep(96 * time.Hour) //nolint:forbidigo // the time of synctest
		if err := thread.Signal(t.Context(), "delivered", "by Ann"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the time of synctest
		var state agent.State
		snap, err := thread.State(t.Context())
		if err == nil {
			err = snap.State.Read(&state)
		}
		if err != nil {
			t.Fatal(err)
		}
		wantLines(t, state.Messages, "human: a lamp", "ai:  [order {}]", "tool: by Ann", "ai: It is here.")
		if ordered != 1 {
			t.Errorf("it was ordered %d times", ordered)
		}
		stop()
		if err := <-woken; err != nil {
			t.Error(err)
		}
	})
}

func TestHandoffCarriesSiblingResults(t *testing.T) {
	alice, err := agent.New(llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("get_weather", city{"Rome"}), llmtest.ToolCall("transfer_to_bob", "{}"))),
		&agent.Options{Name: "alice", Tools: []*llm.Tool{getWeather, agent.Handoff("bob", nil)}})
	if err != nil {
		t.Fatal(err)
	}
	bob, err := agent.New(llmtest.Scripted(t, llmtest.Say("Bob here.")), &agent.Options{Name: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	b := treadle.New[agent.State]("team")
	treadle.AddGraph(b, "alice", alice, treadle.Destinations("bob"))
	treadle.AddGraph(b, "bob", bob)
	b.Edge(treadle.Start, "alice")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Run(t.Context(), agent.Ask("hi"))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: hi", `ai:  [get_weather {"location":"Rome"}] [transfer_to_bob {}]`,
		"tool: It's rainy!", "tool: Successfully transferred to bob", "ai: Bob here.")
}

type user struct {
	llm.Chat
	UserInfo string `json:"user_info"`
}

func TestToolUpdatesState(t *testing.T) {
	type update struct {
		UserInfo string
		Messages llm.Messages
	}
	lookup := llm.NewTool("lookup_user_info", "", func(ctx context.Context, _ struct{}) (treadle.Command[update], error) {
		call, _ := llm.CallFrom(ctx)
		return treadle.Command[update]{Update: &update{"Ada", llm.Messages{llm.ToolResult(call, "Successfully looked up user information")}}}, nil
	})
	greet := llm.NewTool("greet", "", func(ctx context.Context, _ struct{}) (string, error) {
		s, ok := llm.StateFrom[user](ctx)
		return fmt.Sprint("hello ", s.UserInfo, " ", ok), nil
	})
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("lookup_user_info", "{}")), llmtest.Ask(llmtest.ToolCall("greet", "{}")), llmtest.Say("ok"))
	a, err := agent.For[user](model, &agent.Options{Tools: []*llm.Tool{lookup, greet}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Run(t.Context(), user{Chat: llm.Chat{Messages: llm.Messages{llm.User("who am I?")}}})
	if err != nil {
		t.Fatal(err)
	}
	if out.UserInfo != "Ada" {
		t.Errorf("UserInfo = %q", out.UserInfo)
	}
	wantLines(t, out.Messages, "human: who am I?", "ai:  [lookup_user_info {}]", "tool: Successfully looked up user information",
		"ai:  [greet {}]", "tool: hello Ada true", "ai: ok")
}

func TestCommandWithoutResultFails(t *testing.T) {
	type update struct{ UserInfo string }
	lookup := llm.NewTool("lookup_user_info", "", func(context.Context, struct{}) (treadle.Command[update], error) {
		return treadle.Command[update]{Update: &update{"Ada"}}, nil
	})
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("lookup_user_info", "{}")))
	a, err := agent.For[user](model, &agent.Options{Tools: []*llm.Tool{lookup}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Run(t.Context(), user{Chat: llm.Chat{Messages: llm.Messages{llm.User("who am I?")}}})
	if err == nil || !strings.Contains(err.Error(), "tool lookup_user_info: command contains no result for call") {
		t.Errorf("err = %v", err)
	}
}

func TestHooksRunInOrderAndMayJump(t *testing.T) {
	var order []string
	type nothing struct{}
	note := func(what string) *agent.Hook {
		return agent.NewHook(func(context.Context, llm.Chat) (*nothing, error) { order = append(order, what); return nil, nil })
	}
	type leave struct{ agent.Detour }
	wrap := func(name string) *agent.Middleware {
		return &agent.Middleware{Name: name, BeforeAgent: note(name + " before agent"), AfterAgent: note(name + " after agent"),
			BeforeModel: note(name + " before model"), AfterModel: note(name + " after model"),
			WrapModel: func(ctx context.Context, c agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
				order = append(order, name+" model {")
				defer func() { order = append(order, name+" model }") }()
				return next(ctx, c)
			},
			WrapTool: func(ctx context.Context, c agent.ToolCall, next agent.ToolFunc) (any, error) {
				order = append(order, name+" tool {")
				defer func() { order = append(order, name+" tool }") }()
				return next(ctx, c)
			}}
	}
	stop := &agent.Middleware{Name: "stop", BeforeModel: agent.NewHook(func(_ context.Context, c llm.Chat) (leave, error) {
		if len(c.Messages) > 2 {
			return leave{agent.Detour{JumpTo: agent.JumpEnd}}, nil
		}
		return leave{}, nil
	}, agent.JumpEnd)}
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("get_weather", city{"Rome"})))
	a, err := agent.New(model, &agent.Options{Tools: []*llm.Tool{getWeather}, Middleware: []*agent.Middleware{wrap("a"), wrap("b"), stop}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Run(t.Context(), agent.Ask("hi")); err != nil {
		t.Fatal(err)
	}
	want := strings.Split("a before agent,b before agent,a before model,b before model,a model {,b model {,b model },a model },"+
		"b after model,a after model,a tool {,b tool {,b tool },a tool },a before model,b before model,b after agent,a after agent", ",")
	if d := cmp.Diff(want, order); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

func TestAgentEndsWithStructuredResponse(t *testing.T) {
	type report struct {
		Sky string `json:"sky"`
	}
	model := llmtest.Scripted(t, llmtest.Say("It is sunny."), llmtest.Ask(llmtest.ToolCall("report", `{"sky":"sunny"}`)))
	a, err := agent.New(model, &agent.Options{Response: agent.NewResponse[report]("", nil)})
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Run(t.Context(), agent.Ask("weather?"))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := agent.ResponseAs[report](out); err != nil || r.Sky != "sunny" {
		t.Errorf("response = %+v, %v", r, err)
	}
}

func TestRepeatedMiddlewareNamesGetNumbers(t *testing.T) {
	named := func(name string) *agent.Middleware {
		return &agent.Middleware{Name: name, AfterAgent: agent.NewHook(func(context.Context, llm.Chat) (*struct{}, error) { return nil, nil })}
	}
	a, err := agent.New(llmtest.Scripted(t, llmtest.Say("Hello.")), &agent.Options{Middleware: []*agent.Middleware{named("memory"), named("memory"), named("memory_2"), named("memory")}})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, n := range a.Shape().Nodes {
		if name, ok := strings.CutSuffix(n.Name, ".after_agent"); ok {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	if d := cmp.Diff([]string{"memory", "memory_2", "memory_3", "memory_4"}, nodes); d != "" {
		t.Errorf("nodes (-want +got):\n%s", d)
	}
	if _, err := a.Run(t.Context(), agent.Ask("hi")); err != nil {
		t.Error(err)
	}
}
