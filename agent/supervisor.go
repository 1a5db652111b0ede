package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// Share controls how much of an agent's work the rest of its team sees.
type Share int

// Values of Share.
const (
	// ShareAnswer shares the last message. If that is a tool result, the message
	// with the call is shared too.
	ShareAnswer Share = iota
	// ShareAll shares all messages that the agent added.
	ShareAll
)

// SupervisorOptions configures [Supervisor]. A nil *SupervisorOptions means the
// defaults.
type SupervisorOptions struct {
	// Options configures the supervisor. An empty Name means "supervisor". Graph
	// configures the whole team.
	Options
	// Team is the name of the team's graph; empty means "team". A supervisor with
	// the team as an agent uses this name.
	Team string
	// Share controls how much of an agent's work the rest of the team sees.
	Share Share
	// Handoffs maps agent names to handoff tools. The default for an agent is
	// [Handoff] without options.
	Handoffs map[string]*llm.Tool
	// HideHandoffs keeps handoffs and handbacks out of the conversation. A model's
	// input may then end with another agent's message, which some providers reject.
	HideHandoffs bool
	// NoHandBack omits the two messages that return control to the supervisor after
	// an agent's work.
	NoHandBack bool
	// Forward gives the supervisor the tool forward_message, which ends the run
	// with an agent's last message as the answer.
	Forward bool
}

// Supervisor builds a team. The supervisor is an agent that hands the conversation
// to other agents, each of which returns it when finished. The run ends when the
// supervisor answers without a handoff.
//
//	           ┌──────────────┐
//	           ▼              │
//	start ─▶ supervisor ─▶ agents
//	           │
//	           ▼
//	          end
//
// The agents' graphs must have different names. If one message of the supervisor
// calls several agents, they run at the same time. A team can be an agent of
// another team. The agents do not inherit the supervisor's tools and middleware: give a gate
// or limit to each agent that needs it.
//
// An agent's writes to state fields other than the conversation are also written to
// the team's state. Such fields must not have a reducer.
func Supervisor[S any](model llm.Model, agents []*treadle.Graph[S, S], opts *SupervisorOptions) (*treadle.Graph[S, S], error) {
	if opts == nil {
		opts = &SupervisorOptions{}
	}
	own := opts.Options
	own.Name = cmp.Or(own.Name, "supervisor")
	t := &team[S]{SupervisorOptions: opts, supervisor: own.Name}
	tools, err := t.tools(agents)
	if err != nil {
		return nil, err
	}
	own.Tools = slices.Concat(own.Tools, tools)
	own.Graph = treadle.Options{}
	chief, err := For[S](model, &own)
	if err != nil {
		return nil, err
	}
	b := treadle.New[S](cmp.Or(opts.Team, "team"))
	treadle.AddGraph(b, own.Name, chief, treadle.Destinations(treadle.Nodes(append(namesOf(agents), treadle.End))...))
	b.Edge(treadle.Start, own.Name)
	for _, a := range agents {
		treadle.AddNode(b, a.Name(), t.member(a), treadle.Uses(a), treadle.Destinations(own.Name))
	}
	graph := opts.Graph
	graph.StepLimit = cmp.Or(graph.StepLimit, defaultSteps)
	return b.Compile(&graph)
}

// team builds a team's graph.
type team[S any] struct {
	*SupervisorOptions
	supervisor string
	messages   history[S]
}

// tools checks the team and returns the supervisor's tools.
func (t *team[S]) tools(agents []*treadle.Graph[S, S]) ([]*llm.Tool, error) {
	err := checkAgents(agents, t.supervisor)
	if t.Share != ShareAnswer && t.Share != ShareAll {
		err = errors.Join(err, fmt.Errorf("agent: invalid Share %d: want ShareAnswer or ShareAll", t.Share))
	}
	var noHistory error
	if t.messages, noHistory = historyOf[S](); noHistory != nil {
		return nil, errors.Join(err, noHistory)
	}
	err = errors.Join(err, t.checkState())
	if err != nil {
		return nil, err
	}
	names := namesOf(agents)
	for _, name := range slices.Sorted(maps.Keys(t.Handoffs)) {
		if !slices.Contains(names, name) {
			err = errors.Join(err, fmt.Errorf("agent: SupervisorOptions.Handoffs: unknown agent %q: the agents are %q", name, names))
		}
	}
	var tools []*llm.Tool
	for _, name := range names {
		tool := t.Handoffs[name]
		if tool == nil {
			tool = Handoff(name, &HandoffOptions{Hidden: t.HideHandoffs})
		}
		tools = append(tools, tool)
	}
	if t.Forward {
		tools = append(tools, forwardTool(t.supervisor))
	}
	return tools, err
}

// checkState rejects fields with a reducer, because an agent's contribution to them
// cannot be determined.
func (t *team[S]) checkState() error {
	var zero S
	fields, err := plainFields(zero)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if v := reflect.ValueOf(fields[name]); v.IsValid() && v.MethodByName("Reduce").IsValid() {
			err = errors.Join(err, fmt.Errorf("agent: field %s of %T accumulates, so the team cannot determine what an agent added: move it to the states of single agents", name, zero))
		}
	}
	return err
}

// checkAgents checks that every agent has a unique name.
func checkAgents[A any](agents []*treadle.Graph[A, A], taken ...string) error {
	var errs []error
	if len(agents) == 0 {
		errs = append(errs, errors.New("agent: no agents"))
	}
	for i, a := range agents {
		switch {
		case a == nil:
			errs = append(errs, fmt.Errorf("agent: nil agent at index %d", i))
			continue
		case a.Name() == defaultName:
			errs = append(errs, fmt.Errorf("agent: agent at index %d has no name: set Options.Name", i))
		case slices.Contains(taken, a.Name()):
			errs = append(errs, fmt.Errorf("agent: duplicate agent name %q", a.Name()))
		}
		taken = append(taken, a.Name())
	}
	return errors.Join(errs...)
}

func namesOf[A any](agents []*treadle.Graph[A, A]) []string {
	names := make([]string, len(agents))
	for i, a := range agents {
		names[i] = a.Name()
	}
	return names
}

// member returns the node of an agent. It returns to the supervisor with a goto,
// because an edge would also be followed when the agent hands off to another agent.
func (t *team[S]) member(a *treadle.Graph[S, S]) func(context.Context, S) (treadle.Command[treadle.Update], error) {
	return func(ctx context.Context, s S) (treadle.Command[treadle.Update], error) {
		next := treadle.Command[treadle.Update]{Goto: treadle.To(t.supervisor)}
		out, err := a.Run(ctx, s)
		if err != nil {
			return next, err
		}
		update, err := changes(s, out)
		if err != nil {
			return next, err
		}
		given := t.messages.of(s)
		news := t.shared(added(given, t.messages.of(out)))
		for i := range news {
			if news[i].Role == llm.RoleAI {
				news[i].Name = cmp.Or(news[i].Name, a.Name())
			}
		}
		if !t.HideHandoffs && !t.NoHandBack {
			news = append(news, handBack(ctx, a.Name(), t.supervisor, given)...)
		}
		update["messages"] = news
		next.Update = &update
		return next, nil
	}
}

// added returns the messages of now that are not in given. Messages given without
// an ID are identified by their position.
func added(given, now llm.Messages) llm.Messages {
	known := map[string]bool{}
	for _, m := range given {
		known[m.ID] = m.ID != ""
	}
	var out llm.Messages
	for i, m := range now {
		if !known[m.ID] && (i >= len(given) || given[i].ID != "") {
			out = append(out, m)
		}
	}
	return out
}

// shared returns the messages that the rest of the team sees.
func (t *team[S]) shared(ms llm.Messages) llm.Messages {
	if t.Share == ShareAll || len(ms) == 0 {
		return ms
	}
	from := len(ms) - 1
	if ms[from].Role == llm.RoleTool {
		from = max(lastAI(ms), 0)
	}
	return slices.Clone(ms[from:])
}

// isHandBack is the Metadata key that marks handback messages, as in LangGraph.
const isHandBack = "__is_handoff_back"

// handBack returns a tool call and its result that announce the return of control.
// The call's ID is derived from the handoff call, so it is the same when a run is
// repeated and different in every turn.
func handBack(ctx context.Context, from, to string, given llm.Messages) llm.Messages {
	id := ""
	for _, m := range slices.Backward(given) {
		if m.Metadata[handoffTo] == from {
			id = cmp.Or(m.ToolCallID, strings.TrimPrefix(m.ID, taskID)) + "_back"
			break
		}
	}
	if id == "" || lastAsking(given, map[string]bool{id: true}) >= 0 { // handed off by a custom tool
		id = treadle.InfoFrom(ctx).TaskID + "_back"
	}
	meta := map[string]any{isHandBack: true}
	call := llm.ToolCall{ID: id, Name: "transfer_back_to_" + toolNameOf(to), Args: []byte("{}")}
	said := llm.Assistant("Transferring back to "+to, call)
	said.Name, said.Metadata = from, meta
	done := llm.ToolResult(call, "Successfully transferred back to "+to)
	done.Metadata = meta
	return llm.Messages{said, done}
}

// plainFields returns the fields of a state except the conversation.
func plainFields(s any) (treadle.Update, error) {
	u, err := treadle.UpdateOf(s)
	if err != nil {
		return nil, fmt.Errorf("agent: state %T: %w", s, err)
	}
	u = maps.Clone(u)
	for _, key := range messageKeys {
		delete(u, key)
	}
	return u, nil
}

// changes returns the changed fields, except the conversation.
func changes(before, after any) (treadle.Update, error) {
	old, err := plainFields(before)
	if err != nil {
		return nil, err
	}
	now, err := plainFields(after)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(now, func(name string, v any) bool { return reflect.DeepEqual(v, old[name]) })
	return now, nil
}
