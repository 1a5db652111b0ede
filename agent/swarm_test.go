package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

var (
	toBob   = call("b1", "transfer_to_bob", "{}")
	toAlice = call("c1", "transfer_to_alice", "{}")
)

// swarmAgents returns Alice and Bob. Alice hands off to Bob, who answers. In the next turn, Bob hands back to
// Alice, who also handles the third turn.
func swarmAgents(t *testing.T) agents {
	hi := llm.Messages{llm.User("Bob please"), by("alice", "", toBob), result(toBob, "Successfully transferred to bob")}
	second := append(hi[:3:3], by("bob", "Ahoy!"), llm.User("1+1?"))
	third := append(second[:5:5], by("bob", "", toAlice), result(toAlice, "Successfully transferred to alice"))
	fourth := append(third[:7:7], by("alice", "2"), llm.User("and 1+2?"))
	alice := newAgent(t, "alice", []*llm.Tool{add, agent.SwarmHandoff("bob", nil)},
		ask([]llm.ToolCall{toBob}, llmtest.Heard(hi[0])),
		llmtest.Say("2", llmtest.Heard(third...)),
		ask([]llm.ToolCall{sum}, llmtest.Heard(fourth...)),
		llmtest.Say("3", llmtest.Heard(append(fourth[:9:9], by("alice", "", sum), result(sum, "3"))...)))
	bob := newAgent(t, "bob", []*llm.Tool{agent.SwarmHandoff("alice", &agent.HandoffOptions{Description: "Alice is good at sums."})},
		llmtest.Say("Ahoy!", llmtest.Heard(hi...)),
		ask([]llm.ToolCall{toAlice}, llmtest.Heard(second...)))
	return agents{alice, bob}
}

// Ports the swarm's row "basic".
func TestSwarmKeepsActiveAgentAcrossTurns(t *testing.T) {
	swarm, err := agent.Swarm(swarmAgents(t), &agent.SwarmOptions{Default: "alice", Graph: treadle.Options{Saver: checkpoint.NewMemory()}})
	if err != nil {
		t.Fatal(err)
	}
	thread := swarm.Thread("1")
	for _, turn := range []struct{ said, answer, active string }{
		{"Bob please", "Ahoy!", "bob"}, {"1+1?", "2", "alice"}, {"and 1+2?", "3", "alice"},
	} {
		out, err := thread.Run(t.Context(), agent.SwarmState{State: agent.Ask(turn.said)})
		if err != nil {
			t.Fatal(err)
		}
		if got := agent.Answer(out.State); got != turn.answer || out.ActiveAgent != turn.active {
			t.Errorf("%s: %s answers %q, want %s and %q", turn.said, out.ActiveAgent, got, turn.active, turn.answer)
		}
	}
}

// Ports the swarm's row "with custom state".
func TestSwarmWithCustomState(t *testing.T) {
	type shop struct {
		llm.Chat
		agent.Active
		Order string `json:"order"`
	}
	swarm, err := agent.SwarmFor[shop](swarmAgents(t), &agent.SwarmOptions{Graph: treadle.Options{Saver: checkpoint.NewMemory()}})
	if err != nil {
		t.Fatal(err)
	}
	thread := swarm.Thread("1")
	for _, turn := range []struct{ said, active string }{{"Bob please", "bob"}, {"1+1?", "alice"}, {"and 1+2?", "alice"}} {
		out, err := thread.Run(t.Context(), shop{Chat: llm.Chat{Messages: llm.Messages{llm.User(turn.said)}}, Order: "7"})
		if err != nil {
			t.Fatal(err)
		}
		if out.ActiveAgent != turn.active || out.Order != "7" {
			t.Errorf("%s: %s is active, order %q", turn.said, out.ActiveAgent, out.Order)
		}
	}
}

// Only the first of several handoffs in one turn is made. The others get results, and so
// do the other tools.
func TestSwarmMakesFirstOfSeveralHandoffs(t *testing.T) {
	toCarol, rome := call("d1", "transfer_to_carol", "{}"), call("w1", "get_weather", `{"location":"Rome"}`)
	alice := newAgent(t, "alice", []*llm.Tool{getWeather, agent.SwarmHandoff("bob", nil), agent.SwarmHandoff("carol", nil)}, llmtest.Ask(rome, toBob, toCarol))
	refused := result(toCarol, "only one handoff at a time can set active_agent; this one was not made")
	refused.Status = llm.StatusError
	bob := newAgent(t, "bob", nil, llmtest.Say("Ahoy!", llmtest.Heard(llm.User("hi"), by("alice", "", rome, toBob, toCarol),
		result(rome, "It's rainy!"), result(toBob, "Successfully transferred to bob"), refused)))
	carol := newAgent(t, "carol", nil)
	swarm, err := agent.Swarm(agents{alice, bob, carol}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := swarm.Run(t.Context(), agent.SwarmState{State: agent.Ask("hi")})
	if err != nil || out.ActiveAgent != "bob" {
		t.Errorf("%s is active, %v", out.ActiveAgent, err)
	}
}

// A plain hand-off asks the other agent for once: the active one stays.
func TestPlainHandoffKeepsActiveAgent(t *testing.T) {
	alice := newAgent(t, "alice", []*llm.Tool{agent.Handoff("bob", nil)}, llmtest.Ask(toBob))
	bob := newAgent(t, "bob", nil, llmtest.Say("Ahoy!"))
	swarm, err := agent.Swarm(agents{alice, bob}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := swarm.Run(t.Context(), agent.SwarmState{State: agent.Ask("hi")})
	if err != nil || agent.Answer(out.State) != "Ahoy!" || out.ActiveAgent != "" {
		t.Errorf("%q is active and says %q, %v", out.ActiveAgent, agent.Answer(out.State), err)
	}
}

func TestActiveAgentRunsFirst(t *testing.T) {
	route := agent.ActiveAgent("alice", "alice", "bob")
	for _, tc := range []struct{ active, to, err string }{
		{"", `["alice"]`, ""},
		{"bob", `["bob"]`, ""},
		{"eve", "null", `unknown active agent "eve": update active_agent to one of ["alice" "bob"]`},
	} {
		next, err := route(context.Background(), agent.Active{ActiveAgent: tc.active})
		if got := marshal(t, next); got != tc.to {
			t.Errorf("%q leads to %s, want %s", tc.active, got, tc.to)
		}
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: err = %v, want %q", tc.active, err, tc.err)
		}
	}
}

func TestInvalidSwarmsAreRejected(t *testing.T) {
	alice := newAgent(t, "alice", nil)
	swarm := func(as agents, first string) error {
		_, err := agent.Swarm(as, &agent.SwarmOptions{Default: first})
		return err
	}
	_, stateless := agent.SwarmFor[agent.State](agents{alice}, nil)
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"no agents", swarm(nil, "alice"), "agent: no agents"},
		{"unknown default", swarm(agents{alice}, "bob"), `unknown default agent "bob": the agents are ["alice"]`},
		{"two of a name", swarm(agents{alice, alice}, ""), `duplicate agent name "alice"`},
		{"state without active agent", stateless, "state agent.State has no field ActiveAgent of type string: embed agent.Active"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.err == nil || !strings.Contains(tc.err.Error(), tc.want) {
				t.Errorf("err = %v, want %q", tc.err, tc.want)
			}
		})
	}
}
