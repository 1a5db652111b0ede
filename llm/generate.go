package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/treadle-go/treadle/internal/observe"
)

// Generate calls the model and returns the whole response. Within the run of a
// graph, the run's stream contains the chunks as they arrive, each with the message
// ID. With the option [NoStream], the stream contains the whole message as one
// event. The history is passed through [Repair] first.
//
// If the model fails in the middle of the response, Generate returns the message so
// far together with the error.
func Generate(ctx context.Context, model Model, history ...Message) (Message, error) {
	var c collector
	for _, err := range stream(ctx, model, history, &c) {
		if err != nil {
			return c.message(), err
		}
	}
	return c.message(), nil
}

// Stream is like [Generate], but yields the response in chunks, all with the same
// message ID.
func Stream(ctx context.Context, model Model, history ...Message) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		var c collector
		stream(ctx, model, history, &c)(yield)
	}
}

// Collect joins the chunks of a response into one message. On an error, it returns
// the message so far and the error.
func Collect(chunks iter.Seq2[Chunk, error]) (Message, error) {
	var c collector
	for chunk, err := range chunks {
		if err == nil {
			err = c.add(chunk)
		}
		if err != nil {
			return c.message(), err
		}
	}
	return c.message(), nil
}

// errLeft reports to the run that the caller left the loop.
var errLeft = errors.New("llm: caller stopped reading the response")

// errNil returns the error for a nil context, or for a nil model.
func errNil(ctx context.Context) error {
	if ctx == nil {
		return errors.New("llm: nil context")
	}
	return errors.New("llm: nil model")
}

// stream calls the model, reports the call to the run, and collects the chunks in
// c.
func stream(ctx context.Context, model Model, history []Message, c *collector) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if ctx == nil || model == nil {
			yield(Chunk{}, errNil(ctx))
			return
		}
		req := &Request{Messages: slices.Clip(Repair(history))}
		// Apply the options bound with With before the call starts, because its
		// events carry the tags.
		model := bind(model, req)
		if err := req.check(); err != nil {
			yield(Chunk{}, err)
			return
		}
		info := Describe(model)
		// Info does not describe a model that ModelName selects.
		if info.NoTools && req.Model == "" && len(req.Tools) > 0 {
			yield(Chunk{}, fmt.Errorf("llm: %s does not support tools: choose another model", info))
			return
		}
		ctx, span := observe.Begin(ctx, req.call(info))
		err := errLeft
		defer func() {
			if err != nil {
				span.End(nil, err)
			} else {
				span.End(c.message(), nil)
			}
		}()
		for chunk, cerr := range model.Stream(ctx, req) {
			if cerr == nil {
				chunk.ID = c.pin(chunk.ID)
				cerr = c.add(chunk)
			}
			if cerr != nil {
				err = overflow(cerr)
				yield(Chunk{}, err)
				return
			}
			if !req.NoStream {
				span.Chunk(chunk)
			}
			if !yield(chunk, nil) {
				return
			}
		}
		if c.empty() {
			err = fmt.Errorf("%w from %s", ErrEmpty, info)
			yield(Chunk{}, err)
			return
		}
		err = nil
	}
}

// call returns the request's description for the run.
func (r *Request) call(info Info) observe.Call {
	meta := map[string]any{"ls_model_type": "chat"}
	if info.Provider != "" {
		meta["ls_provider"] = info.Provider
	}
	if info.Model != "" {
		meta["ls_model_name"] = info.Model
	}
	if r.Temperature != nil {
		meta["ls_temperature"] = *r.Temperature
	}
	if r.MaxTokens > 0 {
		meta["ls_max_tokens"] = r.MaxTokens
	}
	maps.Copy(meta, r.Metadata)
	name := info.Model
	if name == "" {
		name = "model"
	}
	return observe.Call{
		Kind:     observe.Model,
		Name:     name,
		Input:    r.Messages,
		Tags:     r.Tags,
		Metadata: meta,
		Provider: info.Provider,
		Detail:   r,
	}
}
