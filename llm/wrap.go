package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/treadletype"
)

// Retry returns a model that retries requests that fail before their first chunk. A
// later failure is not retried, because the caller has already seen part of the
// response. A nil policy means the zero [treadletype.RetryPolicy]: three attempts,
// for transient errors. If the provider requests a wait, Retry waits that long; if
// the wait exceeds the policy's Max, or a minute if Max is not set, Retry returns
// the error immediately. It panics if model is nil.
func Retry(model Model, policy *treadletype.RetryPolicy) Model {
	need("Retry", model)
	r := &retrier{model: model}
	if policy != nil {
		r.policy = *policy
	}
	return r
}

type retrier struct {
	model  Model
	policy treadletype.RetryPolicy
}

// Unwrap returns the wrapped model; see [With].
func (r *retrier) Unwrap() Model { return r.model }

// Rewrap returns the same wrapper around another model.
func (r *retrier) Rewrap(m Model) Model { return &retrier{m, r.policy} }

// Stream implements [Model].
func (r *retrier) Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		var failed error
		var pause time.Duration
		for attempt := 1; ; attempt++ {
			done, err := r.attempt(ctx, req, yield, attempt, failed, pause)
			if done {
				return
			}
			failed = err
			var again bool
			if pause, again = r.wait(attempt, err); !again || ctx.Err() != nil || observe.Failed(ctx) != nil {
				yield(Chunk{}, err)
				return
			}
			if ended := delay.For(ctx, pause); ended != nil {
				yield(Chunk{}, errors.Join(ended, err))
				return
			}
		}
	}
}

// attempt calls the model. failed is the error of the previous attempt.
func (r *retrier) attempt(ctx context.Context, req *Request, yield func(Chunk, error) bool, attempt int, failed error, waited time.Duration) (done bool, err error) {
	if attempt == 1 {
		return relay(r.model.Stream(ctx, req), yield)
	}
	ctx, span := observe.Again(ctx, Describe(r.model).Model, attempt, failed, waited)
	defer func() { observe.Ended(span, err) }()
	return relay(r.model.Stream(ctx, req), yield)
}

// wait returns the wait after an attempt, and whether to try again.
func (r *retrier) wait(attempt int, err error) (time.Duration, bool) {
	pause, again := r.policy.Wait(attempt)
	if !again || !r.policy.Retryable(err) {
		return 0, false
	}
	if e, ok := errors.AsType[*Error](err); ok && e.RetryAfter > 0 {
		return e.RetryAfter, e.RetryAfter <= cmp.Or(r.policy.Max, maxRetryAfter)
	}
	return pause, true
}

// maxRetryAfter is the longest wait that a provider may request, unless the policy
// sets Max.
const maxRetryAfter = time.Minute

// relay forwards chunks. It returns false and the error if the stream fails before
// its first chunk, and otherwise true.
func relay(chunks iter.Seq2[Chunk, error], yield func(Chunk, error) bool) (done bool, err error) {
	begun := false
	for chunk, err := range chunks {
		if err != nil && !begun {
			return false, err
		}
		begun = true
		if !yield(chunk, err) {
			return true, nil
		}
	}
	return true, nil
}

// Fallback returns a model that calls the first model, and the next one if it fails
// before its first chunk. If the call is canceled, the next model is not called. If
// all models fail, their errors are joined. It panics if a model is nil.
func Fallback(model Model, others ...Model) Model {
	all := append([]Model{model}, others...)
	need("Fallback", all...)
	return fallback(all)
}

type fallback []Model

// Describe implements [Describer]. A request must suit all models.
func (f fallback) Describe() Info {
	info := Describe(f[0])
	for _, m := range f[1:] {
		other := Describe(m)
		info.NativeOutput = info.NativeOutput && other.NativeOutput
		info.NoTools = info.NoTools || other.NoTools
		info.NoToolChoice = info.NoToolChoice || other.NoToolChoice
		info.NoTemperature = info.NoTemperature || other.NoTemperature
		info.Window = least(info.Window, other.Window)
		info.MaxOutput = least(info.MaxOutput, other.MaxOutput)
	}
	info.Price = nil // which of the models responds is not known
	return info
}

// least returns the smaller of two numbers; 0 means unknown.
func least(a, b int) int {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Stream implements [Model].
func (f fallback) Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		var failed error
		for _, m := range f {
			done, err := relay(m.Stream(ctx, req), yield)
			if done {
				return
			}
			failed = errors.Join(failed, err)
			if ctx.Err() != nil || observe.Failed(ctx) != nil {
				break
			}
		}
		yield(Chunk{}, failed)
	}
}

// RateLimit returns a model that waits for the limiter before each request. The
// limiter can be a [golang.org/x/time/rate.Limiter]. Models with the same limiter
// share its rate. It panics if the model or the limiter is nil.
func RateLimit(model Model, limiter interface{ Wait(context.Context) error }) Model {
	need("RateLimit", model)
	if limiter == nil {
		panic("llm: RateLimit: nil limiter")
	}
	return &limited{model, limiter}
}

type limited struct {
	model   Model
	limiter interface{ Wait(context.Context) error }
}

// Unwrap returns the wrapped model; see [With].
func (l *limited) Unwrap() Model { return l.model }

// Rewrap returns the same wrapper around another model.
func (l *limited) Rewrap(m Model) Model { return &limited{m, l.limiter} }

// Stream implements [Model].
func (l *limited) Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if err := l.limiter.Wait(ctx); err != nil {
			yield(Chunk{}, fmt.Errorf("llm: waiting for the rate limit: %w", err))
			return
		}
		l.model.Stream(ctx, req)(yield)
	}
}
