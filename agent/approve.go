package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// A Verdict is a person's decision about a tool call.
type Verdict string

// Verdicts about a tool call. Their values are LangChain's.
const (
	Accept  Verdict = "approve" // run it
	Edit    Verdict = "edit"    // run Edited instead
	Reject  Verdict = "reject"  // do not run it; the model gets Message as the reason
	Respond Verdict = "respond" // do not run it; Message is its result
)

var verdicts = []Verdict{Accept, Edit, Reject, Respond}

// Gate selects the calls of a tool that need a person's approval.
type Gate struct {
	Tool string
	// Allow lists the permitted verdicts; empty means all.
	Allow []Verdict
	// Description is shown with the call. The default requests approval and names
	// the tool and its arguments.
	Description string
	// When, if not nil, reports whether a call needs approval.
	When func(ctx context.Context, call llm.ToolCall) (bool, error)
}

// Review is the interrupt value that [Approve] sends: the tool calls of one message
// that need approval. Its JSON is LangChain's. The answer is [Decisions], one for
// each call in order.
type Review struct {
	Calls []Action     `json:"action_requests"`
	Rules []ReviewRule `json:"review_configs"` // one for each call
}

// Action is a tool call as shown to a person.
type Action struct {
	Name        string          `json:"name"`
	Args        json.RawMessage `json:"args"`
	Description string          `json:"description,omitempty"`
}

// ReviewRule lists the verdicts permitted for the calls of a tool.
type ReviewRule struct {
	Tool  string    `json:"action_name"`
	Allow []Verdict `json:"allowed_decisions"`
}

// Decisions is the answer to a [Review].
type Decisions []Decision

// Decision is a person's decision about one call.
type Decision struct {
	Type    Verdict `json:"type"`
	Edited  *Action `json:"edited_action,omitempty"` // for Edit
	Message string  `json:"message,omitempty"`       // the reason for Reject, the result for Respond
}

type decisionsJSON struct {
	Decisions []Decision `json:"decisions"`
}

// MarshalJSON writes {"decisions": […]}.
func (d Decisions) MarshalJSON() ([]byte, error) { return json.Marshal(decisionsJSON{d}) }

// UnmarshalJSON reads {"decisions": […]}.
func (d *Decisions) UnmarshalJSON(raw []byte) error {
	var all decisionsJSON
	err := json.Unmarshal(raw, &all)
	*d = all.Decisions
	return err
}

// Approve asks a person about the calls of the tools that have a gate. It
// interrupts the run once, with a [Review], for all such calls of a message, before
// any call of that message runs. The answer is [Decisions]. [treadle.Thread.Resume]
// rejects an answer with the wrong number of decisions, a verdict that is not
// allowed, or a decision that lacks its Edited or Message; the thread then remains
// unchanged.
//
// The agent needs a saver and must run on a thread.
func Approve(gates ...Gate) *Middleware {
	a := approval(gates)
	m := &Middleware{Name: "approve", AfterModel: NewHook(a.review), err: a.check(), runs: true}
	for _, g := range gates {
		if g.Tool != "" {
			m.names = append(m.names, g.Tool)
		}
	}
	return m
}

// check reports mistakes that would let a call run without approval.
func (a approval) check() error {
	var errs []error
	if len(a) == 0 {
		errs = append(errs, errors.New("it has no gates: name the tools whose calls need approval"))
	}
	seen := map[string]bool{}
	for i, g := range a {
		switch {
		case g.Tool == "":
			errs = append(errs, fmt.Errorf("gate %d names no tool", i))
		case seen[g.Tool]:
			errs = append(errs, fmt.Errorf("the tool %q has two gates: give it one", g.Tool))
		}
		seen[g.Tool] = true
		for _, v := range g.Allow {
			if !slices.Contains(verdicts, v) { // an unknown verdict would count as consent
				errs = append(errs, fmt.Errorf("the gate of %s allows %q: want some of %q", g.Tool, v, verdicts))
			}
		}
	}
	return errors.Join(errs...)
}

type approval []Gate

func (a approval) review(ctx context.Context, c conversation) (*said, error) {
	calls, gates, err := a.gated(ctx, c.Messages)
	if err != nil || len(calls) == 0 {
		return nil, err
	}
	decisions, err := treadle.Interrupt[Decisions](ctx, treadle.Question{Value: question(calls, gates), Schema: answerTo(gates)})
	if err != nil {
		return nil, err
	}
	return decided(c.Messages[lastAI(c.Messages)], calls, decisions), nil
}

// gated returns the calls that need approval and the gate of each.
func (a approval) gated(ctx context.Context, history llm.Messages) (calls []llm.ToolCall, gates []Gate, err error) {
	for _, call := range pending(history) {
		i := slices.IndexFunc(a, func(g Gate) bool { return g.Tool == call.Name })
		if i < 0 {
			continue
		}
		if a[i].When != nil {
			needed, err := a[i].When(ctx, call)
			if err != nil {
				return nil, nil, fmt.Errorf("agent: the gate of %s cannot decide whether the call needs approval: %w", call.Name, err)
			}
			if !needed {
				continue
			}
		}
		calls, gates = append(calls, call), append(gates, a[i])
	}
	return calls, gates, nil
}

func (g Gate) allowed() []Verdict {
	if len(g.Allow) == 0 {
		return verdicts
	}
	return g.Allow
}

func question(calls []llm.ToolCall, gates []Gate) Review {
	var r Review
	for i, call := range calls {
		args := call.Args
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		about := cmp.Or(gates[i].Description, fmt.Sprintf("Tool execution requires approval\n\nTool: %s\nArgs: %s", call.Name, args))
		r.Calls = append(r.Calls, Action{call.Name, args, about})
		r.Rules = append(r.Rules, ReviewRule{call.Name, gates[i].allowed()})
	}
	return r
}

// answerTo returns the schema of the answer: one decision per call, each with a
// verdict that its gate allows and the field that the verdict requires.
func answerTo(gates []Gate) *jsonschema.Schema {
	n := len(gates)
	list := &jsonschema.Schema{Type: "array", MinItems: &n, MaxItems: &n}
	for _, g := range gates {
		one := &jsonschema.Schema{Type: "object", Required: []string{"type"}, Properties: map[string]*jsonschema.Schema{
			"type": {Type: "string"}, "message": {Type: "string"}, "edited_action": editedSchema()}}
		for _, v := range g.allowed() {
			one.Properties["type"].Enum = append(one.Properties["type"].Enum, string(v))
		}
		one.AllOf = []*jsonschema.Schema{needs(Edit, "edited_action"), needs(Respond, "message")}
		list.PrefixItems = append(list.PrefixItems, one)
	}
	return &jsonschema.Schema{Type: "object", Required: []string{"decisions"}, Properties: map[string]*jsonschema.Schema{"decisions": list}}
}

func editedSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Required: []string{"name", "args"}, Properties: map[string]*jsonschema.Schema{
		"name": {Type: "string"}, "args": {Type: "object"}, "description": {Type: "string"}}}
}

func needs(v Verdict, field string) *jsonschema.Schema {
	is := any(string(v))
	return &jsonschema.Schema{
		If:   &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"type": {Const: &is}}},
		Then: &jsonschema.Schema{Required: []string{field}},
	}
}

// decided returns the model's message with the edited calls, if any, and the
// results of the calls that must not run.
func decided(answer llm.Message, calls []llm.ToolCall, decisions Decisions) *said {
	var out, results llm.Messages
	kept := slices.Clone(answer.ToolCalls)
	for i, call := range calls {
		d := decisions[i]
		switch d.Type {
		case Edit:
			at := slices.IndexFunc(kept, func(c llm.ToolCall) bool { return c.ID == call.ID })
			kept[at].Name, kept[at].Args = d.Edited.Name, d.Edited.Args
			answer.ToolCalls = kept
			out = llm.Messages{answer}
		case Respond:
			results = append(results, llm.ToolResult(call, d.Message))
		case Reject:
			text := fmt.Sprintf("User rejected the tool call for `%s` with reason: %s", call.Name, d.Message)
			if d.Message == "" {
				text = fmt.Sprintf("User rejected the tool call for `%s` with id %s. The tool was not executed. "+
					"Do not retry this tool call unless the user explicitly requests it.", call.Name, call.ID)
			}
			results = append(results, llm.ToolResult(call, llm.Message{Content: text, Status: llm.StatusError}))
		}
	}
	if out = append(out, results...); out == nil {
		return nil
	}
	return &said{out}
}
