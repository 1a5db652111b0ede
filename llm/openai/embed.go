package openai

import (
	"context"
	"fmt"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/treadle-go/treadle/llm"
)

// Embedder makes vectors of texts. Make one with [NewEmbedder]. It may be used
// by several goroutines at once, and as the embedder of a store.
type Embedder struct {
	name      string
	api       *sdk.EmbeddingService
	dimension int
	shorten   bool // the server is to be told the dimension
}

// dimensions of OpenAI's models, and whether they can make shorter vectors.
var dimensions = map[string]struct {
	size    int
	shorter bool
}{
	"text-embedding-3-small": {1536, true},
	"text-embedding-3-large": {3072, true},
	"text-embedding-ada-002": {1536, false},
}

// NewEmbedder opens an embedder by its model's name. A missing key is an error,
// and so is a model of unknown dimension without [Options.Dimension].
func NewEmbedder(model string, opts *Options) (*Embedder, error) {
	c, err := connect(model, opts)
	if err != nil {
		return nil, fmt.Errorf("openai: embedder %q: %w", model, err)
	}
	e := &Embedder{name: model, api: &c.sdk.Embeddings}
	if opts != nil {
		e.dimension = opts.Dimension
	}
	known, ok := dimensions[model]
	switch {
	case e.dimension < 0 || ok && e.dimension > known.size:
		return nil, fmt.Errorf("openai: embedder %q: it makes no vectors of %d numbers", model, e.dimension)
	case !ok && e.dimension == 0:
		return nil, fmt.Errorf("openai: embedder %q: the length of its vectors is not known here: set Options.Dimension", model)
	case !ok:
	case e.dimension == 0:
		e.dimension = known.size
	case e.dimension != known.size && !known.shorter:
		return nil, fmt.Errorf("openai: embedder %q: it makes vectors of %d numbers only, not of %d", model, known.size, e.dimension)
	default:
		e.shorten = e.dimension != known.size
	}
	return e, nil
}

// Model is the provider and the name of the model.
func (e *Embedder) Model() string { return provider + ":" + e.name }

// Dimension is the length of the vectors.
func (e *Embedder) Dimension() int { return e.dimension }

// The API takes at most this many texts at once, and 300,000 tokens, of which
// even dense texts have fewer than one in two bytes.
const (
	batchTexts = 2048
	batchBytes = 600_000
)

// Embed returns one vector for each text, in their order. More texts than the
// API takes at once are sent in several requests, one after the other. Errors
// of the server are of type [*llm.Error].
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, 0, len(texts))
	for len(texts) > 0 {
		n, bytes := 1, len(texts[0])
		for n < len(texts) && n < batchTexts && bytes+len(texts[n]) <= batchBytes {
			bytes += len(texts[n])
			n++
		}
		vectors, err := e.batch(ctx, texts[:n])
		if err != nil {
			return nil, err
		}
		out = append(out, vectors...)
		texts = texts[n:]
	}
	return out, nil
}

func (e *Embedder) batch(ctx context.Context, texts []string) ([][]float32, error) {
	if ctx.Err() != nil {
		return nil, cancelled(ctx)
	}
	params := sdk.EmbeddingNewParams{Model: e.name, EncodingFormat: sdk.EmbeddingNewParamsEncodingFormatFloat}
	params.Input.OfArrayOfStrings = texts
	if e.shorten {
		params.Dimensions = sdk.Int(int64(e.dimension))
	}
	var resp *http.Response
	got, err := e.api.New(ctx, params, option.WithResponseInto(&resp))
	if err != nil {
		return nil, failure(ctx, err, resp, false)
	}
	wrong := func(format string, args ...any) error {
		return &llm.Error{Provider: provider, Status: resp.StatusCode, Message: fmt.Sprintf(format, args...)}
	}
	if len(got.Data) != len(texts) {
		return nil, wrong("asked for the vectors of %d texts, the model %s gave %d", len(texts), e.name, len(got.Data))
	}
	out := make([][]float32, len(texts))
	for i, v := range got.Data {
		at := i
		if v.JSON.Index.Valid() {
			at = int(v.Index)
		}
		if at < 0 || at >= len(out) || out[at] != nil {
			return nil, wrong("the vector of text %d is there twice, or of a text that was not sent", at)
		}
		if len(v.Embedding) != e.dimension {
			return nil, wrong("the vectors of %s have %d numbers, not %d: set Options.Dimension to what it makes", e.name, len(v.Embedding), e.dimension)
		}
		out[at] = make([]float32, len(v.Embedding))
		for j, x := range v.Embedding {
			out[at][j] = float32(x)
		}
	}
	return out, nil
}
