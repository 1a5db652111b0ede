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

// Verdict is what a person decides about a tool call.
type Verdict string

// The verdicts on a tool call. Their JSON is LangChain's.
const (
	Accept  Verdict = "approve" // run it
	Edit    Verdict = "edit"    // run Edited instead
	Reject  Verdict = "reject"  // do not run it; the model is told so, with Message as the reason
	Respond Verdict = "respond" // do not run it; Message is its result
)

var verdicts = []Verdict{Accept, Edit, Reject, Respond}

// Gate says which calls of a tool need a person's approval.
type Gate struct {
	Tool string
	// Allow are the verdicts to choose from; none means all of them.
	Allow []Verdict
	// Description is shown with the call; by default it says that approval is
	// needed, for which tool and with which arguments.
	Description string
	// When, if not nil, says of a call whether it needs approval at all.
	When func(ctx context.Context, call llm.ToolCall) (bool, error)
}

// Review is the question that [Approve] asks: the calls of one answer that need
// approval. Its JSON is LangChain's. The answer is [Decisions], one for each call
// in their order.
type Review struct {
	Calls []Action     `json:"action_requests"`
	Rules []ReviewRule `json:"review_configs"` // one for each call
}

// Action is a call as people see it.
type Action struct {
	Name        string          `json:"name"`
	Args        json.RawMessage `json:"args"`
	Description string          `json:"description,omitempty"`
}

// ReviewRule says what may be decided about the calls of a tool.
type ReviewRule struct {
	Tool  string    `json:"action_name"`
	Allow []Verdict `json:"allowed_decisions"`
}

// Decisions is the answer to a [Review].
type Decisions []Decision

// Decision is about one call.
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

// Approve has people decide about the calls of the gated tools before any call of
// the answer runs. One question, a [Review], is asked for all of them. An answer
// with too few or too many decisions, with a verdict that is not allowed or
// without what the verdict needs is refused by Resume and the thread stays as it
// was.
//
// The agent needs a saver and runs on a thread.
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

// check reports what would let a call pass that should be asked about.
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
			errs = append(errs, fmt.Errorf("two gates are for the tool %q: only one would be asked", g.Tool))
		}
		seen[g.Tool] = true
		for _, v := range g.Allow {
			if !slices.Contains(verdicts, v) { // it would count as consent
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

// gated are the calls that need approval, each with its gate.
func (a approval) gated(ctx context.Context, history llm.Messages) (calls []llm.ToolCall, gates []Gate, err error) {
	for _, call := range pending(history) {
		i := slices.IndexFunc(a, func(g Gate) bool { return g.Tool == call.Name })
		if i < 0 {
			continue
		}
		if a[i].When != nil {
			needed, err := a[i].When(ctx, call)
			if err != nil {
				return nil, nil, fmt.Errorf("agent: whether the call of %s needs approval: %w", call.Name, err)
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

// answerTo is the schema of the answer: as many decisions as there are calls,
// each with a verdict that its gate allows and what that needs.
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

// decided is the answer of the model with the edited calls, if there are any, and
// the results of those that are not to run.
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
