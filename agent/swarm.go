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

// Active is the part of a swarm's state that says which agent speaks. Embed it in
// a state of one's own.
type Active struct {
	ActiveAgent string `json:"active_agent,omitempty"`
}

// SwarmState is the state of a swarm that needs no more than a conversation.
type SwarmState struct {
	State
	Active
}

// SwarmOptions configure [Swarm]. A nil *SwarmOptions is the zero value.
type SwarmOptions struct {
	Name    string // of the graph; "swarm" if it is empty
	Default string // the agent that begins; the first if it is empty
	Graph   treadle.Options
}

// Swarm makes a graph of agents that hand the conversation to each other with
// tools that [SwarmHandoff] makes. The agent that has it last answers the user,
// and goes on in the thread's next turn.
func Swarm[A any](agents []*treadle.Graph[A, A], o *SwarmOptions) (*treadle.Graph[SwarmState, SwarmState], error) {
	return SwarmFor[SwarmState](agents, o)
}

// SwarmFor makes a swarm with a state of one's own, which embeds [Active]. Agents
// read and write the fields that their states share with it.
func SwarmFor[S, A any](agents []*treadle.Graph[A, A], o *SwarmOptions) (*treadle.Graph[S, S], error) {
	if o == nil {
		o = &SwarmOptions{}
	}
	err := checkAgents(agents)
	if f, ok := reflect.TypeFor[S]().FieldByName("ActiveAgent"); !ok || f.Type.Kind() != reflect.String {
		err = errors.Join(err, fmt.Errorf("agent: the state %s has no field ActiveAgent of type string: embed agent.Active", reflect.TypeFor[S]()))
	}
	if err != nil {
		return nil, err
	}
	names := namesOf(agents)
	first := cmp.Or(o.Default, names[0])
	if !slices.Contains(names, first) {
		return nil, fmt.Errorf("agent: the default agent is %q, which is none of %q", first, names)
	}
	b := treadle.New[S](cmp.Or(o.Name, "swarm"))
	for _, a := range agents {
		others := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == a.Name() })
		treadle.AddGraph(b, a.Name(), a, treadle.Destinations(append(others, treadle.End)...))
	}
	treadle.AddBranch(b, treadle.Start, ActiveAgent(first, names...), names...)
	graph := o.Graph
	graph.StepLimit = cmp.Or(graph.StepLimit, defaultSteps)
	return b.Compile(&graph)
}

// ActiveAgent is a branch from the start of a graph to the agent that speaks: one
// of the agents, and the first of them to speak if there is none yet.
func ActiveAgent(first string, agents ...string) func(context.Context, Active) (treadle.Goto, error) {
	return func(_ context.Context, a Active) (treadle.Goto, error) {
		to := cmp.Or(a.ActiveAgent, first)
		if !slices.Contains(agents, to) {
			return nil, fmt.Errorf("agent: the active agent is %q, which is none of %q: update active_agent", to, agents)
		}
		return treadle.To(to), nil
	}
}

// SwarmHandoff is [Handoff] between the agents of a [Swarm]: the other agent
// becomes the active one. There is only one such at a time, so that of several
// hand-offs in one turn the first is made, and the others are answered with an
// error.
func SwarmHandoff(agent string, o *HandoffOptions) *llm.Tool {
	active := HandoffOptions{}
	if o != nil {
		active = *o
	}
	active.Update = maps.Clone(active.Update)
	if active.Update == nil {
		active.Update = treadle.Update{}
	}
	active.Update["active_agent"] = agent
	return Handoff(agent, &active)
}
