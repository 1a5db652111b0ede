package openai

import (
	"fmt"
	"net/http"

	"github.com/treadle-go/treadle/llm"
)

const (
	// provider is the name in errors, descriptions and [llm.Open].
	provider = "openai"
	keyName  = "OPENAI_API_KEY"
	urlName  = "OPENAI_BASE_URL"

	ownURL  = "https://api.openai.com/v1"
	ownHost = "api.openai.com"
)

// Options say how to reach the server. What they leave open is read from the
// environment when a model is opened: OPENAI_API_KEY and OPENAI_BASE_URL. Unless
// BaseURL names another server than OpenAI's, OPENAI_ORG_ID, OPENAI_PROJECT_ID
// and OPENAI_CUSTOM_HEADERS (lines of the form "name: value") are sent too.
type Options struct {
	// Key is the API key; empty is that of OPENAI_API_KEY. OpenAI itself needs
	// one, other servers may not.
	Key string
	// BaseURL is the address of the API, usually with /v1 at its end; empty is
	// OPENAI_BASE_URL, or else OpenAI's own.
	BaseURL string
	// Header is sent with every request, and wins over what else would be sent.
	Header http.Header
	// HTTPClient makes the requests; nil is [http.DefaultClient]. Redirects to
	// another server are not followed.
	HTTPClient *http.Client

	// Dimension is the length of an embedder's vectors. OpenAI's own models need
	// none; for those that can shorten their vectors, one asks for it. For other
	// models it must be given: it says what they make.
	Dimension int
}

// New opens a model by its name. A missing key is an error.
func New(model string, opts *Options) (*Model, error) {
	c, err := connect(model, opts)
	if err != nil {
		return nil, fmt.Errorf("openai: model %q: %w", model, err)
	}
	return &Model{name: model, client: c, own: c.own}, nil
}

// Provider opens models and embedders for [llm.Open] and [llm.OpenEmbedder], all
// with the same options, by the prefix "openai". Where a program knows several
// servers, each gets a name of its own:
//
//	ollama := openai.Provider(&openai.Options{BaseURL: "http://localhost:11434/v1"})
//	ollama.Name = "ollama"
func Provider(opts *Options) llm.Provider {
	return llm.Provider{
		Name: provider,
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
