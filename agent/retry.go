package agent

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/llm"
)

// RetryTools retries failed tool calls: those of the named tools, or of all tools
// if none are named. A nil policy is the zero [treadle.RetryPolicy]: three
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
	var err error
	if p.Attempts < 0 || p.Initial < 0 || p.Max < 0 || p.Factor < 0 {
		err = errors.New("its policy has a negative number")
	}
	return &Middleware{Name: name, err: err, names: tools, runs: true, WrapTool: func(ctx context.Context, call ToolCall, next ToolFunc) (any, error) {
		if len(tools) > 0 && !slices.Contains(tools, call.Name) {
			return next(ctx, call)
		}
		outer, span := ctx, observe.Span(nil)
		for attempt := 1; ; attempt++ {
			out, err := next(ctx, call)
			observe.Ended(span, err)
			if err == nil || treadle.IsPause(err) || ctx.Err() != nil || pregel.IsFault(err) || observe.Failed(ctx) != nil || !p.On(err) {
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
			ctx, span = observe.Again(outer, call.Name, attempt+1, err, pause) //nolint:fatcontext // each begins with the outer one
		}
	}}
}

// RetryModel retries model calls that fail before their first chunk; see
// [llm.Retry].
func RetryModel(p *treadle.RetryPolicy) *Middleware {
	return &Middleware{Name: "retry_model", WrapModel: func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
		call.Model = llm.Retry(call.Model, p)
		return next(ctx, call)
	}}
}

// Fallback calls the next of the models when the agent's model, or the previous
// model, fails before its first token; see [llm.Fallback].
func Fallback(models ...llm.Model) *Middleware {
	err := noModel(models...)
	if len(models) == 0 {
		err = errors.New("it has no models to fall back to")
	}
	return &Middleware{Name: "fallback", err: err, WrapModel: func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
		call.Model = llm.Fallback(call.Model, models...)
		return next(ctx, call)
	}}
}
