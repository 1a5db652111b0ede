package agent

import (
	"context"
	"errors"

	"github.com/treadle-go/treadle/llm"
)

// BudgetOptions say how much an agent may spend; 0 means no bound, and at least one
// is set. Run counts
// from the agent's last input, Thread over the whole thread.
type BudgetOptions struct {
	RunTokens, ThreadTokens int
	RunCost, ThreadCost     float64
	// Cost is what an answer has cost, by its Usage, Metadata and name. It is
	// needed for the bounds of cost.
	Cost func(answer llm.Message) float64
	// Over is [OverEnd], which is the default, or [OverFail].
	Over Over
}

// Budget refuses further calls of the model once its answers have used up the
// tokens or the money, by the usage that the provider reports. A call that is
// under way is not cut off, so the last one may go over. Calls that middleware
// makes on its own account (summaries, choosing tools) and the call for a
// structured answer are not counted.
func Budget(o BudgetOptions) *Middleware {
	return &Middleware{
		Name:        "budget",
		err:         o.valid(),
		BeforeAgent: NewHook(func(context.Context, struct{}) (runSpent, error) { return runSpent{}, nil }),
		BeforeModel: NewHook(o.check, JumpEnd),
		AfterModel:  NewHook(o.count),
	}
}

// valid reports what is wrong with the options.
func (o BudgetOptions) valid() error {
	err := bounds(o.Over, []Over{OverEnd, OverFail}, map[string]float64{
		"RunTokens": float64(o.RunTokens), "ThreadTokens": float64(o.ThreadTokens), "RunCost": o.RunCost, "ThreadCost": o.ThreadCost})
	if o.Cost == nil && (o.RunCost > 0 || o.ThreadCost > 0) {
		err = errors.Join(err, errors.New("it bounds the cost and cannot know it: set BudgetOptions.Cost"))
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
			return stop(o.Over, &b)
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
	add := func(a spent) spent { return spent{a.Tokens + now.Tokens, a.Cost + now.Cost} }
	return &allSpent{runSpent{add(s.RunSpent)}, add(s.ThreadSpent)}, nil
}
