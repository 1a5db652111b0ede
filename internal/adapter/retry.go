package adapter

import (
	"context"
	"iter"

	"github.com/treadle-go/treadle/llm"
)

// Retry calls a function that sends one request of an embedder or a reranker, and repeats
// it like the requests of a model in [llm.Retry] with the default policy. Models do not
// retry by themselves, so that a program can wrap them; the interfaces of embedders and
// rerankers have no such wrapper.
func Retry[T any](ctx context.Context, model string, call func(context.Context) (T, error)) (T, error) {
	var out, none T
	send := func(ctx context.Context) (err error) {
		out, err = call(ctx)
		return err
	}
	var failed error // of the last attempt
	for _, err := range llm.Retry(request{model, send}, nil).Stream(ctx, nil) {
		failed = err
	}
	if failed != nil {
		return none, failed
	}
	return out, nil
}

// request is a model whose response is empty.
type request struct {
	model string
	send  func(context.Context) error
}

// Describe implements [llm.Describer].
func (r request) Describe() llm.Info { return llm.Info{Model: r.model} }

// Stream implements [llm.Model].
func (r request) Stream(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if err := r.send(ctx); err != nil {
			yield(llm.Chunk{}, err)
		}
	}
}
