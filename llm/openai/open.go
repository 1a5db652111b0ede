package openai

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

const (
	// provider is the name in errors, descriptions, and [llm.Open], unless set in
	// the options.
	provider = "openai"
	keyName  = "OPENAI_API_KEY"
	urlName  = "OPENAI_BASE_URL"

	ownURL  = "https://api.openai.com/v1"
	ownHost = "api.openai.com"

	// Values of Options.API.
	apiResponses = "responses"
	apiChat      = "chat"
)

// Options configures access to the server. A nil *Options means the defaults. An
// empty Key or BaseURL is read from the environment variable OPENAI_API_KEY or
// OPENAI_BASE_URL when a model is opened; for Azure, from AZURE_OPENAI_API_KEY or
// AZURE_OPENAI_ENDPOINT. OPENAI_ORG_ID, OPENAI_PROJECT_ID, and
// OPENAI_CUSTOM_HEADERS (lines of the form "name: value") are sent too, unless the
// field BaseURL is the address of another server.
type Options struct {
	// Key is the API key; empty means the environment variable. OpenAI and Azure
	// require a key or a token; other servers may not.
	Key string
	// Token, if set, returns the access token for a request, in place of a key: of
	// Entra ID for Azure, or of another identity provider. It is called for every
	// request, so it should cache the token. If the server rejects the token, Token
	// is called again, and the request is sent once more if the token is new.
	Token func(context.Context) (string, error)
	// BaseURL is the address of the API, usually ending with /v1; empty means the
	// environment variable, or OpenAI's address if that is empty too. For Azure, it
	// is the endpoint of the resource, such as https://RESOURCE.openai.azure.com.
	BaseURL string
	// Azure is set if the server is Azure OpenAI at an address that does not show
	// it, such as a gateway, or in the environment. The model name is the name of a
	// deployment.
	Azure bool
	// Header is sent with every request. It replaces headers with the same name.
	Header http.Header
	// HTTPClient makes the requests; nil means [http.DefaultClient]. Redirects to
	// another server are not followed.
	HTTPClient *http.Client
	// Provider is the server's name in errors, descriptions, and names for
	// [llm.Open]; empty means openai. See also [NewEmbedder].
	Provider string

	// API selects the API that models use: "responses" or "chat" (Chat
	// Completions). Empty means "responses" for OpenAI and Azure, and "chat" for
	// other servers.
	API string
	// Stateful makes the server store responses and the conversation that led to
	// them. A request then contains only the messages after the last stored
	// response, so changes to earlier messages have no effect. It requires the
	// Responses API. Without it, requests contain the whole conversation, and the
	// server stores nothing.
	Stateful bool
	// Logger receives warnings, each once per model: unknown events, and reasoning
	// and media of other models' messages that cannot be sent; nil means
	// [slog.Default].
	Logger *slog.Logger

	// Dimension is the length of an embedder's vectors. OpenAI's models have a
	// default; some of them can return shorter vectors. For other models, Dimension
	// is required and must be the length that they return.
	Dimension int
}

// New opens a model by name. It fails if the server is OpenAI or Azure and the
// options and the environment contain no key or token.
func New(model string, opts *Options) (*Model, error) {
	if opts == nil {
		opts = &Options{}
	}
	c, err := connect(model, opts)
	if err != nil {
		return nil, fmt.Errorf("openai: model %q: %w", model, err)
	}
	m := &Model{name: model, client: c, own: c.own || c.azure, warn: adapter.NewWarner(opts.Logger, "openai", model)}
	switch {
	case opts.API == apiResponses || opts.API == "" && m.own:
		m.format = responses{m, opts.Stateful}
	case opts.Stateful:
		return nil, fmt.Errorf("openai: model %q: Stateful requires the Responses API: set Options.API to %q", model, apiResponses)
	default:
		m.format = chat{m}
	}
	return m, nil
}

// Provider returns the provider "openai", or [Options].Provider, for [llm.Open] and
// [llm.OpenEmbedder]. It opens all models and embedders with the same options:
//
//	local := openai.Provider(&openai.Options{Provider: "local", BaseURL: "http://localhost:8080/v1"})
//
// Package models contains the addresses of common servers.
func Provider(opts *Options) llm.Provider {
	name := provider
	if opts != nil {
		name = cmp.Or(opts.Provider, provider)
	}
	return adapter.Provider(name, opts, New, NewEmbedder)
}
