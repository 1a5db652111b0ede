package anthropic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"os"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/catalog"
)

// provider is the provider's name in errors, descriptions, and metadata.
const provider = "anthropic"

// Options configures access to the API. A nil *Options means the defaults.
type Options struct {
	// Key is the API key; empty means the environment variable ANTHROPIC_API_KEY.
	Key string
	// BaseURL is the address of the API, without the v1; empty means the
	// environment variable ANTHROPIC_BASE_URL, or Anthropic's address if that is
	// empty too.
	BaseURL string
	// HTTPClient makes the requests; nil means [http.DefaultClient].
	HTTPClient *http.Client
	// Header is sent with every request, for example anthropic-beta. If it contains
	// Authorization, no key is needed.
	Header http.Header
	// Logger receives warnings, each once per model: unknown events, and reasoning
	// and media of other models' messages that cannot be sent; nil means
	// [slog.Default].
	Logger *slog.Logger
}

// Model is a Claude model. Create one with [New].
type Model struct {
	name   string
	client sdk.MessageService
	warn   *adapter.Warner
}

// New opens a model by name, such as "claude-sonnet-5-5". It fails without a key,
// unless [Options].Header contains Authorization. It does not check whether the
// model exists.
func New(name string, opts *Options) (*Model, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	settings, err := o.settings()
	if err == nil && name == "" {
		err = errors.New("empty name")
	}
	if err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	return &Model{name: name, client: sdk.NewClient(settings...).Messages, warn: adapter.NewWarner(o.Logger, provider, name)}, nil
}

// Provider returns the provider "anthropic" for [llm.Open]. It has no embedders.
func Provider(opts *Options) llm.Provider {
	return adapter.Models(provider, opts, New)
}

// ownURL is the SDK's default address.
const ownURL = "https://api.anthropic.com/"

// settings returns the options in the SDK's form.
func (o *Options) settings() ([]option.RequestOption, error) {
	settings := []option.RequestOption{
		// The SDK would search for other keys and profiles, including in files. It
		// must be obvious which key is used.
		option.WithoutEnvironmentDefaults(),
		// A run reports its model calls itself, without a global tracer.
		option.WithoutOpenTelemetry(),
		option.WithMaxRetries(0),
	}
	switch key := cmp.Or(o.Key, os.Getenv("ANTHROPIC_API_KEY")); {
	case key != "":
		settings = append(settings, option.WithAPIKey(key))
	case o.Header.Get("Authorization") == "":
		return nil, errors.New("no API key: set Options.Key or the environment variable ANTHROPIC_API_KEY")
	}
	if base := cmp.Or(o.BaseURL, os.Getenv("ANTHROPIC_BASE_URL")); base != "" {
		if u, err := url.Parse(base); err != nil || u.Scheme == "" || u.Host == "" {
			return nil, fmt.Errorf("invalid base URL %q: use the form https://host/path", base)
		}
		settings = append(settings, option.WithBaseURL(base))
	}
	settings = append(settings, option.WithHTTPClient(adapter.HTTPClient(o.HTTPClient, cmp.Or(o.BaseURL, os.Getenv("ANTHROPIC_BASE_URL"), ownURL))))
	for name, values := range o.Header {
		settings = append(settings, option.WithHeaderDel(name))
		for _, v := range values {
			settings = append(settings, option.WithHeaderAdd(name, v))
		}
	}
	return settings, nil
}

// Describe implements [llm.Describer], with the facts in package catalog.
func (m *Model) Describe() llm.Info {
	return catalog.Complete(llm.Info{Provider: provider, Model: m.name, NativeOutput: hasOutputs(m.name)})
}

// Stream implements [llm.Model]. Anthropic requires streaming for long responses,
// so with NoStream such a response is streamed too, and yielded as one chunk.
func (m *Model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if ctx.Err() != nil {
			yield(llm.Chunk{}, adapter.Canceled(ctx))
			return
		}
		body, settings, err := m.request(req)
		if err != nil {
			yield(llm.Chunk{}, fmt.Errorf("anthropic: %w", err))
			return
		}
		// However the loop ends, close the connection.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if !req.NoStream {
			m.stream(ctx, body, settings, cites(req))(yield)
			return
		}
		chunk, err := m.whole(ctx, body, settings, cites(req))
		if err != nil {
			chunk = llm.Chunk{}
		}
		yield(chunk, err)
	}
}

// whole requests the response in one piece.
func (m *Model) whole(ctx context.Context, body sdk.MessageNewParams, settings []option.RequestOption, cites bool) (llm.Chunk, error) {
	if _, err := sdk.CalculateNonStreamingTimeout(int(body.MaxTokens), body.Model, nil); err != nil {
		answer, err := llm.Collect(m.stream(ctx, body, settings, cites))
		return answer.Chunk(), err
	}
	answer, err := m.client.New(ctx, body, settings...)
	if err != nil {
		return llm.Chunk{}, failure(ctx, err, false)
	}
	if answer.StopReason == "" {
		return llm.Chunk{}, &llm.Error{Provider: provider, Message: "response without stop_reason: check Options.BaseURL"}
	}
	return chunkOf(answer, cites)
}

// stream requests the response piece by piece.
func (m *Model) stream(ctx context.Context, body sdk.MessageNewParams, settings []option.RequestOption, cites bool) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		events := m.client.NewStreaming(ctx, body, settings...)
		defer func() { _ = events.Close() }() // the connection is closed in any case
		r := reader{cites: cites, warn: m.warn}
		for !r.done && events.Next() {
			chunk, said, err := r.read(events.Current())
			if err != nil {
				yield(llm.Chunk{}, &llm.Error{Provider: provider, Cut: r.begun, Err: err})
				return
			}
			if said && !yield(chunk, nil) {
				return
			}
		}
		if r.done {
			return
		}
		err := events.Err()
		if err == nil {
			err = errors.New("stream ended before the response was complete")
		}
		yield(llm.Chunk{}, failure(ctx, err, r.begun))
	}
}
