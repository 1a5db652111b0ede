package agent

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/treadle-go/treadle/llm"
)

// BudgetOptions configures [Budget]. 0 means no limit; at least one limit must be
// set. RunTokens and RunCost count since the agent's last input, ThreadTokens and
// ThreadCost over the whole thread.
type BudgetOptions struct {
	RunTokens, ThreadTokens int
	RunCost, ThreadCost     float64
	// Cost returns the cost of a response, for example from a table of package
	// llm/prices. It is required if RunCost or ThreadCost is set. NaN means that
	// the cost is unknown, which fails the run, because it could spend any amount.
	Cost func(answer llm.Message) float64
	// OnLimit is [OnLimitEnd], the default, or [OnLimitFail].
	OnLimit OnLimit
}

// Budget stops calling the model when its responses have used up the tokens or the
// cost, according to the usage that the provider reports. It does not stop a call
// in progress, so the last call may exceed the budget. Calls made by middleware
// (summaries, tool selection) and the call for a structured response do not count.
func Budget(options *BudgetOptions) *Middleware {
	o := valueOf(options)
	return &Middleware{
		Name:        "budget",
		err:         o.valid(),
		BeforeAgent: NewHook(func(context.Context, struct{}) (runSpent, error) { return runSpent{}, nil }),
		BeforeModel: NewHook(o.check, JumpEnd),
		AfterModel:  NewHook(o.count),
	}
}

// valid reports invalid options.
func (o BudgetOptions) valid() error {
	err := bounds(o.OnLimit, []OnLimit{OnLimitEnd, OnLimitFail}, map[string]float64{
		"RunTokens": float64(o.RunTokens), "ThreadTokens": float64(o.ThreadTokens), "RunCost": o.RunCost, "ThreadCost": o.ThreadCost})
	if o.Cost == nil && (o.RunCost > 0 || o.ThreadCost > 0) {
		err = errors.Join(err, errors.New("it bounds the cost but cannot compute it: set BudgetOptions.Cost"))
	}
	return err
}

type runSpent struct {
	RunSpent spent `json:"run_spent"`
}

type allSpent struct {
	runSpent
	ThreadSpent spent `json:"thread_spent"`
}

type spent struct {
	Tokens int     `json:"tokens"`
	Cost   float64 `json:"cost"`
}

func (o BudgetOptions) check(_ context.Context, s allSpent) (halted, error) {
	for _, b := range []LimitError{
		{"tokens", "thread", float64(s.ThreadSpent.Tokens), float64(o.ThreadTokens)},
		{"tokens", "run", float64(s.RunSpent.Tokens), float64(o.RunTokens)},
		{"cost", "thread", s.ThreadSpent.Cost, o.ThreadCost},
		{"cost", "run", s.RunSpent.Cost, o.RunCost},
	} {
		if b.Budget > 0 && b.Used >= b.Budget {
			return stop(o.OnLimit, &b)
		}
	}
	return halted{}, nil
}

type spending struct {
	allSpent
	Messages llm.Messages
}

func (o BudgetOptions) count(_ context.Context, s spending) (*allSpent, error) {
	i := lastAI(s.Messages)
	if i < 0 {
		return nil, nil
	}
	var now spent
	if u := s.Messages[i].Usage; u != nil {
		now.Tokens = u.Total
	}
	if o.Cost != nil {
		now.Cost = o.Cost(s.Messages[i])
	}
	if math.IsNaN(now.Cost) {
		model, _ := s.Messages[i].Metadata["model_name"].(string)
		return nil, fmt.Errorf("agent: budget: the cost of an answer of model %q is unknown: give BudgetOptions.Cost the price of the model", model)
	}
	add := func(a spent) spent { return spent{a.Tokens + now.Tokens, a.Cost + now.Cost} }
	return &allSpent{runSpent{add(s.RunSpent)}, add(s.ThreadSpent)}, nil
}
