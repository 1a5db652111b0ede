package openai

import (
	"cmp"
	"fmt"
	"net/http"

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
)

// Options configures access to the server. A nil *Options means the defaults. An
// empty Key or BaseURL is read from the environment variable OPENAI_API_KEY or
// OPENAI_BASE_URL when a model is opened. OPENAI_ORG_ID, OPENAI_PROJECT_ID, and
// OPENAI_CUSTOM_HEADERS (lines of the form "name: value") are sent too, unless the
// field BaseURL is the address of another server.
type Options struct {
	// Key is the API key; empty means OPENAI_API_KEY. OpenAI requires a key; other
	// servers may not.
	Key string
	// BaseURL is the address of the API, usually ending with /v1; empty means
	// OPENAI_BASE_URL, or OpenAI's address if that is empty too.
	BaseURL string
	// Header is sent with every request. It replaces headers with the same name.
	Header http.Header
	// HTTPClient makes the requests; nil means [http.DefaultClient]. Redirects to
	// another server are not followed.
	HTTPClient *http.Client
	// Provider is the server's name in errors, descriptions, and names for
	// [llm.Open]; empty means openai.
	Provider string

	// Dimension is the length of an embedder's vectors. OpenAI's models have a
	// default; some of them can return shorter vectors. For other models, Dimension
	// is required and must be the length that they return.
	Dimension int
}

// New opens a model by name. It fails if the server is OpenAI and there is no key.
func New(model string, opts *Options) (*Model, error) {
	c, err := connect(model, opts)
	if err != nil {
		return nil, fmt.Errorf("openai: model %q: %w", model, err)
	}
	return &Model{name: model, client: c, own: c.own}, nil
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
	return llm.Provider{
		Name: name,
		Model: func(name string) (llm.Model, error) {
			m, err := New(name, opts)
			if err != nil {
				return nil, err // a nil *Model would be a non-nil Model
			}
			return m, nil
		},
		Embedder: func(name string) (llm.Embedder, error) {
			e, err := NewEmbedder(name, opts)
			if err != nil {
				return nil, err
			}
			return e, nil
		},
	}
}
