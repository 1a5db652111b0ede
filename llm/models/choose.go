package models

import (
	"context"
	"iter"
	"sync"

	"github.com/treadle-go/treadle/llm"
)

// Choose returns a model that is selected at each call, by a name that depends on
// the run's context, its configuration, or a feature flag:
//
//	model := models.Choose(func(ctx context.Context) string {
//		c, _ := treadle.ContextFrom[Settings](ctx)
//		return cmp.Or(c.Model, "openai:gpt-5-mini")
//	})
//
// Names are as for [Open]. If a name cannot be opened, the call fails. If the name
// comes from a user, the function must validate it, because it determines which
// provider gets the messages, and who pays. Choose panics if the function is nil.
func Choose(name func(context.Context) string, opts ...llm.Option) llm.Model {
	if name == nil {
		panic("models: Choose: nil function")
	}
	return &chosen{name: name, opts: opts}
}

// maxOpen is the maximum number of models that Choose keeps open.
const maxOpen = 64

type chosen struct {
	name func(context.Context) string
	opts []llm.Option

	mu   sync.Mutex
	open map[string]llm.Model
}

// Stream implements [llm.Model].
func (c *chosen) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	m, err := c.model(c.name(ctx))
	if err != nil {
		return func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{}, err) }
	}
	return m.Stream(ctx, req)
}

func (c *chosen) model(name string) (llm.Model, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.open[name]; m != nil {
		return m, nil
	}
	m, err := Open(name, c.opts...)
	if err != nil {
		return nil, err
	}
	if c.open == nil || len(c.open) == maxOpen {
		c.open = map[string]llm.Model{}
	}
	c.open[name] = m
	return m, nil
}
