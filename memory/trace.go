package memory

import (
	"context"

	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/llm"
)

// traced starts a span for an operation, if ctx is traced. Model and store calls within the
// operation become child spans.
func traced(ctx context.Context, name string, messages []llm.Message) (_ context.Context, end func(out any, err error)) {
	if ctx == nil {
		return ctx, untraced
	}
	t := observe.TracerOf(ctx)
	if t == nil {
		return ctx, untraced
	}
	ctx, span := t.Start(ctx, &observe.Op{Kind: observe.Memory, Name: name, Input: messages})
	return ctx, span.End
}

func untraced(any, error) {}
