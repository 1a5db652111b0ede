package ollama

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

const (
	// provider is the name in errors, descriptions, metadata, and [llm.Open].
	provider = "ollama"
	keyName  = "OLLAMA_API_KEY"
	hostName = "OLLAMA_HOST"
)

// Options configures access to the server. A nil *Options means the defaults. An
// empty Key or BaseURL is read from the environment variable OLLAMA_API_KEY or
// OLLAMA_HOST when a model is opened.
type Options struct {
	// Key is the API key of a hosted server; empty means OLLAMA_API_KEY. A local
	// server needs none.
	Key string
	// BaseURL is the server's address; empty means OLLAMA_HOST, or
	// http://127.0.0.1:11434 if that is empty too. As in OLLAMA_HOST, the scheme
	// and the port are optional.
	BaseURL string
	// Header is sent with every request. It replaces headers with the same name.
	Header http.Header
	// HTTPClient makes the requests; nil means [http.DefaultClient]. Redirects to
	// another server are not followed.
	HTTPClient *http.Client

	// Logger receives warnings, each once per model: unknown events, and reasoning
	// and media of other models' messages that cannot be sent; nil means
	// [slog.Default].
	Logger *slog.Logger

	// Context is the size of the context window in tokens (num_ctx); 0 means the
	// server's default, usually 4096. A larger window needs more memory.
	Context int
	// KeepAlive is the time that the server keeps the model in memory after a
	// request; 0 means the server's default, and a negative value no limit.
	KeepAlive time.Duration

	// Dimension is the length of an embedder's vectors; 0 means the default of a
	// common model. Other models require it. If it is less than the length that the
	// model returns, the server shortens the vectors.
	Dimension int
}

// New opens a model by name, such as "qwen3" or "qwen3:32b". It does not check
// whether the server has the model; see [Pull].
func New(model string, opts *Options) (*Model, error) {
	c, err := connect(model, opts)
	if err != nil {
		return nil, fmt.Errorf("ollama: model %q: %w", model, err)
	}
	var log *slog.Logger
	if opts != nil {
		log = opts.Logger
	}
	return &Model{name: model, client: c, warn: adapter.NewWarner(log, provider, model)}, nil
}

// Provider returns the provider "ollama" for [llm.Open] and [llm.OpenEmbedder]. It
// opens all models and embedders with the same options.
func Provider(opts *Options) llm.Provider {
	return adapter.Provider(provider, opts, New, NewEmbedder)
}
