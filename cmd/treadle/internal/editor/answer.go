package editor

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	acp "github.com/coder/acp-go-sdk"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
)

// answer answers the questions of a thread, by their IDs: the editor runs its tools and asks its
// user for permission. Any other question is sent as a message, and the prompt, if it is not
// sent yet, is its answer. Everything that the user sees comes from the saved questions.
func (t *turn) answer(asked []treadle.Pause, ms llm.Messages) (map[string]any, error) {
	answers := map[string]any{}
	var open []treadle.Pause
	used := map[string]bool{} // IDs of calls that a question is about
	for _, q := range asked {
		a, err := t.decide(q, ms, used)
		if err != nil {
			return nil, err
		}
		if a == nil {
			open = append(open, q)
			continue
		}
		answers[q.ID] = a
	}
	for _, q := range open {
		if t.message != nil {
			answers[q.ID] = plain(*t.message, q.Schema)
			t.message = nil
		} else if len(answers) == 0 {
			t.show.send(acp.UpdateAgentMessageText(questionText(q)))
		}
	}
	return answers, nil
}

// decide returns the answer to a question, or nil if the user has to write it.
func (t *turn) decide(q treadle.Pause, ms llm.Messages, used map[string]bool) (any, error) {
	var c agent.ClientCall
	if json.Unmarshal(q.Value, &c) == nil && c.Type == agent.ClientCallType {
		return t.perform(c)
	}
	var r agent.Review
	if json.Unmarshal(q.Value, &r) == nil && len(r.Calls) > 0 && len(r.Calls) == len(r.Rules) {
		return t.review(r, ms, used)
	}
	yes := approvalOf(q.Schema)
	if yes == nil {
		return nil, nil
	}
	ok, err := t.permit(acp.ToolCallUpdate{ToolCallId: acp.ToolCallId(q.ID), Title: new(questionText(q)), Kind: new(acp.ToolKindOther)}, true)
	if err != nil {
		return nil, err
	}
	return yes(ok), nil
}

// review asks the user about the calls of a message, one by one.
func (t *turn) review(r agent.Review, ms llm.Messages, used map[string]bool) (any, error) {
	var out agent.Decisions
	for i, action := range r.Calls {
		allow := r.Rules[i].Allow
		if !slices.Contains(allow, agent.Reject) {
			return nil, nil // the user has to write the decisions
		}
		u := t.show.details(action.Name, action.Args)
		u.ToolCallId = acp.ToolCallId(cmp.Or(callOf(ms, action, used), "review "+action.Name))
		u.Status = new(acp.ToolCallStatusPending)
		if u.Content == nil && action.Description != "" {
			u.Content = []acp.ToolCallContent{acp.ToolContent(acp.TextBlock(action.Description))}
		}
		ok, err := t.permit(u, slices.Contains(allow, agent.Approve))
		if err != nil {
			return nil, err
		}
		d := agent.Decision{Type: agent.Reject}
		if ok {
			d.Type = agent.Approve
			t.show.status(u.ToolCallId, acp.ToolCallStatusInProgress)
		}
		out = append(out, d)
	}
	return out, nil
}

// callOf returns the ID of the latest call that an action is about.
func callOf(ms llm.Messages, action agent.Action, used map[string]bool) string {
	for _, m := range slices.Backward(ms) {
		for _, c := range m.ToolCalls {
			var a, b any
			if c.Name == action.Name && !used[c.ID] && json.Unmarshal(c.Args, &a) == nil && json.Unmarshal(action.Args, &b) == nil && reflect.DeepEqual(a, b) {
				used[c.ID] = true
				return c.ID
			}
		}
	}
	return ""
}

// Options of a permission request.
const (
	allowOption  = "allow"
	rejectOption = "reject"
)

// permit asks the user for permission. Only the option that allows the call is consent.
func (t *turn) permit(u acp.ToolCallUpdate, mayAllow bool) (bool, error) {
	options := []acp.PermissionOption{{OptionId: rejectOption, Name: "Reject", Kind: acp.PermissionOptionKindRejectOnce}}
	if mayAllow {
		options = append([]acp.PermissionOption{{OptionId: allowOption, Name: "Allow", Kind: acp.PermissionOptionKindAllowOnce}}, options...)
	}
	got, err := t.conn.RequestPermission(t.ctx, acp.RequestPermissionRequest{SessionId: acp.SessionId(t.id), ToolCall: u, Options: options})
	switch {
	case t.ctx.Err() != nil || err == nil && got.Outcome.Cancelled != nil:
		t.declined = !t.gone()
		t.stop()
		return false, errCanceled
	case err != nil:
		return false, failed(err)
	case got.Outcome.Selected == nil:
		return false, invalid("permission response without an outcome: the call is still waiting")
	}
	for _, o := range options {
		if o.OptionId == got.Outcome.Selected.OptionId {
			return o.OptionId == allowOption, nil
		}
	}
	return false, invalid("permission response with unknown option %q: the call is still waiting", shortened(string(got.Outcome.Selected.OptionId)))
}

// approvalOf returns a function that encodes a yes or no as an answer, or nil if the question
// wants something else: a boolean, or an object that requires only the boolean approved.
func approvalOf(schema json.RawMessage) func(bool) any {
	var s struct {
		Type       any                        `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	if s.Type == "boolean" {
		return func(ok bool) any { return ok }
	}
	var approved struct {
		Type any `json:"type"`
	}
	raw, ok := s.Properties["approved"]
	if !ok || json.Unmarshal(raw, &approved) != nil || approved.Type != "boolean" || slices.ContainsFunc(s.Required, func(name string) bool { return name != "approved" }) {
		return nil
	}
	return func(ok bool) any { return map[string]bool{"approved": ok} }
}

// questionText returns a question for a reader.
func questionText(q treadle.Pause) string {
	var text string
	if json.Unmarshal(q.Value, &text) == nil {
		return text
	}
	var fields map[string]any
	if json.Unmarshal(q.Value, &fields) == nil {
		var parts []string
		for _, name := range []string{"question", "message", "description", "text"} {
			if part, ok := fields[name].(string); ok && part != "" {
				parts = append(parts, part)
			}
		}
		if len(parts) > 0 {
			return strings.Join(parts, "\n\n")
		}
	}
	return string(q.Value)
}

// perform runs a tool of the editor.
func (t *turn) perform(c agent.ClientCall) (any, error) {
	t.mu.Lock()
	can := t.can
	t.mu.Unlock()
	for _, tool := range editorTools {
		if tool.name != c.Name || !tool.offered(can) {
			continue
		}
		text, err := tool.run(t, c)
		switch {
		case t.ctx.Err() != nil:
			return nil, context.Cause(t.ctx)
		case err != nil:
			return agent.ClientResult{Error: err.Error()}, nil //nolint:nilerr // the model reads it
		}
		return agent.ClientResult{Content: text}, nil
	}
	return agent.ClientResult{Error: "The editor does not offer the tool " + c.Name + "."}, nil
}
