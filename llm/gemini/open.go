package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"

	"google.golang.org/genai"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

const (
	// Names in errors, descriptions, metadata, and [llm.Open].
	provider       = "gemini"
	vertexProvider = "vertex"

	keyName    = "GEMINI_API_KEY"
	oldKeyName = "GOOGLE_API_KEY"
	urlName    = "GOOGLE_GEMINI_BASE_URL"
	ownURL     = "https://generativelanguage.googleapis.com/"
	apiVersion = "v1beta"
	// ownFiles is the URL prefix of uploaded files, whatever the BaseURL.
	ownFiles = ownURL + apiVersion + "/files/"
)

// Options configures access to the API. A nil *Options means the defaults. Empty
// keys, addresses, and names are read from the environment when a model is opened.
type Options struct {
	// Key is the API key; empty means GEMINI_API_KEY, or GOOGLE_API_KEY if that is
	// empty too. (If both variables are set, the SDK logs that it uses
	// GOOGLE_API_KEY. In fact, GEMINI_API_KEY is used.) Vertex AI uses tokens
	// instead.
	Key string
	// BaseURL is the address of the API, without the version; empty means
	// GOOGLE_GEMINI_BASE_URL (GOOGLE_VERTEX_BASE_URL for Vertex AI), or Google's
	// address if that is empty too.
	BaseURL string

	// Vertex selects Google Cloud's Vertex AI in place of the Gemini API. The
	// provider name is then "vertex".
	Vertex bool
	// Project is the ID of the Google Cloud project for Vertex AI; empty means
	// GOOGLE_CLOUD_PROJECT.
	Project string
	// Location is the region for Vertex AI, such as europe-west1, or us, eu, or
	// global; empty means GOOGLE_CLOUD_LOCATION, or global if that is empty too.
	Location string
	// Token returns an access token for Vertex AI. It is called for each request, so
	// it should cache the token. If the server rejects the token, Token is called
	// again, and the request is sent once more if the token is new. Nil means
	// Google's application default credentials.
	Token func(context.Context) (string, error)

	// Header is sent with every request.
	Header http.Header
	// HTTPClient makes the requests; nil means [http.DefaultClient].
	HTTPClient *http.Client
	// Logger receives warnings, each once per model: unknown events, and reasoning
	// and media of other models' messages that cannot be sent; nil means
	// [slog.Default].
	Logger *slog.Logger

	// Dimension is the length of an embedder's vectors. Google's models have a
	// default; some of them can return shorter vectors. For other models, Dimension
	// is required.
	Dimension int
}

// New opens a model by name. It fails without a key, or, for Vertex AI, without a
// project and credentials. It does not check whether the model exists.
func New(model string, opts *Options) (*Model, error) {
	api, err := connect(model, opts)
	if err != nil {
		return nil, fmt.Errorf("gemini: model %q: %w", model, err)
	}
	m := &Model{name: model, api: api, provider: provider}
	var log *slog.Logger
	if opts != nil {
		log = opts.Logger
		if opts.Vertex {
			m.provider = vertexProvider
		}
	}
	m.warn = adapter.NewWarner(log, "gemini", model)
	return m, nil
}

// Provider returns the provider "gemini" for [llm.Open] and [llm.OpenEmbedder], or
// "vertex", which has no embedders, if the options select Vertex AI. It opens all
// models and embedders with the same options.
func Provider(opts *Options) llm.Provider {
	p := adapter.Provider(provider, opts, New, NewEmbedder)
	if opts != nil && opts.Vertex {
		p.Name, p.Embedder = vertexProvider, nil
	}
	return p
}

// endpoint is the API that a client calls.
type endpoint struct {
	provider string
	base     string
	key      string // of the Gemini API
	// The rest is for Vertex AI.
	project, location string
	token             func(context.Context) (string, error)
	quota             string // the project to charge, if the credentials name one
}

// connect returns a client configured by the options.
func connect(model string, opts *Options) (*genai.Models, error) {
	if opts == nil {
		opts = &Options{}
	}
	if model == "" {
		return nil, errors.New("empty name")
	}
	at, err := endpointOf(opts)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(at.base)
	if err != nil {
		return nil, fmt.Errorf("invalid base URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("invalid base URL %q: use the form https://host/path", u.Redacted())
	}
	hc := adapter.HTTPClient(opts.HTTPClient, at.base)
	config := &genai.ClientConfig{
		APIKey:      at.key,
		Backend:     genai.BackendGeminiAPI,
		HTTPClient:  hc,
		HTTPOptions: genai.HTTPOptions{BaseURL: at.base, APIVersion: apiVersion, Headers: at.header(opts.Header)},
	}
	if at.token != nil {
		config.Backend, config.Project, config.Location = genai.BackendVertexAI, at.project, at.location
		config.HTTPOptions.APIVersion = vertexVersion
		hc.Transport = adapter.Authorized(hc.Transport, at.token)
	}
	hc.Transport = &listener{hc.Transport, at}
	// The context is for the SDK's own credentials, which are not used. Without
	// RetryOptions, the SDK does not retry; llm.Retry does that for all providers.
	c, err := genai.NewClient(context.Background(), config)
	if err != nil {
		return nil, err
	}
	return c.Models, nil
}

// header returns the header of all requests.
func (at *endpoint) header(own http.Header) http.Header {
	const quota = "X-Goog-User-Project"
	h := own.Clone()
	if at.quota != "" && h.Get(quota) == "" {
		if h == nil {
			h = http.Header{}
		}
		h.Set(quota, at.quota)
	}
	return h
}

// endpointOf returns the API that the options and the environment select.
func endpointOf(opts *Options) (*endpoint, error) {
	if opts.Vertex {
		return vertexOf(opts)
	}
	if opts.Project != "" || opts.Location != "" || opts.Token != nil {
		return nil, errors.New("project, location, or token without Vertex AI: set Options.Vertex too")
	}
	at := &endpoint{provider: provider, base: cmp.Or(opts.BaseURL, os.Getenv(urlName), ownURL), key: cmp.Or(opts.Key, os.Getenv(keyName), os.Getenv(oldKeyName))}
	if at.key == "" {
		return nil, fmt.Errorf("no API key: set Options.Key or the environment variable %s, or Options.Vertex for Vertex AI", keyName)
	}
	return at, nil
}
