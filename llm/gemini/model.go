package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"google.golang.org/genai"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/catalog"
)

// Model is a Gemini model. Create one with [New].
type Model struct {
	name     string
	api      *genai.Models
	provider string
	warn     *adapter.Warner
}

// Describe implements [llm.Describer], with the facts in package catalog.
func (m *Model) Describe() llm.Info {
	return catalog.Complete(llm.Info{Provider: m.provider, Model: m.name, NativeOutput: true})
}

// Stream implements [llm.Model]. It fails before sending anything if the API cannot
// express the request.
func (m *Model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if ctx.Err() != nil {
			yield(llm.Chunk{}, adapter.Canceled(ctx))
			return
		}
		call, err := m.prepare(req)
		if err != nil {
			yield(llm.Chunk{}, fmt.Errorf("gemini: %w", err))
			return
		}
		if req.NoStream {
			chunk, err := m.whole(ctx, call)
			if err != nil {
				chunk = llm.Chunk{}
			}
			yield(chunk, err)
			return
		}
		m.stream(ctx, call, yield)
	}
}

// prepared is a request in the SDK's form.
type prepared struct {
	model    string
	contents []*genai.Content
	config   *genai.GenerateContentConfig
	serial   bool // keep only one tool call
}

func (m *Model) prepare(req *llm.Request) (*prepared, error) {
	p := &prepared{model: cmp.Or(req.Model, m.name), serial: req.SerialTools}
	var err error
	if p.config, err = configOf(req, p.model); err != nil {
		return nil, err
	}
	c := conversation{provider: m.provider, warn: m.warn, insists: insistsOnSignatures(p.model)}
	if err := c.addAll(req.Messages); err != nil {
		return nil, err
	}
	p.contents, p.config.SystemInstruction = c.contents, c.system
	return p, nil
}

// whole requests the response in one piece.
func (m *Model) whole(ctx context.Context, p *prepared) (out llm.Chunk, err error) {
	heardCtx, h := listen(ctx)
	resp, err := guard(func() (*genai.GenerateContentResponse, error) {
		return m.api.GenerateContent(heardCtx, p.model, p.contents, p.config)
	})
	if err != nil {
		return out, failure(ctx, err, h)
	}
	a := answer{provider: m.provider, serial: p.serial}
	for _, chunk := range a.add(resp) {
		if out, err = out.Add(chunk); err != nil {
			return out, failure(ctx, err, h)
		}
	}
	last, err := a.last()
	if err != nil {
		return out, finishFailure(ctx, err, h)
	}
	if out, err = out.Add(last); err != nil {
		return out, failure(ctx, err, h)
	}
	return out, nil
}

// stream requests the response piece by piece.
func (m *Model) stream(ctx context.Context, p *prepared, yield func(llm.Chunk, error) bool) {
	// Closing the body does not always close the connection; canceling the context
	// does.
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	call, h := listen(call)
	// Pull the events, so that a panic in the SDK can be distinguished from one in
	// the caller's loop.
	next, stop := iter.Pull2(m.api.GenerateContentStream(call, p.model, p.contents, p.config))
	defer stop()
	a := answer{provider: m.provider, serial: p.serial}
	for {
		more := false
		resp, err := guard(func() (resp *genai.GenerateContentResponse, err error) {
			resp, err, more = next()
			return resp, err
		})
		if err != nil || ctx.Err() != nil {
			yield(llm.Chunk{}, failure(ctx, err, h))
			return
		}
		if !more {
			break
		}
		if isUnknown(resp) {
			m.warn.UnknownEvent("without candidates")
		}
		for _, chunk := range a.add(resp) {
			if !yield(chunk, nil) {
				return
			}
		}
	}
	last, err := a.last()
	if err != nil {
		yield(llm.Chunk{}, finishFailure(ctx, err, h))
		return
	}
	yield(last, nil)
}

// finishFailure returns the error for a response whose end is missing or unusable.
func finishFailure(ctx context.Context, err error, h *heard) error {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		e.Status = h.status
		return e
	}
	return failure(ctx, err, h)
}
