package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle/llm"
)

// Prompt computes the system prompt from the state for each model call. fn takes
// the current prompt and returns the new one.
func Prompt[S any](fn func(ctx context.Context, s S, prompt string) (string, error)) *Middleware {
	if fn == nil {
		return &Middleware{Name: "prompt", Check: invalid(errors.New("nil function"))}
	}
	return &Middleware{
		Name: "prompt",
		WrapModel: func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
			s, ok := llm.StateFrom[S](ctx)
			if !ok {
				return llm.Message{}, fmt.Errorf("agent: prompt: function takes a %T, which is not the type of the agent's state", s)
			}
			var err error
			if call.System, err = fn(ctx, s, call.System); err != nil {
				return llm.Message{}, err
			}
			return next(ctx, call)
		},
	}
}
