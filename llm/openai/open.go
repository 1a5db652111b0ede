package openai

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/treadle-go/treadle/llm"
)

const (
	// provider is the name in errors, descriptions and [llm.Open], unless the options have another.
	provider = "openai"
	keyName  = "OPENAI_API_KEY"
	urlName  = "OPENAI_BASE_URL"

	ownURL  = "https://api.openai.com/v1"
	ownHost = "api.openai.com"
)

// Options say how to reach the server. The zero value and nil are the defaults. An
// empty Key or BaseURL is read from the environment variable OPENAI_API_KEY or
// OPENAI_BASE_URL when a model is opened. OPENAI_ORG_ID, OPENAI_PROJECT_ID and
// OPENAI_CUSTOM_HEADERS (lines of the form "name: value") are sent too, unless the
// field BaseURL is the address of another server.
type Options struct {
	// Key is the API key; empty means OPENAI_API_KEY. OpenAI needs a key, other
	// servers may not.
	Key string
	// BaseURL is the address of the API, usually with /v1 at its end; empty means
	// OPENAI_BASE_URL, or the address of OpenAI if that is empty too.
	BaseURL string
	// Header is sent with every request. It replaces headers of the same name.
	Header http.Header
	// HTTPClient makes the requests; nil means [http.DefaultClient]. Redirects to
	// another server are not followed.
	HTTPClient *http.Client
	// Provider is the name of the server in errors, in descriptions and in names for
	// [llm.Open]; empty means openai.
	Provider string

	// Dimension is the length of an embedder's vectors. OpenAI's models have a
	// default; some of them can make shorter vectors. For other models it is
	// required, and must be the length that they make.
	Dimension int
}

// New opens a model by its name. It fails if OpenAI is the server and there is no
// key.
func New(model string, opts *Options) (*Model, error) {
	c, err := connect(model, opts)
	if err != nil {
		return nil, fmt.Errorf("openai: model %q: %w", model, err)
	}
	return &Model{name: model, client: c, own: c.own}, nil
}

// Provider returns the provider "openai", or [Options.Provider], for [llm.Open] and
// [llm.OpenEmbedder]. It opens all models and embedders with the same options:
//
//	local := openai.Provider(&openai.Options{Provider: "local", BaseURL: "http://localhost:8080/v1"})
//
// Package models has the addresses of servers that many use.
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
				return nil, err // a nil *Model would be a Model
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
