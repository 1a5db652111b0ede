package llm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// AnswerCache stores responses for [Cache]. Every checkpoint.Cache implements it.
type AnswerCache interface {
	Get(ctx context.Context, space, key string) ([]byte, bool, error)
	Set(ctx context.Context, space, key string, value []byte, ttl time.Duration) error
}

// Cache returns a model that reuses earlier responses to the same request. Requests
// are the same if their messages (apart from IDs), tools, and settings are equal. A
// cached response is one chunk without Usage, and its Metadata contains "cached":
// true. Only complete responses are stored, for the given ttl; 0 means forever.
//
// If reading the cache fails, the call fails. If writing fails, the call returns
// the response together with the error.
//
// Cache panics if the model or the cache is nil.
func Cache(model Model, cache AnswerCache, ttl time.Duration) Model {
	need("Cache", model)
	if cache == nil {
		panic("llm: Cache: nil cache")
	}
	return &cached{model, cache, ttl}
}

type cached struct {
	model Model
	cache AnswerCache
	ttl   time.Duration
}

// Unwrap returns the wrapped model; see [With].
func (c *cached) Unwrap() Model { return c.model }

// Rewrap returns the same wrapper around another model.
func (c *cached) Rewrap(m Model) Model { return &cached{m, c.cache, c.ttl} }

const cacheSpace = "llm.answers"

// Stream implements [Model].
func (c *cached) Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		key, err := requestKey(Describe(c.model).String(), req)
		if err != nil {
			yield(Chunk{}, err)
			return
		}
		raw, ok, err := c.cache.Get(ctx, cacheSpace, key)
		if err != nil {
			yield(Chunk{}, fmt.Errorf("llm: reading the cache of answers: %w", err))
			return
		}
		var m Message
		if ok && json.Unmarshal(raw, &m) == nil {
			yield(m.Chunk(), nil)
			return
		}
		var sum collector
		for chunk, err := range c.model.Stream(ctx, req) {
			if err == nil {
				err = sum.add(chunk)
			}
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			if !yield(chunk, nil) {
				return
			}
		}
		if err := c.keep(ctx, key, sum.message()); err != nil {
			yield(Chunk{}, err)
		}
	}
}

func (c *cached) keep(ctx context.Context, key string, m Message) error {
	if m.Stop == StopLength || m.Stop == StopFilter {
		return nil
	}
	m.ID, m.Usage = "", nil // a reused response is a new message, and costs nothing
	var err error
	if m.Metadata, err = mergeMaps(m.Metadata, map[string]any{"cached": true}); err != nil {
		return err
	}
	raw, err := json.Marshal(m)
	if err == nil {
		err = c.cache.Set(ctx, cacheSpace, key, raw, c.ttl)
	}
	if err != nil {
		return fmt.Errorf("llm: writing an answer to the cache: %w", err)
	}
	return nil
}

// requestKey returns a key that is equal for equal requests.
func requestKey(model string, req *Request) (string, error) {
	r := *req
	r.Tags = nil
	r.Metadata = nil
	r.NoStream = false
	r.PromptCache = 0
	r.Tools = nil // a tool's function cannot be encoded as JSON
	r.Messages = make(Messages, len(req.Messages))
	for i, m := range req.Messages {
		m.ID, m.Usage, m.Artifact = "", nil, nil
		r.Messages[i] = m
	}
	raw, err := json.Marshal(struct { //nolint:staticcheck // SA1026: the tools of Request are nil here
		Model   string
		Request Request
		Tools   []any
	}{model, r, describeTools(req.Tools)})
	if err != nil {
		return "", fmt.Errorf("llm: cache: request cannot be encoded as JSON: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// describeTools returns the descriptions of tools that a model receives.
func describeTools(tools []*Tool) []any {
	out := make([]any, len(tools))
	for i, t := range tools {
		out[i] = struct {
			Name        string             `json:"name"`
			Description string             `json:"description"`
			Parameters  *jsonschema.Schema `json:"parameters,omitempty"`
			Extra       map[string]any     `json:"extra,omitempty"`
		}{t.Name, t.Description, t.Parameters, t.Extra}
	}
	return out
}

// Chunk returns the message as a single chunk, for models that do not stream.
func (m Message) Chunk() Chunk {
	c := Chunk{
		ID:       m.ID,
		Name:     m.Name,
		Content:  m.Content,
		Blocks:   m.Blocks,
		Usage:    m.Usage,
		Stop:     m.Stop,
		Metadata: m.Metadata,
		Extra:    m.Extra,
	}
	for _, call := range m.ToolCalls {
		c.ToolCalls = append(c.ToolCalls, ToolCallChunk{Index: new(len(c.ToolCalls)), ID: call.ID, Name: call.Name, Args: string(call.arguments()), Extra: call.Extra})
	}
	for _, call := range m.InvalidToolCalls {
		c.ToolCalls = append(c.ToolCalls, ToolCallChunk{Index: new(len(c.ToolCalls)), ID: call.ID, Name: call.Name, Args: call.Args, Extra: call.Extra})
	}
	return c
}
