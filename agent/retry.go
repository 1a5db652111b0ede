package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/llm"
)

// RetryTools retries failed calls of the named tools, or of all tools if none are
// named. As in [llm.Retry], a nil policy means the zero [treadle.RetryPolicy]: three
// attempts, for transient errors. If an [llm.Error] requests a longer wait than the
// policy, RetryTools waits that long. The error of the last attempt is handled like
// any tool error. A tool that interrupts must give its questions a Key; see
// [treadle.Question].
func RetryTools(policy *treadle.RetryPolicy, tools ...string) *Middleware {
	p := valueOf(policy)
	if p.On == nil {
		p.On = treadle.Transient
	}
	name := strings.Join(append([]string{"retry_tools"}, tools...), "_")
	err := checkPolicy(p)
	check := func(s Setup) error { return errors.Join(err, s.RequireOwnTools(tools...)) }
	return &Middleware{Name: name, Check: check, WrapTool: func(ctx context.Context, call ToolCall, next ToolFunc) (any, error) {
		if len(tools) > 0 && !slices.Contains(tools, call.Name) {
			return next(ctx, call)
		}
		for attempt := 1; ; attempt++ {
			out, err := next(ctx, call)
			if err == nil || treadle.Propagate(ctx, err) != nil || !p.On(err) {
				return out, err
			}
			pause, again := p.Wait(attempt)
			if e, ok := errors.AsType[*llm.Error](err); ok && e.RetryAfter > pause {
				pause = e.RetryAfter
			}
			if !again {
				return out, err
			}
			if ended := delay.For(ctx, pause); ended != nil {
				return nil, errors.Join(ended, err)
			}
		}
	}}
}

// checkPolicy reports negative numbers in a retry policy.
func checkPolicy(p treadle.RetryPolicy) error {
	return errors.Join(
		notNegative(map[string]int{"RetryPolicy.Attempts": p.Attempts}),
		notNegative(map[string]time.Duration{"RetryPolicy.Initial": p.Initial, "RetryPolicy.Max": p.Max}),
		notNegative(map[string]float64{"RetryPolicy.Factor": p.Factor}))
}

// RetryModel retries model calls that fail before their first chunk, as [llm.Retry]
// does. A nil policy means the zero [treadle.RetryPolicy].
func RetryModel(policy *treadle.RetryPolicy) *Middleware {
	p := valueOf(policy)
	return &Middleware{Name: "retry_model", Check: invalid(checkPolicy(p)), WrapModel: func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
		call.Model = llm.Retry(call.Model, &p)
		return next(ctx, call)
	}}
}

// Fallback calls the next of the models when the agent's model, or the previous
// model, fails before its first token; see [llm.Fallback].
func Fallback(models ...llm.Model) *Middleware {
	err := noModel(models...)
	if len(models) == 0 {
		err = errors.New("no fallback models")
	}
	return &Middleware{Name: "fallback", Check: invalid(err), WrapModel: func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
		call.Model = llm.Fallback(call.Model, models...)
		return next(ctx, call)
	}}
}
