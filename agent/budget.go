package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/treadle-go/treadle/llm"
)

// BudgetOptions configures [Budget]. 0 means no limit; at least one limit must be
// set. RunTokens and RunCost count since the agent's last input, ThreadTokens and
// ThreadCost over the whole thread.
type BudgetOptions struct {
	RunTokens, ThreadTokens int
	RunCost, ThreadCost     float64
	// Cost returns the cost of a response, for example from a table of package
	// llm/catalog. It is required if RunCost or ThreadCost is set. NaN means that
	// the cost is unknown; the run then fails, because its budget cannot be enforced.
	Cost func(answer llm.Message) float64
	// OnLimit is [OnLimitEnd], the default, or [OnLimitFail].
	OnLimit OnLimit
}

// Budget stops calling the model when its responses have used up the tokens or the
// cost, according to the usage that the provider reports. It does not stop a call
// in progress, so the last call may exceed the budget. Responses that
// [FallbackRefused] discards or [Moderate] replaces count, and so do those of other agents in the metadata
// of tool results; see [Delegated]. Calls made by middleware (summaries, tool
// selection) and the call for a structured response do not, and neither do the failed
// calls before a retry or a fallback and the canceled request of [llm.Hedge].
func Budget(opts *BudgetOptions) *Middleware {
	o := valueOf(opts)
	return &Middleware{
		Name:        "budget",
		Check:       invalid(o.valid()),
		BeforeAgent: NewHook(o.begin),
		BeforeModel: NewHook(o.check, JumpEnd),
		AfterModel:  NewHook(o.count),
	}
}

// valid reports invalid options.
func (o BudgetOptions) valid() error {
	err := bounds(o.OnLimit, []OnLimit{OnLimitEnd, OnLimitFail}, map[string]float64{
		"RunTokens": float64(o.RunTokens), "ThreadTokens": float64(o.ThreadTokens), "RunCost": o.RunCost, "ThreadCost": o.ThreadCost})
	if o.Cost == nil && (o.RunCost > 0 || o.ThreadCost > 0) {
		err = errors.Join(err, errors.New("cost limit requires BudgetOptions.Cost"))
	}
	return err
}

type allSpent struct {
	RunSpent    spent `json:"run_spent"`
	ThreadSpent spent `json:"thread_spent"`
	// SpentCall is the last model call, until its response is counted. A hook that
	// jumps skips the hook that counts it.
	SpentCall openCall `json:"spent_call"`
	// SpentTools is the ID of the last tool result whose usage is counted.
	SpentTools string `json:"spent_tools"`
}

type spent struct {
	Tokens int     `json:"tokens"`
	Cost   float64 `json:"cost"`
}

// openCall is a model call whose response is not counted. After is the ID of the AI
// message before the call, if any.
type openCall struct {
	Open  bool   `json:"open"`
	After string `json:"after"`
}

type spending struct {
	allSpent
	Messages llm.Messages
}

// begin starts a run.
func (o BudgetOptions) begin(_ context.Context, s spending) (allSpent, error) {
	err := o.settle(&s)
	s.RunSpent = spent{}
	return s.allSpent, err
}

type checked struct {
	halted
	allSpent
}

// check stops the agent if a limit is reached.
func (o BudgetOptions) check(_ context.Context, s spending) (checked, error) {
	if err := errors.Join(o.settle(&s), o.addDelegated(&s)); err != nil {
		return checked{}, err
	}
	for _, b := range []LimitError{
		{"tokens", "thread", float64(s.ThreadSpent.Tokens), float64(o.ThreadTokens)},
		{"tokens", "run", float64(s.RunSpent.Tokens), float64(o.RunTokens)},
		{"cost", "thread", s.ThreadSpent.Cost, o.ThreadCost},
		{"cost", "run", s.RunSpent.Cost, o.RunCost},
	} {
		if b.Budget > 0 && b.Used >= b.Budget {
			halt, err := stop(o.OnLimit, &b)
			return checked{halt, s.allSpent}, err
		}
	}
	s.SpentCall.Open = true
	if i := lastAI(s.Messages); i >= 0 {
		s.SpentCall.After = s.Messages[i].ID
	}
	return checked{halted{}, s.allSpent}, nil
}

// count adds the response of a model call.
func (o BudgetOptions) count(_ context.Context, s spending) (allSpent, error) {
	i := lastAI(s.Messages)
	if i < 0 {
		return s.allSpent, nil
	}
	err := o.add(&s.allSpent, s.Messages[i])
	return s.allSpent, err
}

// settle adds the response of a model call after which a hook jumped, such as a
// response that [Moderate] flagged.
func (o BudgetOptions) settle(s *spending) error {
	open := s.SpentCall
	s.SpentCall = openCall{}
	if !open.Open {
		return nil
	}
	for _, m := range slices.Backward(s.Messages) {
		switch {
		case m.Role != llm.RoleAI:
		case m.ID != "" && m.ID == open.After:
			return nil // the model was not called
		case m.Usage != nil: // otherwise a notice of middleware
			return o.add(&s.allSpent, m)
		}
	}
	return nil
}

// addDelegated adds the usage of other agents in the results after the last response.
func (o BudgetOptions) addDelegated(s *spending) error {
	results := s.Messages[lastAI(s.Messages)+1:]
	if i := slices.IndexFunc(results, func(m llm.Message) bool { return m.ID != "" && m.ID == s.SpentTools }); i >= 0 {
		results = results[i+1:]
	}
	for _, m := range results {
		if m.Role != llm.RoleTool || m.Metadata[delegatedKey] == nil {
			continue
		}
		s.SpentTools = m.ID
		for _, one := range listed(m.Metadata[delegatedKey]) {
			open := s.SpentCall
			if err := o.add(&s.allSpent, one); err != nil {
				return err
			}
			s.SpentCall = open
		}
	}
	return nil
}

// add adds a response, with the responses that were discarded for it.
func (o BudgetOptions) add(s *allSpent, response llm.Message) error {
	s.SpentCall = openCall{}
	var now spent
	for _, m := range append(slices.Clone(discarded(response)), response) {
		if m.Usage != nil {
			now.Tokens += m.Usage.Total
		}
		if o.Cost != nil {
			now.Cost += o.Cost(m)
		}
		if math.IsNaN(now.Cost) {
			model, _ := m.Metadata["model_name"].(string)
			return fmt.Errorf("agent: budget: unknown cost of a response from model %q: add its price to BudgetOptions.Cost", model)
		}
	}
	for _, sum := range []*spent{&s.RunSpent, &s.ThreadSpent} {
		sum.Tokens, sum.Cost = sum.Tokens+now.Tokens, sum.Cost+now.Cost
	}
	return nil
}
