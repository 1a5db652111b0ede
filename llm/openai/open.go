package openai

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/treadle-go/treadle/internal/origin"
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
// environment when a model is opened: OPENAI_API_KEY and OPENAI_BASE_URL, and by
// the SDK also OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS.
type Options struct {
	// Key is the API key; empty is that of OPENAI_API_KEY. OpenAI itself needs
	// one, other servers may not.
	Key string
	// BaseURL is the address of the API, usually with /v1 at its end; empty is
	// OPENAI_BASE_URL, or else OpenAI's own.
	BaseURL string
	// Header is sent with every request, and wins over what else would be sent.
	Header http.Header
	// HTTPClient makes the requests; nil is [http.DefaultClient].
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
	return &Model{name: model, chat: &c.sdk.Chat.Completions, own: c.own}, nil
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

// client is a connection to a server.
type client struct {
	sdk sdk.Client
	own bool // it is OpenAI
}

func connect(model string, opts *Options) (*client, error) {
	if opts == nil {
		opts = &Options{}
	}
	if model == "" {
		return nil, errors.New("it has no name")
	}
	base := cmp.Or(opts.BaseURL, os.Getenv(urlName), ownURL)
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("the base URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the base URL %q is no address of the form https://host/path", u.Redacted())
	}
	c := &client{own: strings.EqualFold(u.Hostname(), ownHost)}
	key := cmp.Or(opts.Key, os.Getenv(keyName))
	if key == "" && c.own {
		return nil, fmt.Errorf("there is no API key: set Options.Key or the environment variable %s", keyName)
	}
	settings := []option.RequestOption{
		option.WithBaseURL(base),
		option.WithAPIKey(key),
		option.WithHTTPClient(origin.Only(opts.HTTPClient, base)),
		// llm.Retry does this for all providers alike, and only if it is asked to.
		option.WithMaxRetries(0),
	}
	for name, values := range opts.Header {
		settings = append(settings, option.WithHeaderDel(name))
		for _, v := range values {
			settings = append(settings, option.WithHeaderAdd(name, v))
		}
	}
	c.sdk = sdk.NewClient(settings...)
	return c, nil
}
