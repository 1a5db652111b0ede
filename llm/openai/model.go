package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/treadle-go/treadle/internal/sse"
	"github.com/treadle-go/treadle/llm"
)

// Model is a model served by the Chat Completions API. Create one with [New].
type Model struct {
	name   string
	client *client
	own    bool // the server is OpenAI
}

// Describe implements [llm.Describer].
func (m *Model) Describe() llm.Info {
	return llm.Info{Provider: m.client.provider, Model: m.name, NativeOutput: true}
}

// Stream implements [llm.Model]. It fails before sending anything if the API cannot
// express the request.
func (m *Model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if ctx.Err() != nil {
			yield(llm.Chunk{}, cancelled(ctx))
			return
		}
		body, err := m.body(req)
		if err != nil {
			yield(llm.Chunk{}, fmt.Errorf("%s: %w", m.client.provider, err))
			return
		}
		if req.NoStream {
			yield(m.whole(ctx, body))
			return
		}
		m.stream(ctx, body, yield)
	}
}

const chatPath = "chat/completions"

// whole requests the response in one piece.
func (m *Model) whole(ctx context.Context, body []byte) (llm.Chunk, error) {
	raw, resp, err := m.client.postWhole(ctx, chatPath, body) //nolint:bodyclose // postWhole has read and closed it
	if err != nil {
		return llm.Chunk{}, m.client.failure(ctx, err, resp, false)
	}
	var p piece
	if err := p.readWhole(raw); err != nil {
		return llm.Chunk{}, m.client.failure(ctx, err, resp, false)
	}
	if !p.answered {
		return llm.Chunk{}, m.client.noAnswer(raw, resp)
	}
	var a answer
	first, _ := a.add(&p)
	chunk, err := first.Add(a.last())
	if err = errors.Join(p.err, err); err != nil {
		return llm.Chunk{}, m.client.failure(ctx, err, resp, false)
	}
	return chunk, nil
}

var errNoEnd = errors.New("the stream ended before the answer was complete")

// maxEvent is the maximum size of a streamed event in bytes. Audio comes in large
// events.
const maxEvent = 32 << 20

// stream requests the response piece by piece.
func (m *Model) stream(ctx context.Context, body []byte, yield func(llm.Chunk, error) bool) {
	// Closing the body does not always close the connection; canceling the context
	// does.
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := m.client.post(call, chatPath, body)
	if err != nil {
		yield(llm.Chunk{}, m.client.failure(ctx, err, resp, false))
		return
	}
	defer func() { _ = resp.Body.Close() }()
	events := sse.NewReader(resp.Body, maxEvent)
	var a answer
	var p piece
	begun := false
	for ctx.Err() == nil {
		var ev sse.Event
		if ev, err = events.Next(); err != nil || bytes.HasPrefix(ev.Data, []byte("[DONE]")) {
			break
		}
		if err = p.read(ev); err != nil {
			break
		}
		begun = true
		if p.err != nil {
			yield(llm.Chunk{}, m.client.failure(ctx, p.err, resp, begun))
			return
		}
		if chunk, ok := a.add(&p); ok && !yield(chunk, nil) {
			return
		}
	}
	_, told := errors.AsType[*toldError](err)
	switch {
	case a.finish != "" && !told:
		err = nil // the response is complete; only usage may be missing
	case err == nil || errors.Is(err, io.EOF):
		err = errNoEnd
	}
	if err != nil || ctx.Err() != nil {
		yield(llm.Chunk{}, m.client.failure(ctx, err, resp, begun))
		return
	}
	yield(a.last(), nil)
}
