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

// A DecisionType is the kind of a person's decision about a tool call.
type DecisionType string

// Decisions about a tool call. Their values are LangChain's.
const (
	Approve DecisionType = "approve" // run it
	Edit    DecisionType = "edit"    // run Edited instead
	Reject  DecisionType = "reject"  // do not run it; the model gets Message as the reason
	Respond DecisionType = "respond" // do not run it; Message is its result
)

var decisionTypes = []DecisionType{Approve, Edit, Reject, Respond}

// Gate selects the calls of a tool that need a person's approval.
type Gate struct {
	Tool string
	// Allow lists the permitted decisions; empty means all.
	Allow []DecisionType
	// Description is shown with the call. The default requests approval and names
	// the tool and its arguments.
	Description string
	// When, if not nil, reports whether a call needs approval.
	When func(ctx context.Context, call llm.ToolCall) (bool, error)
}

// Review is the interrupt value that [Gates] sends: the tool calls of one message
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

// ReviewRule lists the decisions permitted for the calls of a tool.
type ReviewRule struct {
	Tool  string         `json:"action_name"`
	Allow []DecisionType `json:"allowed_decisions"`
}

// Decisions is the answer to a [Review].
type Decisions []Decision

// Decision is a person's decision about one call.
type Decision struct {
	Type    DecisionType `json:"type"`
	Edited  *Action      `json:"edited_action,omitempty"` // for Edit
	Message string       `json:"message,omitempty"`       // the reason for Reject, the result for Respond
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

// Gates asks a person about the calls of the tools that have a gate. It
// interrupts the run once, with a [Review], for all such calls of a message, before
// any call of that message runs. The answer is [Decisions]. [treadle.Thread.Resume]
// rejects an answer with the wrong number of decisions, a decision that its gate does
// not allow, an Edit without Edited (both Name and Args), or a Respond without Message;
// the thread then remains unchanged. The Message of a Reject is optional: without it, the
// model reads that the user rejected the call.
//
// A call that a tool makes with [Calls] has a question of its own, and an Edit can change
// only its arguments.
//
// The agent needs a saver and must run on a thread.
func Gates(gates ...Gate) *Middleware {
	all := gateList(gates)
	return &Middleware{Name: "gates", AfterModel: NewHook(all.review), BeforeNestedCall: all.nested, Check: all.check}
}

// Decide asks a person about one call, from [Middleware].WrapTool. It interrupts the run
// with a [Review] of that call, and returns the decision once the run is resumed. Unlike
// with [Gates], the other calls of the message run in the meantime, and each call has a
// separate question. The caller acts on the decision; see [Decision.Result].
func Decide(ctx context.Context, g Gate, call llm.ToolCall) (Decision, error) {
	gates := []Gate{g}
	asked := treadle.Question{Value: question([]llm.ToolCall{call}, gates), Schema: answerTo(gates)}
	decisions, err := treadle.Interrupt[Decisions](ctx, asked)
	if err != nil {
		return Decision{}, err
	}
	return decisions[0], nil
}

// Result returns the result of a call that must not run, because the decision is a
// Reject or a Respond. The second result is false for an Approve or an Edit.
func (d Decision) Result(call llm.ToolCall) (llm.Message, bool) {
	switch d.Type {
	case Respond:
		return llm.ToolResult(call, d.Message), true
	case Reject:
		text := fmt.Sprintf("User rejected the tool call for `%s` with reason: %s", call.Name, d.Message)
		if d.Message == "" {
			text = fmt.Sprintf("User rejected the tool call for `%s` with id %s. The tool was not executed. "+
				"Do not retry this tool call unless the user explicitly requests it.", call.Name, call.ID)
		}
		return llm.ToolResult(call, llm.Message{Content: text, Status: llm.StatusError}), true
	}
	return llm.Message{}, false
}

type gateList []Gate

// check reports mistakes that would let a call run without approval.
func (all gateList) check(s Setup) error {
	var errs []error
	if len(all) == 0 {
		errs = append(errs, errors.New("no gates: name the tools whose calls need approval"))
	}
	seen := map[string]bool{}
	for i, g := range all {
		switch {
		case g.Tool == "":
			errs = append(errs, fmt.Errorf("gate at index %d names no tool", i))
		case seen[g.Tool]:
			errs = append(errs, fmt.Errorf("duplicate gate for tool %q", g.Tool))
		default:
			errs = append(errs, s.RequireOwnTools(g.Tool))
		}
		seen[g.Tool] = true
		for _, v := range g.Allow {
			if !slices.Contains(decisionTypes, v) { // an unknown decision would count as consent
				errs = append(errs, fmt.Errorf("gate for tool %q allows unknown decision %q: want some of %q", g.Tool, v, decisionTypes))
			}
		}
	}
	return errors.Join(errs...)
}

func (all gateList) review(ctx context.Context, c conversation) (*said, error) {
	calls, gates, err := all.gated(ctx, c.Messages)
	if err != nil || len(calls) == 0 {
		return nil, err
	}
	decisions, err := treadle.Interrupt[Decisions](ctx, treadle.Question{Value: question(calls, gates), Schema: answerTo(gates)})
	if err != nil {
		return nil, err
	}
	return decided(c.Messages[lastAI(c.Messages)], calls, decisions), nil
}

// nested asks about a nested call.
func (all gateList) nested(ctx context.Context, call ToolCall) (ToolCall, *llm.Message, error) {
	i := slices.IndexFunc(all, func(g Gate) bool { return g.Tool == call.Name })
	if i < 0 {
		return call, nil, nil
	}
	if all[i].When != nil {
		needed, err := all[i].When(ctx, call.ToolCall)
		if err != nil {
			return call, nil, fmt.Errorf("agent: gate for tool %q: %w", call.Name, err)
		}
		if !needed {
			return call, nil, nil
		}
	}
	d, err := Decide(ctx, all[i], call.ToolCall)
	if err != nil {
		return call, nil, err
	}
	if m, ok := d.Result(call.ToolCall); ok {
		return call, &m, nil
	}
	if d.Type == Edit {
		if d.Edited.Name != call.Name {
			m := llm.Message{Status: llm.StatusError, Content: fmt.Sprintf(
				"Error: the person replaced the call of %s by a call of %s, which is not possible within another tool. The call was not made.", call.Name, d.Edited.Name)}
			return call, &m, nil
		}
		call.Args = d.Edited.Args
	}
	return call, nil, nil
}

// gated returns the calls that need approval and the gate of each.
func (all gateList) gated(ctx context.Context, history llm.Messages) (calls []llm.ToolCall, gates []Gate, err error) {
	for _, call := range pending(history) {
		i := slices.IndexFunc(all, func(g Gate) bool { return g.Tool == call.Name })
		if i < 0 {
			continue
		}
		if all[i].When != nil {
			needed, err := all[i].When(ctx, call)
			if err != nil {
				return nil, nil, fmt.Errorf("agent: gate for tool %q: %w", call.Name, err)
			}
			if !needed {
				continue
			}
		}
		calls, gates = append(calls, call), append(gates, all[i])
	}
	return calls, gates, nil
}

func (g Gate) allowed() []DecisionType {
	if len(g.Allow) == 0 {
		return decisionTypes
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
// type that its gate allows and the field that the type requires.
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

func needs(v DecisionType, field string) *jsonschema.Schema {
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
		if d.Type == Edit {
			at := slices.IndexFunc(kept, func(c llm.ToolCall) bool { return c.ID == call.ID })
			kept[at].Name, kept[at].Args = d.Edited.Name, d.Edited.Args
			answer.ToolCalls = kept
			out = llm.Messages{answer}
		}
		if m, ok := d.Result(call); ok {
			results = append(results, m)
		}
	}
	if out = append(out, results...); out == nil {
		return nil
	}
	return &said{out}
}
