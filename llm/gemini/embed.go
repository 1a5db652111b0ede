package gemini

import (
	"context"
	"fmt"

	"google.golang.org/genai"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// Embedder converts texts to vectors. Create one with [NewEmbedder]. It is safe for
// concurrent use, and a store can use it for semantic search.
type Embedder struct {
	name      string
	api       *genai.Models
	dimension int
	shorten   bool // the request must include the dimension
	purpose   purpose
}

// purpose is how a request distinguishes queries from documents.
type purpose int

const (
	noPurpose purpose = iota
	byTask            // a field of the request
	byPrefix          // the start of the text
)

// dimensions lists the dimensions of Google's models, and whether they support
// shorter vectors.
var dimensions = map[string]struct {
	size    int
	shorter bool
	purpose purpose
}{
	"gemini-embedding-001":       {3072, true, byTask},
	"gemini-embedding-2":         {3072, true, byPrefix},
	"gemini-embedding-2-preview": {3072, true, byPrefix},
	"text-embedding-004":         {768, true, byTask},
	"embedding-001":              {768, false, noPurpose},
}

// Tasks and prefixes of documents and queries.
const (
	documentTask   = "RETRIEVAL_DOCUMENT"
	queryTask      = "RETRIEVAL_QUERY"
	documentPrefix = "title: none | text: "
	queryPrefix    = "task: search result | query: "
)

// NewEmbedder opens an embedder by model name. It fails without a key.
// [Options].Dimension is required for models whose dimension the package does not
// know.
func NewEmbedder(model string, opts *Options) (*Embedder, error) {
	if opts != nil && opts.Vertex {
		return nil, fmt.Errorf("gemini: embedder %q: embedders on Vertex AI are not supported: use the Gemini API", model)
	}
	api, err := connect(model, opts)
	if err != nil {
		return nil, fmt.Errorf("gemini: embedder %q: %w", model, err)
	}
	e := &Embedder{name: model, api: api}
	if opts != nil {
		e.dimension = opts.Dimension
	}
	known, ok := dimensions[model]
	e.purpose = known.purpose
	switch {
	case e.dimension < 0 || ok && e.dimension > known.size:
		return nil, fmt.Errorf("gemini: embedder %q: Options.Dimension is %d, which the model does not support", model, e.dimension)
	case !ok && e.dimension == 0:
		return nil, fmt.Errorf("gemini: embedder %q: unknown dimension: set Options.Dimension", model)
	case !ok:
	case e.dimension == 0:
		e.dimension = known.size
	case e.dimension != known.size && !known.shorter:
		return nil, fmt.Errorf("gemini: embedder %q: dimension is %d and cannot be %d", model, known.size, e.dimension)
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
// the API accepts at once, it sends several requests in sequence. A request that
// fails temporarily is retried as by [llm.Retry] with the default policy. API errors
// have the type [*llm.Error]. The API may ignore the end of a text that is too long for the
// model.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return e.embed(ctx, texts, documentTask, documentPrefix)
}

// EmbedQueries is like [Embedder.Embed], but for search queries.
func (e *Embedder) EmbedQueries(ctx context.Context, texts []string) ([][]float32, error) {
	return e.embed(ctx, texts, queryTask, queryPrefix)
}

func (e *Embedder) embed(ctx context.Context, texts []string, task, prefix string) ([][]float32, error) {
	if err := adapter.CheckTexts(texts); err != nil {
		return nil, fmt.Errorf("gemini: %w", err)
	}
	if e.purpose != byTask {
		task = ""
	}
	if e.purpose != byPrefix {
		prefix = ""
	}
	out := make([][]float32, 0, len(texts))
	for len(texts) > 0 {
		n := min(len(texts), batchTexts)
		vectors, err := adapter.Retry(ctx, e.name, func(ctx context.Context) ([][]float32, error) { return e.batch(ctx, texts[:n], task, prefix) })
		if err != nil {
			return nil, err
		}
		out, texts = append(out, vectors...), texts[n:]
	}
	return out, nil
}

func (e *Embedder) batch(ctx context.Context, texts []string, task, prefix string) ([][]float32, error) {
	if ctx.Err() != nil {
		return nil, adapter.Canceled(ctx)
	}
	contents := make([]*genai.Content, len(texts))
	for i, text := range texts {
		contents[i] = genai.NewContentFromText(prefix+text, genai.RoleUser)
	}
	config := &genai.EmbedContentConfig{TaskType: task}
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
	out := make([][]float32, len(resp.Embeddings))
	for i, v := range resp.Embeddings {
		if v != nil {
			out[i] = v.Values
		}
	}
	if err := adapter.CheckVectors(e.name, out, len(texts), e.dimension); err != nil {
		return nil, &llm.Error{Provider: provider, Status: h.status, Message: err.Error()}
	}
	return out, nil
}
