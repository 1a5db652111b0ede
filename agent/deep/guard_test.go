package deep_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// below returns options with a chain of sub-agents, the deepest of which has the given turns,
// and the model that passes the task to it. Level 0 is the general-purpose agent.
func below(level int, worker llm.Model) (*deep.Options, llm.Model) {
	if level == 0 {
		return &deep.Options{}, llmtest.Func(func(ctx context.Context, r *llm.Request) (llm.Message, error) {
			last := r.Messages[len(r.Messages)-1]
			switch {
			case strings.Contains(r.Messages[0].Text(), "for another agent"):
				return llm.Generate(ctx, worker, append(llm.Messages{}, r.Messages...)...)
			case last.Role == llm.RoleTool:
				return llm.Assistant("report: " + last.Text()), nil
			}
			return llm.Assistant("", task("general-purpose", last.Text())), nil
		})
	}
	passing := func(to string) llm.Model {
		return llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
			last := r.Messages[len(r.Messages)-1]
			if last.Role == llm.RoleTool {
				return llm.Assistant("report: " + last.Text()), nil
			}
			return llm.Assistant("", task(to, last.Text())), nil
		})
	}
	agents := []deep.Subagent{{Name: "worker", Description: "works", Model: worker}}
	for i := range level - 1 {
		agents = []deep.Subagent{{Name: fmt.Sprint("boss", i), Description: "passes tasks on", Model: passing(agents[0].Name), Subagents: agents}}
	}
	return &deep.Options{Subagents: agents}, passing(agents[0].Name)
}

// levels runs a test for sub-agents of each kind.
func levels(t *testing.T, test func(t *testing.T, level int)) {
	for level, name := range map[int]string{0: "general-purpose", 1: "named", 3: "third level"} {
		t.Run(name, func(t *testing.T) { test(t, level) })
	}
}

func effects(calls *sync.Map, text string) int32 {
	n, ok := calls.Load(text)
	if !ok {
		return 0
	}
	return n.(*atomic.Int32).Load()
}

// A gate of the agent applies to the calls of its sub-agents. The person is asked once.
func TestGateAppliesToSubagents(t *testing.T) {
	for answer, want := range map[agent.DecisionType]int32{agent.Approve: 1, agent.Reject: 0} {
		levels(t, func(t *testing.T, level int) {
			var calls sync.Map
			o, model := below(level, llmtest.Scripted(t, llmtest.Ask(effect("x")), llmtest.Say("done")))
			o.Tools, o.Middleware = []*llm.Tool{counted(&calls)}, []*agent.Middleware{agent.Gates(agent.Gate{Tool: "effect"})}
			th := made(t, model, o)
			_, err := th.Run(t.Context(), deep.Ask("go"))
			p := asked(t, err, 1)[0]
			if got := review(t, p); got.Name != "effect" || !strings.Contains(string(got.Args), `"x"`) || effects(&calls, "x") != 0 {
				t.Fatalf("asked about %+v after %d effects", got, effects(&calls, "x"))
			}
			out, err := th.Resume(t.Context(), agent.Decisions{{Type: answer}})
			if err != nil {
				t.Fatal(err)
			}
			contains(t, deep.Answer(out), "done")
			if n := effects(&calls, "x"); n != want {
				t.Errorf("after %s: %d effects, want %d", answer, n, want)
			}
		})
	}
}

// Redaction, limits, and the handler of errors apply too. Each task has a limit of its own.
func TestOtherGuardsApplyToSubagents(t *testing.T) {
	levels(t, func(t *testing.T, level int) {
		var calls sync.Map
		failing := llm.NewTool("fail", "Fails.", func(context.Context, struct{}) (string, error) {
			return "", errors.New("password=1")
		})
		var seen []string
		worker := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
			for _, m := range r.Messages[len(r.Messages)-min(len(r.Messages), 2):] {
				seen = append(seen, m.Text())
			}
			switch n := len(toolResults(deep.State{State: agent.State{Chat: llm.Chat{Messages: r.Messages}}})); n {
			case 0:
				return llm.Assistant("", llmtest.ToolCall("fail", args{})), nil
			case 20:
				return llm.Assistant("no limit"), nil
			default:
				return llm.Assistant("", effect("x")), nil
			}
		})
		o, model := below(level, worker)
		o.Tools = []*llm.Tool{counted(&calls), failing}
		o.ToolOptions.OnToolError = func(context.Context, agent.ToolCall, error) (string, error) { return "it failed", nil }
		o.Middleware = []*agent.Middleware{agent.Redact(nil), agent.LimitToolCalls("effect", agent.Limit{Run: 2}), agent.LimitModelCalls(agent.Limit{Run: 6})}
		out, err := made(t, model, o).Run(t.Context(), deep.Ask("write to ada@example.org"))
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(seen, "\n")
		contains(t, all, "[REDACTED_EMAIL]", "it failed", "Tool call limit exceeded")
		lacks(t, all, "ada@", "password")
		contains(t, deep.Answer(out), "run limit of model calls is reached")
		if n := effects(&calls, "x"); n != 2 {
			t.Errorf("%d effects, want 2", n)
		}
	})
}

// A sub-agent stops at the budget of its parent, which then stops too. The usage of a
// sub-agent that fails counts.
func TestBudgetStopsSubagents(t *testing.T) {
	for onLimit, report := range map[agent.OnLimit]string{agent.OnLimitEnd: "", agent.OnLimitFail: "limit"} {
		levels(t, func(t *testing.T, level int) {
			n := 0
			worker := llmtest.Func(func(context.Context, *llm.Request) (llm.Message, error) {
				if n++; n == 20 {
					return llm.Assistant("no limit"), nil
				}
				m := llm.Assistant("", llmtest.ToolCall("ls", args{"path": "/"}))
				m.Usage = &llm.Usage{Total: 10}
				return m, nil
			})
			o, model := below(level, worker)
			o.Middleware = []*agent.Middleware{agent.Budget(&agent.BudgetOptions{RunTokens: 30, OnLimit: onLimit})}
			out, err := made(t, model, o).Run(t.Context(), deep.Ask("go"))
			if reached, ok := errors.AsType[*agent.LimitError](err); ok != (report != "") || ok && reached.Used != 30 {
				t.Errorf("got error %v", err)
			}
			if report == "" {
				contains(t, deep.Answer(out), "run limit of tokens is reached")
			}
			if n != 3 {
				t.Errorf("%d model calls, want 3", n)
			}
		})
	}
}

// Two sub-agents ask at the same time. Each question is answered once, and neither works again.
func TestGatesOfParallelTasks(t *testing.T) {
	var calls sync.Map
	work := func(name string) deep.Subagent {
		return child(t, name, llmtest.Ask(effect("before "+name)), llmtest.Ask(effect(name)), llmtest.Say(name+" is done"))
	}
	gate := agent.Gate{Tool: "effect", When: func(_ context.Context, c llm.ToolCall) (bool, error) {
		return !strings.Contains(string(c.Args), "before"), nil
	}}
	o := &deep.Options{Tools: []*llm.Tool{counted(&calls)}, Middleware: []*agent.Middleware{agent.Gates(gate)}, Subagents: []deep.Subagent{work("a"), work("b")}}
	th := made(t, llmtest.Scripted(t, llmtest.Ask(task("a", "x"), task("b", "y")), llmtest.Say("done")), o)
	_, err := th.Run(t.Context(), deep.Ask("go"))
	both := asked(t, err, 2)
	_, err = th.Resume(t.Context(), treadle.Answers{both[0].ID: approve})
	left := asked(t, err, 1)
	if left[0].ID != both[1].ID {
		t.Errorf("question %s became %s", both[1].ID, left[0].ID)
	}
	if _, err = th.Resume(t.Context(), treadle.Answers{left[0].ID: agent.Decisions{{Type: agent.Reject}}}); err != nil {
		t.Fatal(err)
	}
	done := effects(&calls, "a") + effects(&calls, "b")
	if done != 1 || effects(&calls, "before a") != 1 || effects(&calls, "before b") != 1 {
		t.Errorf("%d approved effects", done)
	}
}

// A gate for a tool that only the parent has is not a mistake; a misspelled name is one at every
// level. Middleware of a sub-agent replaces the inherited one of the same name.
func TestNamesInInheritedGuards(t *testing.T) {
	var calls sync.Map
	own := func(tools []*llm.Tool, m ...*agent.Middleware) *deep.Options {
		worker := child(t, "worker")
		worker.Tools, worker.Middleware = tools, m
		boss := child(t, "boss")
		boss.Subagents = []deep.Subagent{worker}
		return &deep.Options{Tools: []*llm.Tool{counted(&calls)}, Subagents: []deep.Subagent{boss},
			Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "effect"}, agent.Gate{Tool: "task"})}}
	}
	for name, c := range map[string]struct {
		o    *deep.Options
		want string
	}{
		"absent tool":    {own([]*llm.Tool{echo("other")}), ""},
		"own gate":       {own([]*llm.Tool{echo("other")}, agent.Gates(agent.Gate{Tool: "other"})), ""},
		"misspelled":     {&deep.Options{Tools: []*llm.Tool{counted(&calls)}, Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "efect"})}}, `did you mean "effect"`},
		"misspelled own": {own([]*llm.Tool{echo("other")}, agent.Gates(agent.Gate{Tool: "othr"})), `sub-agent "worker": agent: middleware gates: unknown tool "othr"`},
		"nil":            {own(nil, nil), "nil middleware"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := deep.New(llmtest.Scripted(t), c.o)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
	free := child(t, "free", llmtest.Ask(effect("free")), llmtest.Say("done"))
	free.Middleware = []*agent.Middleware{agent.Gates(agent.Gate{Tool: "ls"})}
	o := &deep.Options{Tools: []*llm.Tool{counted(&calls)}, Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "effect"})}, Subagents: []deep.Subagent{free}}
	results(t, o, nil, task("free", "x"))
	if effects(&calls, "free") != 1 {
		t.Error("the gate of the sub-agent did not replace that of its parent")
	}
}

// Middleware that replaces a part replaces it in sub-agents too, whatever their models.
func TestReplacedPartsOfSubagents(t *testing.T) {
	levels(t, func(t *testing.T, level int) {
		worker := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("read_file", args{"file_path": "/secret/.key"})),
			llmtest.Say("end", llmtest.Asked("Permission denied")))
		o, model := below(level, worker)
		o.Middleware = []*agent.Middleware{deep.Files(&deep.FilesOptions{Permissions: []deep.Permission{denySecret}}),
			deep.Compact(&deep.ContextOptions{Tokens: 1000})}
		given := deep.Ask("go")
		given.Files = secretFiles
		if _, err := made(t, model, o).Run(t.Context(), given); err != nil {
			t.Fatal(err)
		}
	})
	for name, o := range map[string]*deep.Options{
		"agent":     {Middleware: []*agent.Middleware{deep.Files(nil)}, Files: deep.FilesOptions{Permissions: []deep.Permission{denySecret}}},
		"sub-agent": {Middleware: []*agent.Middleware{deep.Files(nil)}, Subagents: []deep.Subagent{{Name: "a", Description: "x", Permissions: []deep.Permission{denySecret}}}},
	} {
		if _, err := deep.New(llmtest.Scripted(t), o); err == nil || !strings.Contains(err.Error(), "permissions have no effect") {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

// A middleware of deep.Compact may belong to agents whose models have different windows.
func TestSharedCompactUsesModelOfAgent(t *testing.T) {
	summary := llmtest.Func(func(context.Context, *llm.Request) (llm.Message, error) { return llm.Assistant("short"), nil })
	long := strings.Repeat("x ", 300)
	var seen []string
	worker := llm.WithInfo(llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		seen = append(seen, r.Messages[1].Text())
		if len(seen) == 1 {
			return llm.Assistant("", llmtest.ToolCall("say", args{"text": long}), llmtest.ToolCall("say", args{"text": long})), nil
		}
		return llm.Assistant("done"), nil
	}), llm.Info{Window: 1_000_000})
	shared := deep.Compact(&deep.ContextOptions{Trigger: 1, Keep: 0.2, ClearAt: 1, Count: chars, Model: summary})
	o := &deep.Options{Tools: []*llm.Tool{echo("say")}, Middleware: []*agent.Middleware{shared},
		Subagents: []deep.Subagent{{Name: "worker", Description: "works", Model: worker}}}
	parent := llm.WithInfo(llmtest.Scripted(t, llmtest.Ask(task("worker", long)), llmtest.Say("done")), llm.Info{Window: 500})
	if _, err := made(t, parent, o).Run(t.Context(), deep.Ask("go")); err != nil {
		t.Fatal(err)
	}
	if lacks(t, strings.Join(seen, "\n"), "short"); len(seen) != 2 {
		t.Errorf("%d calls of the worker", len(seen))
	}
}

// A graph that is a sub-agent, and a middleware Files of a sub-agent, do not lift the
// permissions of the agent that they work for.
func TestPermissionsApplyToGraphs(t *testing.T) {
	read := func() llm.Model {
		return llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("read_file", args{"file_path": "/secret/.key"})), llmtest.Say("end", llmtest.Asked("Permission denied")))
	}
	g, err := deep.New(read(), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := rules(denySecret)
	o.Subagents = []deep.Subagent{{Name: "graph", Description: "works", Graph: g},
		{Name: "own", Description: "works", Model: read(), Middleware: []*agent.Middleware{deep.Files(nil)}}}
	results(t, o, secretFiles, task("graph", "x"), task("own", "x"))
}

// A background agent has its own guards, which apply to its sub-agents. The question is asked
// and answered on the thread of the task.
func TestGateAppliesToBackgroundTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls sync.Map
		saver := checkpoint.NewMemory()
		o, model := below(1, llmtest.Scripted(t, llmtest.Ask(effect("x")), llmtest.Say("done")))
		o.Name, o.Tools, o.Middleware = "child", []*llm.Tool{counted(&calls)}, []*agent.Middleware{agent.Gates(agent.Gate{Tool: "effect"})}
		worker, err := deep.New(model, o)
		if err != nil {
			t.Fatal(err)
		}
		local, err := deep.NewLocal("tasks", worker, &treadle.Options{Saver: saver})
		if err != nil {
			t.Fatal(err)
		}
		parent, err := deep.New(llmtest.Scripted(t, llmtest.Ask(begin("owls")), llmtest.Say("I wait."), llmtest.Say("end", llmtest.Asked("report: done"))),
			&deep.Options{Graph: treadle.Options{Saver: saver}, Background: []deep.BackgroundAgent{{Name: "worker", Description: "works", Runner: local}}})
		if err != nil {
			t.Fatal(err)
		}
		s := scene{parent, local, parent.Thread("p")}
		_, err = s.thread.Run(t.Context(), deep.Ask("go"))
		s.sleeps(t, err)
		s.serve(t)
		_, id, _ := strings.Cut(s.messages(t), "Started task ")
		id, _, _ = strings.Cut(id, ".")
		state, err := local.Check(t.Context(), id)
		if err != nil || len(state.Questions) != 1 || effects(&calls, "x") != 0 {
			t.Fatalf("%+v, %v, %d effects", state, err, effects(&calls, "x"))
		}
		if _, err := local.Thread(id).Resume(t.Context(), approve); err != nil {
			t.Fatal(err)
		}
		s.serve(t)
		contains(t, s.messages(t), "end")
		if n := effects(&calls, "x"); n != 1 {
			t.Errorf("%d effects", n)
		}
	})
}
