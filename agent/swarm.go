package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// Active contains the name of a swarm's active agent, which gets the next input.
// Embed it in the state for [SwarmFor].
type Active struct {
	ActiveAgent string `json:"active_agent,omitempty"`
}

// SwarmState is the state of a swarm created by [Swarm]: a conversation and the
// active agent.
type SwarmState struct {
	State
	Active
}

// SwarmOptions configures [Swarm]. A nil *SwarmOptions means the defaults.
type SwarmOptions struct {
	Name    string // name of the graph; empty means "swarm"
	Default string // agent that starts; empty means the first
	Graph   treadle.Options
}

// Swarm builds a graph of agents that hand the conversation to each other with
// [SwarmHandoff] tools. The last agent to receive the conversation answers the user
// and gets the next input of the thread.
func Swarm[A any](agents []*treadle.Graph[A, A], opts *SwarmOptions) (*treadle.Graph[SwarmState, SwarmState], error) {
	return SwarmFor[SwarmState](agents, opts)
}

// SwarmFor is like [Swarm], but the state is your type S, which must embed
// [Active]. The agents read and write the fields that their states share with S.
func SwarmFor[S, A any](agents []*treadle.Graph[A, A], opts *SwarmOptions) (*treadle.Graph[S, S], error) {
	if opts == nil {
		opts = &SwarmOptions{}
	}
	err := checkAgents(agents)
	if f, ok := reflect.TypeFor[S]().FieldByName("ActiveAgent"); !ok || f.Type.Kind() != reflect.String {
		err = errors.Join(err, fmt.Errorf("agent: state %s has no field ActiveAgent of type string: embed agent.Active", reflect.TypeFor[S]()))
	}
	if err != nil {
		return nil, err
	}
	names := namesOf(agents)
	first := cmp.Or(opts.Default, names[0])
	if !slices.Contains(names, first) {
		return nil, fmt.Errorf("agent: unknown default agent %q: the agents are %q", first, names)
	}
	b := treadle.New[S](cmp.Or(opts.Name, "swarm"))
	for _, a := range agents {
		others := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == a.Name() })
		treadle.AddGraph(b, a.Name(), a, treadle.Destinations(treadle.Nodes(append(others, treadle.End))...))
	}
	treadle.AddBranch(b, treadle.Start, ActiveAgent(first, names...), treadle.Nodes(names)...)
	graph := opts.Graph
	graph.StepLimit = cmp.Or(graph.StepLimit, defaultSteps)
	return b.Compile(&graph)
}

// ActiveAgent returns a branch from the start of a graph to the active agent.
// agents lists the names of all agents; first is the agent to start with.
func ActiveAgent(first string, agents ...string) func(context.Context, Active) (treadle.Goto, error) {
	return func(_ context.Context, a Active) (treadle.Goto, error) {
		to := cmp.Or(a.ActiveAgent, first)
		if !slices.Contains(agents, to) {
			return nil, fmt.Errorf("agent: unknown active agent %q: update active_agent to one of %q", to, agents)
		}
		return treadle.To(to), nil
	}
}

// SwarmHandoff is like [Handoff], but for the agents of a [Swarm]: it also makes
// the other agent the active one. If a message contains several handoffs, only the
// first takes effect and the others get an error as their result, because only one
// agent can be active.
func SwarmHandoff(agent string, opts *HandoffOptions) *llm.Tool {
	active := HandoffOptions{}
	if opts != nil {
		active = *opts
	}
	active.Update = maps.Clone(active.Update)
	if active.Update == nil {
		active.Update = treadle.Update{}
	}
	active.Update["active_agent"] = agent
	return Handoff(agent, &active)
}
