package agent_test

import (
	"context"
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

// A graph that sends a command to its parent passes on its writes once; for a field that
// the command updates, the command's value wins.
func TestCommandToParentIncludesGraphUpdates(t *testing.T) {
	type state struct {
		Log   reduce.List[string]
		Notes reduce.List[string]
		Topic string
	}
	type first struct {
		Log, Notes reduce.List[string]
		Topic      string
	}
	type up struct{ Log reduce.List[string] }
	inner := treadle.New[state]("inner")
	treadle.AddNode(inner, "write", func(context.Context, state) (first, error) {
		return first{reduce.List[string]{"lost"}, reduce.List[string]{"a note"}, "owls"}, nil
	})
	treadle.AddNode(inner, "leave", func(context.Context, state) (treadle.Command[up], error) {
		return treadle.Command[up]{Update: &up{reduce.List[string]{"left"}}, Goto: treadle.To("after"), Parent: true}, nil
	}, treadle.Handoff("after"))
	inner.Sequence(treadle.Start, "write", "leave")
	g, err := inner.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	outer := treadle.New[state]("outer")
	treadle.AddGraph(outer, "inner", g, treadle.Destinations("after"))
	treadle.AddNode(outer, "after", func(context.Context, state) (up, error) { return up{reduce.List[string]{"after"}}, nil })
	outer.Edge(treadle.Start, "inner")
	team, err := outer.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := team.Run(t.Context(), state{Notes: reduce.List[string]{"given"}})
	if err != nil {
		t.Fatal(err)
	}
	want := state{reduce.List[string]{"left", "after"}, reduce.List[string]{"given", "a note"}, "owls"}
	if d := cmp.Diff(want, out); d != "" {
		t.Errorf("state (-want +got):\n%s", d)
	}
}

// A tool's goto here and a hand-off there cannot both be followed.
func TestHandoffRejectsLocalGoto(t *testing.T) {
	move := llm.NewTool("move", "", func(ctx context.Context, _ struct{}) (treadle.Command[treadle.Update], error) {
		c, _ := llm.CallFrom(ctx)
		return treadle.Command[treadle.Update]{Update: &treadle.Update{"messages": llm.Messages{llm.ToolResult(c, "ok")}}, Goto: treadle.To("model")}, nil
	})
	alice := newAgent(t, "alice", []*llm.Tool{move, agent.SwarmHandoff("bob", nil)}, llmtest.Ask(call("1", "move", "{}"), toBob))
	swarm, err := agent.Swarm(agents{alice, newAgent(t, "bob", nil)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = swarm.Run(t.Context(), agent.SwarmState{State: agent.Ask("hi")})
	const want = "tool move: command goes to a node of this graph, but transfer_to_bob hands off to another agent: a message can do only one of them"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("err = %v, want %q", err, want)
	}
}

// A team that was canceled while an agent worked accepts the next message.
func TestCanceledTeamContinues(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hang := llmtest.Turn{Hang: true, Expect: []func(*llm.Request) error{func(*llm.Request) error { cancel(); return nil }}}
	math := newAgent(t, "math", nil, hang)
	model := llmtest.Scripted(t, llmtest.Ask(toMath), llmtest.Say("Never mind.", llmtest.Heard(llm.User("1+2?"),
		by("supervisor", "", toMath), result(toMath, "Successfully transferred to math"), llm.User("forget it"))))
	team, err := agent.Supervisor(model, agents{math}, &agent.SupervisorOptions{Options: agent.Options{Graph: treadle.Options{Saver: checkpoint.NewMemory()}}})
	if err != nil {
		t.Fatal(err)
	}
	thread := team.Thread("1")
	if _, err := thread.Run(ctx, agent.Ask("1+2?")); err == nil {
		t.Fatal("the canceled run succeeded")
	}
	out, err := thread.Run(t.Context(), agent.Ask("forget it"))
	if err != nil || agent.Answer(out) != "Never mind." {
		t.Errorf("answer %q, %v", agent.Answer(out), err)
	}
}

// Drawings show who can hand to whom, and no step of a run is in doubt.
func TestDiagramsOfTeamsAndSwarms(t *testing.T) {
	team, err := agent.Supervisor(llmtest.NewScript(), agents{newAgent(t, "math", nil), newAgent(t, "research", nil)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	swarm, err := agent.Swarm(agents{newAgent(t, "alice", nil), newAgent(t, "bob", nil)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		graph    treadle.AnyGraph
		warnings []string
		want     []string
	}{
		{team, team.Warnings(), []string{"__start__ supervisor", "math supervisor", "research supervisor", "supervisor __end__", "supervisor math", "supervisor research"}},
		{swarm, swarm.Warnings(), []string{"__start__ alice", "__start__ bob", "alice __end__", "alice bob", "bob __end__", "bob alice"}},
	} {
		var edges []string
		for _, e := range tc.graph.Shape().Edges {
			edges = append(edges, e.From+" "+e.To)
		}
		slices.Sort(edges)
		if d := cmp.Diff(tc.want, edges); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.graph.Name(), d)
		}
		if len(tc.warnings) > 0 {
			t.Errorf("%s: %q", tc.graph.Name(), tc.warnings)
		}
	}
}
