package bedrock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// Model is a model on Bedrock. Create one with [New].
type Model struct {
	name, base string
	client     *client
	// toolsWhole has the models that cannot stream responses to requests with
	// tools, once Bedrock has reported it.
	toolsWhole sync.Map
	warn       *adapter.Warner
}

// Describe implements [llm.Describer], with the facts in package catalog.
func (m *Model) Describe() llm.Info {
	info := facts(cmp.Or(m.base, m.name))
	info.Model = m.name
	return info
}

// Stream implements [llm.Model]. Some models cannot stream if a request has tools.
// For these, the response is requested at once and yielded as one chunk.
func (m *Model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if ctx.Err() != nil {
			yield(llm.Chunk{}, adapter.Canceled(ctx))
			return
		}
		r, err := m.request(req)
		if err != nil {
			yield(llm.Chunk{}, fmt.Errorf("bedrock: %w", err))
			return
		}
		// However the loop ends, close the connection.
		call, cancel := context.WithCancel(ctx)
		defer cancel()
		if _, whole := m.toolsWhole.Load(r.model); !req.NoStream && (!whole || !r.tools) {
			err := m.stream(ctx, call, r, yield)
			if !cannotStreamTools(err) {
				if err != nil {
					yield(llm.Chunk{}, err)
				}
				return
			}
			m.toolsWhole.Store(r.model, true)
		}
		chunk, err := m.whole(ctx, call, r)
		if err != nil {
			chunk = llm.Chunk{}
		}
		yield(chunk, err)
	}
}

// cannotStreamTools reports whether the model supports tools, but not in streams.
func cannotStreamTools(err error) bool {
	e, ok := errors.AsType[*llm.Error](err)
	return ok && e.Code == "ValidationException" && !e.Cut && strings.Contains(strings.ToLower(e.Message), "tool use in streaming")
}

// whole requests the response in one piece.
func (m *Model) whole(ctx, call context.Context, r *request) (llm.Chunk, error) {
	x, err := m.client.converse(call, r.model, r.body)
	if err != nil {
		return llm.Chunk{}, m.client.failure(ctx, r.model, err, x, false)
	}
	raw, err := io.ReadAll(x.body)
	_ = x.body.Close()
	var in whole
	if err == nil {
		if err = json.Unmarshal(raw, &in); err != nil {
			err = fmt.Errorf("invalid response %q: %w", cmp.Or(adapter.Excerpt(string(raw)), "empty response"), err)
		} else if in.StopReason == "" {
			err = fmt.Errorf("response without stopReason: %s", cmp.Or(adapter.Excerpt(string(raw)), "empty response"))
		}
	}
	if err != nil {
		return llm.Chunk{}, m.client.failure(ctx, r.model, err, x, false)
	}
	a := answer{cites: r.cites}
	var out llm.Chunk
	for i, block := range in.Output.Message.Content {
		chunk, err := a.part(i, block)
		if err == nil {
			out, err = out.Add(chunk)
		}
		if err != nil {
			return llm.Chunk{}, m.client.failure(ctx, r.model, fmt.Errorf("content block %d: %w", i, err), x, false)
		}
	}
	last, err := a.end(r, &in.ending, x.header)
	if err != nil {
		return llm.Chunk{}, err
	}
	return out.Add(last)
}

// stream requests the response piece by piece. It returns the error instead of
// yielding it.
func (m *Model) stream(ctx, call context.Context, r *request, yield func(llm.Chunk, error) bool) error {
	x, err := m.client.converseStream(call, r.model, r.body)
	if err != nil {
		return m.client.failure(ctx, r.model, err, x, false)
	}
	defer func() { _ = x.body.Close() }()
	if !isStream(x.header) {
		raw, _ := io.ReadAll(io.LimitReader(x.body, maxReport)) // only for the message
		return m.client.failure(ctx, r.model, fmt.Errorf("response is not a stream (%s): %s", x.header.Get("Content-Type"), cmp.Or(adapter.Excerpt(string(raw)), "empty response")), x, false)
	}
	in := reader{src: x.body, decoder: eventstream.NewDecoder(), answer: answer{cites: r.cites}, warn: m.warn}
	for !in.stopped || !in.counted {
		typ, event, err := in.next()
		if err != nil || ctx.Err() != nil {
			return m.client.failure(ctx, r.model, err, x, in.begun)
		}
		if chunk, ok := in.read(typ, event); ok && !yield(chunk, nil) {
			return nil
		}
	}
	last, err := in.answer.end(r, &in.ending, x.header)
	if err != nil {
		return err
	}
	yield(last, nil)
	return nil
}
