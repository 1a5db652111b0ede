package openai

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/internal/sse"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/catalog"
)

// Model is a model served by the Responses or the Chat Completions API. Create one
// with [New].
type Model struct {
	name   string
	client *client
	own    bool // the server is OpenAI
	format format

	warn  *adapter.Warner
	plain sync.Map // names of models that cannot encrypt their reasoning
}

// format is the wire format of one of the two APIs.
type format interface {
	path() string
	body(req *llm.Request, r relaxed) ([]byte, error)
	// relax reports whether the request may succeed without something that the
	// server has rejected, and records that in r.
	relax(r *relaxed, req *llm.Request, err error) bool
	// explain adds a remedy to an error.
	explain(e *llm.Error)
	reader(req *llm.Request) reader
}

// relaxed lists what to leave out of a request.
type relaxed struct{ noReasoning, noInclude, noPrevious bool }

// reader converts a response to chunks.
type reader interface {
	// event returns the chunk for an event of a stream, and whether it has any
	// content. It returns a *toldError if the event reports a failure.
	event(ev sse.Event) (chunk llm.Chunk, ok bool, err error)
	// state reports whether part of the response has arrived, whether all of it
	// has, and whether there is nothing more to read.
	state() (begun, complete, done bool)
	// last returns the chunk that ends a streamed response.
	last() llm.Chunk
	// whole returns a response that is not streamed.
	whole(raw []byte) (llm.Chunk, error)
}

// Describe implements [llm.Describer], with the facts in package catalog.
func (m *Model) Describe() llm.Info {
	return catalog.Complete(llm.Info{Provider: m.client.provider, Model: m.name, NativeOutput: true})
}

// Stream implements [llm.Model]. It fails before sending anything if the API cannot
// express the request.
func (m *Model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if ctx.Err() != nil {
			yield(llm.Chunk{}, adapter.Canceled(ctx))
			return
		}
		req := m.withCacheKey(ctx, req)
		body, err := m.format.body(req, relaxed{})
		if err != nil {
			yield(llm.Chunk{}, fmt.Errorf("%s: %w", m.client.provider, err))
			return
		}
		if req.NoStream {
			yield(m.whole(ctx, req, body))
			return
		}
		m.stream(ctx, req, body, yield)
	}
}

// cacheKey is the setting that makes OpenAI send requests with the same key to the
// same machine, whose prompt cache then contains the start of the conversation.
const cacheKey = "prompt_cache_key"

// withCacheKey adds a hash of the run's thread to a request to OpenAI, unless the
// caller has set a key.
func (m *Model) withCacheKey(ctx context.Context, req *llm.Request) *llm.Request {
	thread := observe.Thread(ctx)
	if _, set := req.Settings[cacheKey]; set || !m.own || thread == "" {
		return req
	}
	sum := sha256.Sum256([]byte("thread\x00" + thread))
	own := *req
	own.Settings = maps.Clone(req.Settings)
	if own.Settings == nil {
		own.Settings = map[string]any{}
	}
	own.Settings[cacheKey] = hex.EncodeToString(sum[:16])
	return &own
}

// readsImages reports whether the model of a request reads images. Nearly all models of
// OpenAI do, and many models of other servers do not.
func (m *Model) readsImages(req *llm.Request) bool {
	inputs := catalog.Complete(llm.Info{Provider: m.client.provider, Model: m.modelOf(req)}).Inputs
	if inputs == nil {
		return m.own
	}
	return slices.Contains(inputs, llm.BlockImage)
}

// failure returns the error of a call, with a remedy if there is one.
func (m *Model) failure(ctx context.Context, err error, resp *http.Response, begun bool) error {
	err = m.client.failure(ctx, err, resp, begun)
	if e, ok := errors.AsType[*llm.Error](err); ok {
		m.format.explain(e)
	}
	return err
}

// post sends a request. If the server rejects a part that can be left out, it sends
// the request again without that part.
func (m *Model) post(ctx context.Context, req *llm.Request, body []byte) (*http.Response, error) {
	var r relaxed
	for {
		resp, err := m.client.post(ctx, m.format.path(), body)
		if err == nil || !m.format.relax(&r, req, err) {
			return resp, err
		}
		if body, err = m.format.body(req, r); err != nil {
			return nil, err
		}
	}
}

// whole requests the response in one piece.
func (m *Model) whole(ctx context.Context, req *llm.Request, body []byte) (llm.Chunk, error) {
	resp, err := m.post(ctx, req, body)
	var raw []byte
	if err == nil {
		raw, err = readAll(resp)
	}
	var chunk llm.Chunk
	if err == nil {
		chunk, err = m.format.reader(req).whole(raw)
	}
	if err != nil {
		return llm.Chunk{}, m.failure(ctx, err, resp, false)
	}
	return chunk, nil
}

var errNoEnd = errors.New("stream ended before the response was complete")

// maxEvent is the maximum size of a streamed event in bytes. Audio comes in large
// events.
const maxEvent = 32 << 20

// stream requests the response piece by piece.
func (m *Model) stream(ctx context.Context, req *llm.Request, body []byte, yield func(llm.Chunk, error) bool) {
	// Closing the body does not always close the connection; canceling the context
	// does.
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := m.post(call, req, body)
	if err != nil {
		yield(llm.Chunk{}, m.failure(ctx, err, resp, false))
		return
	}
	defer func() { _ = resp.Body.Close() }()
	r := m.format.reader(req)
	left, err := read(ctx, sse.NewReader(resp.Body, maxEvent), r, yield)
	if left {
		return
	}
	begun, complete, _ := r.state()
	_, told := errors.AsType[*toldError](err)
	switch {
	case complete && !told:
		err = nil // only usage may be missing
	case err == nil || errors.Is(err, io.EOF):
		err = errNoEnd
	}
	if err != nil || ctx.Err() != nil {
		yield(llm.Chunk{}, m.failure(ctx, err, resp, begun))
		return
	}
	yield(r.last(), nil)
}

// read yields the chunks of a stream until its end. It reports whether the caller
// left the loop.
func read(ctx context.Context, events *sse.Reader, r reader, yield func(llm.Chunk, error) bool) (left bool, err error) {
	for ctx.Err() == nil {
		ev, err := events.Next()
		if err != nil {
			return false, err
		}
		chunk, ok, err := r.event(ev)
		if err != nil {
			return false, err
		}
		if ok && !yield(chunk, nil) {
			return true, nil
		}
		if _, _, done := r.state(); done {
			return false, nil
		}
	}
	return false, nil
}
