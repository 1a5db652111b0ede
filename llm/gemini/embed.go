package gemini

import (
	"context"
	"fmt"

	"google.golang.org/genai"

	"github.com/treadle-go/treadle/llm"
)

// Embedder converts texts to vectors. Create one with [NewEmbedder]. It is safe for
// concurrent use, and a store can use it for semantic search.
type Embedder struct {
	name      string
	api       *genai.Models
	dimension int
	shorten   bool // the request must include the dimension
}

// dimensions lists the dimensions of Google's models, and whether they support
// shorter vectors.
var dimensions = map[string]struct {
	size    int
	shorter bool
}{
	"gemini-embedding-001":       {3072, true},
	"gemini-embedding-2":         {3072, true},
	"gemini-embedding-2-preview": {3072, true},
	"text-embedding-004":         {768, true},
	"embedding-001":              {768, false},
}

// NewEmbedder opens an embedder by model name. It fails without a key.
// [Options].Dimension is required for models whose dimension the package does not
// know.
func NewEmbedder(model string, opts *Options) (*Embedder, error) {
	api, err := connect(model, opts)
	if err != nil {
		return nil, fmt.Errorf("gemini: embedder %q: %w", model, err)
	}
	e := &Embedder{name: model, api: api}
	if opts != nil {
		e.dimension = opts.Dimension
	}
	known, ok := dimensions[model]
	switch {
	case e.dimension < 0 || ok && e.dimension > known.size:
		return nil, fmt.Errorf("gemini: embedder %q: Options.Dimension is %d, which the model does not support", model, e.dimension)
	case !ok && e.dimension == 0:
		return nil, fmt.Errorf("gemini: embedder %q: the dimension of this model is not known: set Options.Dimension", model)
	case !ok:
	case e.dimension == 0:
		e.dimension = known.size
	case e.dimension != known.size && !known.shorter:
		return nil, fmt.Errorf("gemini: embedder %q: its dimension is %d and cannot be %d", model, known.size, e.dimension)
	default:
		e.shorten = e.dimension != known.size
	}
	return e, nil
}

// Model returns the provider and the model name, such as
// "gemini:gemini-embedding-001".
func (e *Embedder) Model() string { return provider + ":" + e.name }

// Dimension returns the length of the vectors.
func (e *Embedder) Dimension() int { return e.dimension }

// batchTexts is the maximum number of texts per request.
const batchTexts = 100

// Embed returns one vector for each text, in order. If there are more texts than
// the API accepts at once, it sends several requests in sequence. API errors have
// the type [*llm.Error].
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, 0, len(texts))
	for len(texts) > 0 {
		n := min(len(texts), batchTexts)
		vectors, err := e.batch(ctx, texts[:n])
		if err != nil {
			return nil, err
		}
		out, texts = append(out, vectors...), texts[n:]
	}
	return out, nil
}

func (e *Embedder) batch(ctx context.Context, texts []string) ([][]float32, error) {
	if ctx.Err() != nil {
		return nil, cancelled(ctx)
	}
	contents := make([]*genai.Content, len(texts))
	for i, text := range texts {
		contents[i] = genai.NewContentFromText(text, genai.RoleUser)
	}
	config := &genai.EmbedContentConfig{}
	if e.shorten {
		config.OutputDimensionality = new(int32(e.dimension))
	}
	call, h := listen(ctx)
	resp, err := guard(func() (*genai.EmbedContentResponse, error) {
		return e.api.EmbedContent(call, e.name, contents, config)
	})
	if err != nil {
		return nil, failure(ctx, err, h)
	}
	wrong := func(format string, args ...any) error {
		return &llm.Error{Provider: provider, Status: h.status, Message: fmt.Sprintf(format, args...)}
	}
	if len(resp.Embeddings) != len(texts) {
		return nil, wrong("asked for the vectors of %d texts, the model %s gave %d", len(texts), e.name, len(resp.Embeddings))
	}
	out := make([][]float32, len(texts))
	for i, v := range resp.Embeddings {
		if v == nil || len(v.Values) != e.dimension {
			return nil, wrong("a vector of %s has not %d numbers: set Options.Dimension to what it makes", e.name, e.dimension)
		}
		out[i] = v.Values
	}
	return out, nil
}
