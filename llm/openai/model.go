package openai

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/treadle-go/treadle/llm"
)

// Model is a model behind the Chat Completions API. Make one with [New].
type Model struct {
	name string
	chat *sdk.ChatCompletionService
	own  bool // the server is OpenAI's own
}

// Describe implements [llm.Describer].
func (m *Model) Describe() llm.Info {
	return llm.Info{Provider: provider, Model: m.name, NativeOutput: true}
}

// Stream implements [llm.Model]. What the API cannot say is an error before
// anything is sent.
func (m *Model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if ctx.Err() != nil {
			yield(llm.Chunk{}, cancelled(ctx))
			return
		}
		params, err := m.params(req)
		if err != nil {
			yield(llm.Chunk{}, fmt.Errorf("openai: %w", err))
			return
		}
		if req.NoStream {
			yield(m.whole(ctx, params))
			return
		}
		m.stream(ctx, params, yield)
	}
}

// whole asks for the answer in one piece.
func (m *Model) whole(ctx context.Context, params sdk.ChatCompletionNewParams) (llm.Chunk, error) {
	var resp *http.Response
	got, err := m.chat.New(ctx, params, option.WithResponseInto(&resp))
	if err != nil {
		return llm.Chunk{}, failure(ctx, err, resp, false)
	}
	if len(got.Choices) == 0 {
		return llm.Chunk{}, noAnswer(got.RawJSON(), resp)
	}
	var a answer
	p := pieceOf(got)
	first, _ := a.add(p)
	chunk, err := first.Add(a.last())
	if err = errors.Join(p.err, err); err != nil {
		return llm.Chunk{}, failure(ctx, err, resp, false)
	}
	return chunk, nil
}

var errNoEnd = errors.New("the stream ended before the answer did")

// stream asks for the answer piece by piece.
func (m *Model) stream(ctx context.Context, params sdk.ChatCompletionNewParams, yield func(llm.Chunk, error) bool) {
	// Closing the body ends the connection only if the transport says so;
	// a cancelled context does so always.
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	var resp *http.Response
	events := m.chat.NewStreaming(call, params, option.WithResponseInto(&resp))
	defer func() { _ = events.Close() }()
	var a answer
	begun := false
	for ctx.Err() == nil && events.Next() {
		begun = true
		p := chunkPiece(events.Current())
		if p.err != nil {
			yield(llm.Chunk{}, failure(ctx, p.err, resp, begun))
			return
		}
		if chunk, ok := a.add(p); ok && !yield(chunk, nil) {
			return
		}
	}
	err := events.Err()
	if _, told := errors.AsType[*ssestream.StreamError](err); a.finish != "" && !told {
		err = nil // all was said; what may be missing are counts
	} else if err == nil && a.finish == "" {
		err = errNoEnd
	}
	if err != nil || ctx.Err() != nil {
		yield(llm.Chunk{}, failure(ctx, err, resp, begun))
		return
	}
	yield(a.last(), nil)
}
