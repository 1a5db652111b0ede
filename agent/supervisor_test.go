package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/reduce"
)

// agents lists the agents of a team whose state is a conversation.
type agents = []*treadle.Graph[agent.State, agent.State]

// newAgent returns an agent with a name, tools, and a scripted model.
func newAgent(t *testing.T, name string, tools []*llm.Tool, turns ...llmtest.Turn) *treadle.Graph[agent.State, agent.State] {
	t.Helper()
	a, err := agent.New(llmtest.Scripted(t, turns...), &agent.Options{Name: name, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ask is like [llmtest.Ask], but with expectations.
func ask(calls []llm.ToolCall, expect ...func(*llm.Request) error) llmtest.Turn {
	turn := llmtest.Ask(calls...)
	turn.Expect = expect
	return turn
}

func call(id, name, args string) llm.ToolCall {
	return llm.ToolCall{ID: id, Name: name, Args: json.RawMessage(args)}
}

// by returns a message with the given name.
func by(name, text string, calls ...llm.ToolCall) llm.Message {
	m := llm.Assistant(text, calls...)
	m.Name = name
	return m
}

func result(c llm.ToolCall, text string) llm.Message { return llm.ToolResult(c, text) }

// back returns the messages that an agent adds when it hands back.
func back(agent, handoff string) llm.Messages {
	c := call(handoff+"_back", "transfer_back_to_supervisor", "{}")
	return llm.Messages{by(agent, "Transferring back to supervisor", c), result(c, "Successfully transferred back to supervisor")}
}

var (
	add = llm.NewTool("add", "Add two numbers.", func(_ context.Context, in struct{ A, B float64 }) (float64, error) { return in.A + in.B, nil })

	toMath     = call("m1", "transfer_to_math", "{}")
	toResearch = call("r1", "transfer_to_research", "{}")
	sum        = call("a1", "add", `{"A":1,"B":2}`)
)

// The supervisor asks one agent, then another, and answers. What each model hears
// depends on how much of the agents' work is shared.
//
// Ports the supervisor's row "basic workflow".
func TestSupervisorCallsAgentsInTurn(t *testing.T) {
	user := llm.User("how many people are there?")
	for _, tc := range []struct {
		name  string
		share agent.Share
		work  llm.Messages // the part of research's work that the others see
	}{
		{"answer", agent.ShareAnswer, llm.Messages{by("research", "1 here, 2 there")}},
		{"all", agent.ShareAll, llm.Messages{by("research", "", sum), result(sum, "3"), by("research", "1 here, 2 there")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			handed := llm.Messages{user, by("supervisor", "", toResearch), result(toResearch, "Successfully transferred to research")}
			researched := append(append(slices.Clip(handed), tc.work...), back("research", "r1")...)
			again := append(slices.Clip(researched), by("supervisor", "", toMath), result(toMath, "Successfully transferred to math"))
			done := append(append(slices.Clip(again), by("math", "3")), back("math", "m1")...)

			research := newAgent(t, "research", []*llm.Tool{add},
				ask([]llm.ToolCall{sum}, llmtest.Heard(handed...)),
				llmtest.Say("1 here, 2 there", llmtest.Heard(append(handed[:3:3], by("research", "", sum), result(sum, "3"))...)))
			math := newAgent(t, "math", nil, llmtest.Say("3", llmtest.Heard(again...)))
			model := llmtest.Scripted(t,
				ask([]llm.ToolCall{toResearch}, llmtest.Heard(user), llmtest.Offered("transfer_to_research", "transfer_to_math")),
				ask([]llm.ToolCall{toMath}, llmtest.Heard(researched...)),
				llmtest.Say("There are 3.", llmtest.Heard(done...)))

			team, err := agent.Supervisor(model, agents{research, math}, &agent.SupervisorOptions{Share: tc.share})
			if err != nil {
				t.Fatal(err)
			}
			out, err := team.Run(t.Context(), agent.Ask(user.Content))
			if err != nil {
				t.Fatal(err)
			}
			wantSame(t, out.Messages, append(done, by("supervisor", "There are 3."))...)
		})
	}
}

// wantSame compares messages as llmtest.Heard does.
func wantSame(t *testing.T, got llm.Messages, want ...llm.Message) {
	t.Helper()
	if err := llmtest.Heard(want...)(&llm.Request{Messages: got}); err != nil {
		t.Error(err)
	}
}

// Ports the supervisor's row "hide_handoffs".
func TestHiddenHandoffsAddNoMessages(t *testing.T) {
	rome := call("w1", "get_weather", `{"location":"Rome"}`)
	user := llm.User("hello")
	echo := newAgent(t, "echo", nil,
		llmtest.Say("hello to you", llmtest.Heard(user)),
		llmtest.Say("rainy", llmtest.Heard(user, by("echo", "hello to you"), by("supervisor", "Let me see.", rome), result(rome, "It's rainy!"))))
	again := llm.Assistant("Let me see.", rome, call("e2", "transfer_to_echo", "{}"))
	model := llmtest.Scripted(t,
		llmtest.Turn{Message: llm.Assistant("I ask echo.", call("e1", "transfer_to_echo", "{}"))},
		llmtest.Turn{Message: again, Expect: []func(*llm.Request) error{llmtest.Heard(user, by("echo", "hello to you"))}},
		llmtest.Say("done"))
	team, err := agent.Supervisor(model, agents{echo}, &agent.SupervisorOptions{HideHandoffs: true, Options: agent.Options{Tools: []*llm.Tool{getWeather}}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := team.Run(t.Context(), agent.Ask("hello"))
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, out.Messages, user, by("echo", "hello to you"), by("supervisor", "Let me see.", rome), result(rome, "It's rainy!"),
		by("echo", "rainy"), by("supervisor", "done"))
}

func TestHandbackCanBeOmitted(t *testing.T) {
	math := newAgent(t, "math", nil, llmtest.Say("3"))
	model := llmtest.Scripted(t, llmtest.Ask(toMath), llmtest.Say("It is 3.", llmtest.Heard(llm.User("1+2?"),
		by("supervisor", "", toMath), result(toMath, "Successfully transferred to math"), by("math", "3"))))
	team, err := agent.Supervisor(model, agents{math}, &agent.SupervisorOptions{NoHandBack: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := team.Run(t.Context(), agent.Ask("1+2?")); err != nil {
		t.Fatal(err)
	}
}

// Ports the supervisor's row "message_forwarding".
func TestSupervisorForwardsMessage(t *testing.T) {
	fwd, wrong := call("f1", "forward_message", `{"from_agent":"MATH"}`), call("f0", "forward_message", `{"from_agent":"bob"}`)
	math := newAgent(t, "math", nil, llmtest.Say("3"))
	model := llmtest.Scripted(t, llmtest.Ask(toMath), llmtest.Ask(wrong), llmtest.Ask(fwd))
	team, err := agent.Supervisor(model, agents{math}, &agent.SupervisorOptions{Forward: true})
	if err != nil {
		t.Fatal(err)
	}
	out, err := team.Run(t.Context(), agent.Ask("1+2?"))
	if err != nil {
		t.Fatal(err)
	}
	unknown := result(wrong, "Could not find message from source agent bob. Found names: math")
	want := append(llm.Messages{llm.User("1+2?"), by("supervisor", "", toMath), result(toMath, "Successfully transferred to math"), by("math", "3")},
		back("math", "m1")...)
	// The call and its result are no part of the transcript.
	wantSame(t, out.Messages, append(want, by("supervisor", "", wrong), unknown, by("supervisor", "3"))...)
}

func TestHandoffsRunConcurrentlyWithTools(t *testing.T) {
	rome := call("w1", "get_weather", `{"location":"Rome"}`)
	handed := llm.Messages{llm.User("go"), by("supervisor", "", toMath, rome, toResearch), result(toMath, "Successfully transferred to math"),
		result(rome, "It's rainy!"), result(toResearch, "Successfully transferred to research")}
	// Each waits for the other: they can only both be asked at the same time.
	var meet [2]chan struct{}
	meet[0], meet[1] = make(chan struct{}), make(chan struct{})
	meeting := func(me, other int) func(*llm.Request) error {
		return func(*llm.Request) error { close(meet[me]); <-meet[other]; return nil }
	}
	math := newAgent(t, "math", nil, llmtest.Say("3", llmtest.Heard(handed...), meeting(0, 1)))
	research := newAgent(t, "research", nil, llmtest.Say("found", llmtest.Heard(handed...), meeting(1, 0)))
	done := append(handed[:5:5], by("math", "3"))
	done = append(append(append(done, back("math", "m1")...), by("research", "found")), back("research", "r1")...)
	model := llmtest.Scripted(t, llmtest.Ask(toMath, rome, toResearch), llmtest.Say("done", llmtest.Heard(done...)))
	team, err := agent.Supervisor(model, agents{math, research}, &agent.SupervisorOptions{Options: agent.Options{Tools: []*llm.Tool{getWeather}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := team.Run(t.Context(), agent.Ask("go")); err != nil {
		t.Fatal(err)
	}
}

func TestHandoffTaskReplacesConversation(t *testing.T) {
	one, two := call("t1", "ask_math", `{"task":"1+2"}`), call("t2", "ask_math", `{"task":"2+2"}`)
	math := newAgent(t, "math", nil, llmtest.Say("sum"), llmtest.Say("sum"))
	model := llmtest.Scripted(t, llmtest.Ask(one, two), llmtest.Say("3 and 4", llmtest.Heard(append(append(append(
		llm.Messages{llm.User("sums please"), by("supervisor", "", one, two), result(one, "Successfully transferred to math"), result(two, "Successfully transferred to math"),
			by("math", "sum")}, back("math", "t1")...), by("math", "sum")), back("math", "t2")...)...)))
	ask := agent.Handoff("math", &agent.HandoffOptions{Name: "ask_math", Task: true})
	team, err := agent.Supervisor(model, agents{math}, &agent.SupervisorOptions{Handoffs: map[string]*llm.Tool{"math": ask}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := team.Run(t.Context(), agent.Ask("sums please")); err != nil {
		t.Fatal(err)
	}
}

// A result is never shared without its call.
func TestResultIsSharedWithItsCall(t *testing.T) {
	direct := llm.NewTool("sum", "", func(context.Context, struct{}) (string, error) { return "3", nil })
	direct.ReturnDirect = true
	math := newAgent(t, "math", []*llm.Tool{direct}, llmtest.Ask(call("s1", "sum", "{}")))
	model := llmtest.Scripted(t, llmtest.Ask(toMath), llmtest.Say("It is 3."))
	team, err := agent.Supervisor(model, agents{math}, &agent.SupervisorOptions{NoHandBack: true})
	if err != nil {
		t.Fatal(err)
	}
	out, err := team.Run(t.Context(), agent.Ask("1+2?"))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: 1+2?", "ai:  [transfer_to_math {}]", "tool: Successfully transferred to math",
		"ai:  [sum {}]", "tool: 3", "ai: It is 3.")
}

func TestCustomHandoffsJoinDefaults(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("hello", llmtest.Offered("transfer_to_echo", "ask_math")))
	team, err := agent.Supervisor(model, agents{newAgent(t, "echo", nil), newAgent(t, "math", nil)}, &agent.SupervisorOptions{
		Handoffs: map[string]*llm.Tool{"math": agent.Handoff("math", &agent.HandoffOptions{Name: "ask_math"})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := team.Run(t.Context(), agent.Ask("hi")); err != nil {
		t.Fatal(err)
	}
}

// An interrupt in an agent of a team stops the team. Resuming continues there, and no
// interrupt is raised twice.
func TestInterruptInTeam(t *testing.T) {
	asking := llm.NewTool("ask", "", func(ctx context.Context, _ struct{}) (string, error) { return treadle.Interrupt[string](ctx, "sure?") })
	math := newAgent(t, "math", []*llm.Tool{asking}, llmtest.Ask(call("q", "ask", "{}")), llmtest.Say("3"))
	model := llmtest.Scripted(t, llmtest.Ask(call("t1", "ask_math", `{"task":"1+2"}`)), llmtest.Say("done"))
	team, err := agent.Supervisor(model, agents{math}, &agent.SupervisorOptions{Share: agent.ShareAll,
		Handoffs: map[string]*llm.Tool{"math": agent.Handoff("math", &agent.HandoffOptions{Name: "ask_math", Task: true})},
		Options:  agent.Options{Graph: treadle.Options{Saver: checkpoint.NewMemory()}}})
	if err != nil {
		t.Fatal(err)
	}
	thread := team.Thread("1")
	_, err = thread.Run(t.Context(), agent.Ask("go"))
	if _, ok := errors.AsType[*treadle.InterruptError](err); !ok {
		t.Fatalf("want a question, got %v", err)
	}
	out, err := thread.Resume(t.Context(), "yes")
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: go", `ai:  [ask_math {"task":"1+2"}]`, "tool: Successfully transferred to math",
		"ai:  [ask {}]", "tool: yes", "ai: 3",
		"ai: Transferring back to supervisor [transfer_back_to_supervisor {}]", "tool: Successfully transferred back to supervisor", "ai: done")
}

// Ports the supervisor's row "metadata passed to subagent".
func TestTeamAgentsSeeRunMetadata(t *testing.T) {
	var got any
	look := llm.NewTool("look", "", func(ctx context.Context, _ struct{}) (string, error) {
		got = treadle.InfoFrom(ctx).Metadata["tenant"]
		return "ok", nil
	})
	math := newAgent(t, "math", []*llm.Tool{look}, llmtest.Ask(call("l", "look", "{}")), llmtest.Say("3"))
	team, err := agent.Supervisor(llmtest.Scripted(t, llmtest.Ask(toMath), llmtest.Say("done")), agents{math}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := team.With(treadle.Metadata(map[string]any{"tenant": "acme"})).Run(t.Context(), agent.Ask("go")); err != nil {
		t.Fatal(err)
	}
	if got != "acme" {
		t.Errorf("the agent's tool saw %v", got)
	}
}

// Ports the supervisor's row "functional API".
func TestWorkflowAsTeamAgent(t *testing.T) {
	joker := llmtest.Scripted(t, llmtest.Say("Why did the owl?", llmtest.Heard(llm.System("Be funny."), llm.User("a joke"),
		by("supervisor", "", call("j1", "transfer_to_joke", "{}")), result(call("j1", "transfer_to_joke", ""), "Successfully transferred to joke"))))
	tell := treadle.NewTask("tell", func(ctx context.Context, ms llm.Messages) (llm.Message, error) {
		return llm.Generate(ctx, joker, append(llm.Messages{llm.System("Be funny.")}, ms...)...)
	})
	joke, err := treadle.NewWorkflow("joke", func(ctx context.Context, s agent.State) (agent.State, error) {
		m, err := tell.Go(ctx, s.Messages).Wait()
		s.Messages = append(s.Messages, m)
		return s, err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	model := llmtest.Scripted(t, llmtest.Ask(call("j1", "transfer_to_joke", "{}")), llmtest.Say("Ha."))
	team, err := agent.Supervisor(model, agents{joke}, &agent.SupervisorOptions{NoHandBack: true})
	if err != nil {
		t.Fatal(err)
	}
	out, err := team.Run(t.Context(), agent.Ask("a joke"))
	if err != nil {
		t.Fatal(err)
	}
	c := call("j1", "transfer_to_joke", "{}")
	wantSame(t, out.Messages, llm.User("a joke"), by("supervisor", "", c), result(c, "Successfully transferred to joke"),
		by("joke", "Why did the owl?"), by("supervisor", "Ha."))
}

func TestNestedTeams(t *testing.T) {
	toTeam, toTop := call("s1", "transfer_to_sums", "{}"), call("m1", "transfer_to_math", "{}")
	math := newAgent(t, "math", nil, llmtest.Say("3"))
	sums, err := agent.Supervisor(llmtest.Scripted(t, llmtest.Ask(toTop), llmtest.Say("The sum is 3.")), agents{math},
		&agent.SupervisorOptions{Team: "sums", Options: agent.Options{Name: "sums_lead"}})
	if err != nil {
		t.Fatal(err)
	}
	heard := append(llm.Messages{llm.User("1+2?"), by("supervisor", "", toTeam), result(toTeam, "Successfully transferred to sums"),
		by("sums_lead", "The sum is 3.")}, back("sums", "s1")...)
	top, err := agent.Supervisor(llmtest.Scripted(t, llmtest.Ask(toTeam), llmtest.Say("3", llmtest.Heard(heard...))), agents{sums}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := top.Run(t.Context(), agent.Ask("1+2?")); err != nil {
		t.Fatal(err)
	}
}

// Agents receive the state's other fields, and their changes reach the parent, including
// changes by a supervisor's tool before or alongside a handoff.
func TestTeamSharesState(t *testing.T) {
	set := func(name, info string) *llm.Tool {
		return llm.NewTool(name, "", func(ctx context.Context, _ struct{}) (treadle.Command[treadle.Update], error) {
			c, _ := llm.CallFrom(ctx)
			return treadle.Command[treadle.Update]{Update: &treadle.Update{"user_info": info, "messages": llm.Messages{llm.ToolResult(c, "ok")}}}, nil
		})
	}
	var seen []string
	look := llm.NewTool("look", "", func(ctx context.Context, _ struct{}) (string, error) {
		s, _ := llm.StateFrom[user](ctx)
		seen = append(seen, s.UserInfo)
		return "ok", nil
	})
	math, err := agent.For[user](llmtest.Scripted(t, llmtest.Ask(call("1", "look", "{}")), llmtest.Ask(call("2", "set_c", "{}")), llmtest.Say("x"),
		llmtest.Ask(call("1", "look", "{}")), llmtest.Say("y")),
		&agent.Options{Name: "math", Tools: []*llm.Tool{look, set("set_c", "c")}})
	if err != nil {
		t.Fatal(err)
	}
	model := llmtest.Scripted(t, llmtest.Ask(call("0", "set_a", "{}")), llmtest.Ask(toMath),
		llmtest.Ask(call("1", "look", "{}")), llmtest.Ask(call("3", "set_b", "{}"), call("m2", "transfer_to_math", "{}")), llmtest.Say("done"))
	team, err := agent.Supervisor(model, []*treadle.Graph[user, user]{math},
		&agent.SupervisorOptions{Options: agent.Options{Tools: []*llm.Tool{look, set("set_a", "a"), set("set_b", "b")}}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := team.Run(t.Context(), user{Chat: llm.Chat{Messages: llm.Messages{llm.User("go")}}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a", "c", "b"}, seen); d != "" || out.UserInfo != "b" {
		t.Errorf("seen (-want +got):\n%s\nat the end %q", d, out.UserInfo)
	}
}

func TestInvalidTeamsAreRejected(t *testing.T) {
	named := newAgent(t, "math", nil)
	model := llmtest.NewScript()
	type notes struct {
		llm.Chat
		Notes reduce.List[string]
	}
	taking, err := agent.For[notes](model, &agent.Options{Name: "notes"})
	if err != nil {
		t.Fatal(err)
	}
	_, noted := agent.Supervisor(model, []*treadle.Graph[notes, notes]{taking}, nil)
	supervise := func(as agents, o *agent.SupervisorOptions) error {
		_, err := agent.Supervisor(model, as, o)
		return err
	}
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"none", supervise(nil, nil), "agent: no agents"},
		{"nil", supervise(agents{nil}, nil), "nil agent at index 0"},
		{"without a name", supervise(agents{newAgent(t, "", nil)}, nil), "agent at index 0 has no name: set Options.Name"},
		{"twice", supervise(agents{named, named}, nil), `duplicate agent name "math"`},
		{"as the supervisor", supervise(agents{newAgent(t, "supervisor", nil)}, nil), `duplicate agent name "supervisor"`},
		{"unknown sharing", supervise(agents{named}, &agent.SupervisorOptions{Share: 7}), "invalid Share 7: want ShareAnswer or ShareAll"},
		{"handoff to unknown agent", supervise(agents{named}, &agent.SupervisorOptions{Handoffs: map[string]*llm.Tool{"bob": getWeather}}),
			`Handoffs: unknown agent "bob": the agents are ["math"]`},
		{"a list in the state", noted, "field Notes of agent_test.notes accumulates"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.err == nil || !strings.Contains(tc.err.Error(), tc.want) {
				t.Errorf("err = %v, want %q", tc.err, tc.want)
			}
		})
	}
}

// An agent may hand off to a sibling; the sibling returns to the supervisor.
func TestTeamAgentHandsOffToSibling(t *testing.T) {
	toOther := call("x1", "transfer_to_research", "{}")
	math := newAgent(t, "math", []*llm.Tool{agent.Handoff("research", nil)}, llmtest.Ask(toOther))
	handed := llm.Messages{llm.User("go"), by("supervisor", "", toMath), result(toMath, "Successfully transferred to math"),
		by("math", "", toOther), result(toOther, "Successfully transferred to research")}
	research := newAgent(t, "research", nil, llmtest.Say("found", llmtest.Heard(handed...)))
	model := llmtest.Scripted(t, llmtest.Ask(toMath),
		llmtest.Say("done", llmtest.Heard(append(append(handed, by("research", "found")), back("research", "x1")...)...)))
	team, err := agent.Supervisor(model, agents{math, research}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := team.Run(t.Context(), agent.Ask("go")); err != nil {
		t.Fatal(err)
	}
}

// Handbacks of agents reached by a custom tool have different IDs each time, even after a
// handoff created by [agent.Handoff].
func TestHandbacksHaveDifferentIDs(t *testing.T) {
	own := llm.NewTool("own", "", func(ctx context.Context, _ struct{}) (treadle.Command[treadle.Update], error) {
		c, _ := llm.CallFrom(ctx)
		return treadle.Command[treadle.Update]{Update: &treadle.Update{"messages": llm.Messages{llm.ToolResult(c, "ok")}}, Goto: treadle.To("math"), Parent: true}, nil
	})
	math := newAgent(t, "math", nil, llmtest.Say("1"), llmtest.Say("2"), llmtest.Say("3"))
	model := llmtest.Scripted(t, llmtest.Ask(toMath), llmtest.Ask(call("o1", "own", "{}")), llmtest.Ask(call("o2", "own", "{}")), llmtest.Say("done"))
	team, err := agent.Supervisor(model, agents{math}, &agent.SupervisorOptions{Options: agent.Options{Tools: []*llm.Tool{own}}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := team.Run(t.Context(), agent.Ask("go"))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]int{}
	for _, m := range out.Messages {
		for _, c := range m.ToolCalls {
			ids[c.ID]++
		}
	}
	if len(ids) != 6 || ids["m1_back"] != 1 {
		t.Errorf("the ids of calls are %v", ids)
	}
}
