package bedrock

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

const (
	// provider is the name in errors, descriptions, and [llm.Open].
	provider = "bedrock"
	// source is the model_provider in metadata, as LangChain writes it.
	source  = "bedrock_converse"
	keyName = "AWS_BEARER_TOKEN_BEDROCK"
)

// Options configures access to Bedrock. A nil *Options means the defaults.
type Options struct {
	// Config is the AWS configuration. Nil means the default, which is read when a
	// model is opened: the environment (AWS_REGION, AWS_PROFILE, AWS_ACCESS_KEY_ID,
	// and others), the files in ~/.aws, and the role of the machine or container.
	Config *aws.Config
	// Region is the AWS region, such as us-east-1; empty means the region of
	// Config.
	Region string
	// Key is a Bedrock API key, which replaces credentials; empty means the
	// environment variable AWS_BEARER_TOKEN_BEDROCK, or credentials if that is
	// empty too.
	Key string
	// BaseURL is the address of the API; empty means the address for the region.
	BaseURL string
	// HTTPClient makes the requests; nil means the client of Config. Redirects are
	// not followed.
	HTTPClient *http.Client

	// Logger receives warnings, each once per model: unknown events, and reasoning
	// and media of other models' messages that cannot be sent; nil means
	// [slog.Default].
	Logger *slog.Logger

	// BaseModel is the ID of the model of an application inference profile, whose
	// name does not show it. It determines the request format for features
	// that differ between models.
	BaseModel string

	// Dimension is the length of an embedder's vectors. Known models have a
	// default; some of them can return shorter vectors. For other models, Dimension
	// is required.
	Dimension int
}

// New opens a model by its ID, the ID of an inference profile, or an ARN. It fails
// without a region. It does not check whether the model exists or whether there are
// credentials.
func New(model string, opts *Options) (*Model, error) {
	if opts == nil {
		opts = &Options{}
	}
	c, err := connect(model, opts)
	if err != nil {
		return nil, fmt.Errorf("bedrock: model %q: %w", model, err)
	}
	return &Model{name: model, base: opts.BaseModel, client: c, warn: adapter.NewWarner(opts.Logger, provider, model)}, nil
}

// Provider returns the provider "bedrock" for [llm.Open] and [llm.OpenEmbedder]. It
// opens all models and embedders with the same options.
func Provider(opts *Options) llm.Provider {
	return adapter.Provider(provider, opts, New, NewEmbedder)
}
