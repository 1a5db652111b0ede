package llmtest

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/treadle-go/treadle/llm"
)

// Func is a model that responds to each request with the message that the function
// returns. Use it if the response depends on the request; if the responses are known
// beforehand, [Script] also checks the requests.
//
//	echo := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
//		return llm.Assistant("You said: " + r.Messages[len(r.Messages)-1].Text()), nil
//	})
//
// The message is streamed like the Message of a [Turn]. An empty Role means
// [llm.RoleAI]. Tool calls without an ID get one that no earlier call in the
// conversation has. A Func is safe for concurrent use if the function is.
type Func func(ctx context.Context, req *llm.Request) (llm.Message, error)

// Describe implements [llm.Describer].
func (Func) Describe() llm.Info { return llm.Info{Provider: "llmtest", Model: "func"} }

// Stream implements [llm.Model].
func (f Func) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		m, err := f.respond(ctx, req)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		for _, c := range (Turn{Message: m}).pieces(req.NoStream) {
			if err := context.Cause(ctx); err != nil {
				yield(llm.Chunk{}, err)
				return
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// respond returns the function's message with its Role and call IDs set.
func (f Func) respond(ctx context.Context, req *llm.Request) (llm.Message, error) {
	if err := context.Cause(ctx); err != nil {
		return llm.Message{}, err
	}
	m, err := f(ctx, req)
	if err != nil {
		return llm.Message{}, err
	}
	if m.Role == "" {
		m.Role = llm.RoleAI
	}
	used := map[string]bool{}
	for _, earlier := range append(slices.Clip(req.Messages), m) {
		for _, c := range earlier.ToolCalls {
			used[c.ID] = true
		}
	}
	m.ToolCalls = slices.Clone(m.ToolCalls)
	n := 0
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		for c.ID == "" {
			n++
			if !used[fmt.Sprintf("call_%d", n)] {
				c.ID = fmt.Sprintf("call_%d", n)
			}
		}
	}
	return m, nil
}
