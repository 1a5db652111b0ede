package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"google.golang.org/genai"

	"github.com/treadle-go/treadle/internal/origin"
	"github.com/treadle-go/treadle/llm"
)

const (
	// provider is the name in errors, descriptions, and [llm.Open].
	provider   = "gemini"
	keyName    = "GEMINI_API_KEY"
	oldKeyName = "GOOGLE_API_KEY"
	urlName    = "GOOGLE_GEMINI_BASE_URL"
	ownURL     = "https://generativelanguage.googleapis.com/"
	apiVersion = "v1beta"
	// ownFiles is the URL prefix of uploaded files, whatever the BaseURL.
	ownFiles = ownURL + apiVersion + "/files/"
)

// Options configures access to the API. A nil *Options means the defaults. An empty
// Key or BaseURL is read from the environment when a model is opened.
type Options struct {
	// Key is the API key; empty means GEMINI_API_KEY, or GOOGLE_API_KEY if that is
	// empty too. (If both variables are set, the SDK logs that it uses
	// GOOGLE_API_KEY. In fact, GEMINI_API_KEY is used.)
	Key string
	// BaseURL is the address of the API, without the version; empty means
	// GOOGLE_GEMINI_BASE_URL, or Google's address if that is empty too.
	BaseURL string
	// Header is sent with every request.
	Header http.Header
	// HTTPClient makes the requests; nil means [http.DefaultClient].
	HTTPClient *http.Client

	// Dimension is the length of an embedder's vectors. Google's models have a
	// default; some of them can return shorter vectors. For other models, Dimension
	// is required.
	Dimension int
}

// New opens a model by name. It fails without a key. It does not check whether the
// model exists.
func New(model string, opts *Options) (*Model, error) {
	api, err := connect(model, opts)
	if err != nil {
		return nil, fmt.Errorf("gemini: model %q: %w", model, err)
	}
	return &Model{name: model, api: api}, nil
}

// Provider returns the provider "gemini" for [llm.Open] and [llm.OpenEmbedder]. It
// opens all models and embedders with the same options.
func Provider(opts *Options) llm.Provider {
	return llm.Provider{
		Name: provider,
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

// connect returns a client configured by the options.
func connect(model string, opts *Options) (*genai.Models, error) {
	if opts == nil {
		opts = &Options{}
	}
	if model == "" {
		return nil, errors.New("it has no name")
	}
	key := cmp.Or(opts.Key, os.Getenv(keyName), os.Getenv(oldKeyName))
	if key == "" {
		return nil, fmt.Errorf("there is no API key: set Options.Key or the environment variable %s", keyName)
	}
	base := cmp.Or(opts.BaseURL, os.Getenv(urlName), ownURL)
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("the base URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the base URL %q does not have the form https://host/path", u.Redacted())
	}
	hc := origin.Only(opts.HTTPClient, base)
	hc.Transport = &listener{cmp.Or[http.RoundTripper](hc.Transport, http.DefaultTransport)}
	// The context is for credentials, which an API key does not need. Without
	// RetryOptions, the SDK does not retry; llm.Retry does that for all providers.
	c, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey:      key,
		Backend:     genai.BackendGeminiAPI,
		HTTPClient:  hc,
		HTTPOptions: genai.HTTPOptions{BaseURL: base, APIVersion: apiVersion, Headers: opts.Header.Clone()},
	})
	if err != nil {
		return nil, err
	}
	return c.Models, nil
}
