package ollama

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// Model is a model on an Ollama server. Create one with [New].
type Model struct {
	name   string
	client *client
	warn   *adapter.Warner
}

// Describe implements [llm.Describer].
func (m *Model) Describe() llm.Info {
	return llm.Info{Provider: provider, Model: m.name, NativeOutput: true}
}

// Stream implements [llm.Model]. It fails before sending anything if the API cannot
// express the request.
func (m *Model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if ctx.Err() != nil {
			yield(llm.Chunk{}, adapter.Canceled(ctx))
			return
		}
		body, err := m.body(req)
		if err != nil {
			yield(llm.Chunk{}, fmt.Errorf("ollama: %w", err))
			return
		}
		m.call(ctx, body, yield)
	}
}

// call sends a request and yields the response. A whole response is a stream of one
// line.
func (m *Model) call(ctx context.Context, body map[string]any, yield func(llm.Chunk, error) bool) {
	// Closing the body does not always close the connection; canceling the context
	// does.
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	name, _ := body["model"].(string)
	resp, err := m.client.post(call, "api/chat", body)
	if err != nil {
		yield(llm.Chunk{}, m.client.failure(ctx, name, err, resp, false))
		return
	}
	defer func() { _ = resp.Body.Close() }()
	var a answer
	begun := false
	for line, err := range lines(resp.Body) {
		var p piece
		if err == nil {
			err = json.Unmarshal(line, &p)
		}
		if err != nil || ctx.Err() != nil {
			yield(llm.Chunk{}, m.client.failure(ctx, name, err, resp, begun))
			return
		}
		begun = true
		if fields := p.unknown(line); fields != "" {
			m.warn.UnknownEvent(fields)
		}
		chunk, ok := a.add(&p)
		if p.Done {
			if err := a.unusable(); err != nil {
				yield(llm.Chunk{}, err)
				return
			}
			yield(chunk, nil)
			return
		}
		if ok && !yield(chunk, nil) {
			return
		}
	}
	yield(llm.Chunk{}, m.client.failure(ctx, name, errNoEnd, resp, begun))
}
