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

// Share says how much of an agent's work the rest of its team sees.
type Share int

// What the rest of a team sees.
const (
	// ShareAnswer shares the last message. If that is a tool's result, the answer
	// with the call is shared too.
	ShareAnswer Share = iota
	// ShareAll shares all messages that the agent has added.
	ShareAll
)

// SupervisorOptions configure [Supervisor]. A nil *SupervisorOptions is the zero
// value.
type SupervisorOptions struct {
	// Options are the options of the supervisor. An empty Name means "supervisor".
	// Graph has the options of the whole team.
	Options
	// Team is the name of the team's graph; empty means "team". A supervisor that
	// has the team as an agent uses this name.
	Team string
	// Share is what the rest of the team sees of an agent's work.
	Share Share
	// Handoffs are the hand-off tools, by the agents' names. The default for an
	// agent is [Handoff] without options.
	Handoffs map[string]*llm.Tool
	// HideHandoffs keeps hand-offs and hand-backs out of the conversation. The
	// conversation of a model may then end with the answer of another agent, which
	// some providers reject.
	HideHandoffs bool
	// NoHandBack omits the two messages after an agent's work that return control
	// to the supervisor.
	NoHandBack bool
	// Forward gives the supervisor the tool forward_message, which ends the run with
	// the last message of an agent as the answer.
	Forward bool
}

// Supervisor makes a team. The supervisor is an agent that hands the conversation to
// other agents. Each of them returns it when it is done. The run ends when the
// supervisor answers without a hand-off.
//
//	           ┌──────────────┐
//	           ▼              │
//	start ─▶ supervisor ─▶ agents
//	           │
//	           ▼
//	          end
//
// The names of the agents' graphs must differ. If one answer of the supervisor
// calls several agents, they run at the same time. A team can be an agent of
// another team.
//
// What an agent writes to other fields of the state than the conversation is
// written to the team's state. Such fields must not have a reducer.
func Supervisor[S any](model llm.Model, agents []*treadle.Graph[S, S], o *SupervisorOptions) (*treadle.Graph[S, S], error) {
	if o == nil {
		o = &SupervisorOptions{}
	}
	own := o.Options
	own.Name = cmp.Or(own.Name, "supervisor")
	t := &team[S]{SupervisorOptions: o, supervisor: own.Name}
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
	b := treadle.New[S](cmp.Or(o.Team, "team"))
	treadle.AddGraph(b, own.Name, chief, treadle.Destinations(append(namesOf(agents), treadle.End)...))
	b.Edge(treadle.Start, own.Name)
	for _, a := range agents {
		treadle.AddNode(b, a.Name(), t.member(a), treadle.Uses(a), treadle.Destinations(own.Name))
	}
	graph := o.Graph
	graph.StepLimit = cmp.Or(graph.StepLimit, defaultSteps)
	return b.Compile(&graph)
}

// team is one in the making.
type team[S any] struct {
	*SupervisorOptions
	supervisor string
	messages   history[S]
}

// tools checks the team and makes the supervisor's tools.
func (t *team[S]) tools(agents []*treadle.Graph[S, S]) ([]*llm.Tool, error) {
	err := checkAgents(agents, t.supervisor)
	if t.Share != ShareAnswer && t.Share != ShareAll {
		err = errors.Join(err, fmt.Errorf("agent: Share is %d: want ShareAnswer or ShareAll", t.Share))
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
			err = errors.Join(err, fmt.Errorf("agent: SupervisorOptions.Handoffs has a tool for %q, which is not one of the agents %q", name, names))
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

// checkState refuses fields of which an agent's part cannot be told.
func (t *team[S]) checkState() error {
	var zero S
	fields, err := plainFields(zero)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if v := reflect.ValueOf(fields[name]); v.IsValid() && v.MethodByName("Reduce").IsValid() {
			err = errors.Join(err, fmt.Errorf("agent: the field %s of %T accumulates, so the team cannot know what an agent added to it: keep it in the states of single agents", name, zero))
		}
	}
	return err
}

// checkAgents checks that agents have names to be told apart by.
func checkAgents[A any](agents []*treadle.Graph[A, A], taken ...string) error {
	var errs []error
	if len(agents) == 0 {
		errs = append(errs, errors.New("agent: there are no agents"))
	}
	for i, a := range agents {
		switch {
		case a == nil:
			errs = append(errs, fmt.Errorf("agent: agent %d is nil", i))
			continue
		case a.Name() == defaultName:
			errs = append(errs, fmt.Errorf("agent: agent %d has no name: set Options.Name", i))
		case slices.Contains(taken, a.Name()):
			errs = append(errs, fmt.Errorf("agent: two agents are named %q", a.Name()))
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

// member is the node of an agent. It goes back to the supervisor by a goto and not
// by an edge, which would be followed too when the agent hands to another one.
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

// added are the messages that were not given. Those that were given without an id
// stand where they stood.
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

// shared is what the others see.
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

// isHandBack marks messages in their Metadata, as LangGraph does.
const isHandBack = "__is_handoff_back"

// handBack says that control is back, as a call of a tool and its result. The
// call's id follows from the call that handed off, so that it is the same when a
// run is repeated and another one in every turn.
func handBack(ctx context.Context, from, to string, given llm.Messages) llm.Messages {
	id := ""
	for _, m := range slices.Backward(given) {
		if m.Metadata[handoffTo] == from {
			id = cmp.Or(m.ToolCallID, strings.TrimPrefix(m.ID, taskID)) + "_back"
			break
		}
	}
	if id == "" || lastAsking(given, map[string]bool{id: true}) >= 0 { // a tool of one's own has handed off
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

// plainFields are the fields of a state without the conversation.
func plainFields(s any) (treadle.Update, error) {
	u, err := treadle.UpdateOf(s)
	if err != nil {
		return nil, fmt.Errorf("agent: the state %T: %w", s, err)
	}
	u = maps.Clone(u)
	for _, key := range messageKeys {
		delete(u, key)
	}
	return u, nil
}

// changes are the fields besides the conversation that have another value.
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
