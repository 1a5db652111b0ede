package bedrock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// Embedder converts texts to vectors with the models of Amazon (Titan and Nova) and
// Cohere. Create one with [NewEmbedder]. It is safe for concurrent use, and a store
// can use it for semantic search.
type Embedder struct {
	name      string
	client    *client
	format    format
	dimension int
	shorten   bool // the request must include the dimension
}

// format is the request and response format of embedding models.
type format struct {
	prefix string // the start of the model's ID
	// sizes lists the dimensions that the model supports, the default first.
	sizes []int
	batch int // the maximum number of texts per request
	// body returns a request for the vectors of texts, which are search queries or
	// documents. A dimension of 0 means the default.
	body func(texts []string, dimension int, queries bool) object
	// vectors parses a response.
	vectors func(raw []byte) ([][]float32, error)
}

// embedders lists the known models. A model has the first format whose prefix
// matches.
var embedders = []format{
	{"amazon.titan-embed-text-v1", []int{1536}, 1, titan, one},
	{"amazon.titan-embed-g1-text", []int{1536}, 1, titan, one},
	{"amazon.titan-embed-text-v2", []int{1024, 512, 256}, 1, titan, one},
	{"amazon.titan-embed", nil, 1, titan, one},
	{"amazon.nova-2-multimodal-embeddings", []int{3072, 1024, 384, 256}, 1, nova, listed},
	{"cohere.embed-english-v3", []int{1024}, 96, cohere, several},
	{"cohere.embed-multilingual-v3", []int{1024}, 96, cohere, several},
	{"cohere.embed-v4", []int{1536, 1024, 512, 256}, 96, cohere, several},
	{"cohere.embed", nil, 96, cohere, several},
}

func titan(texts []string, dimension int, _ bool) object {
	body := object{"inputText": texts[0]}
	if dimension > 0 {
		body["dimensions"] = dimension
	}
	return body
}

func one(raw []byte) ([][]float32, error) {
	var out struct{ Embedding []float32 }
	err := json.Unmarshal(raw, &out)
	return [][]float32{out.Embedding}, err
}

func nova(texts []string, dimension int, queries bool) object {
	purpose := "GENERIC_INDEX"
	if queries {
		purpose = "TEXT_RETRIEVAL"
	}
	params := object{"embeddingPurpose": purpose, "text": object{"truncationMode": "NONE", "value": texts[0]}}
	if dimension > 0 {
		params["embeddingDimension"] = dimension
	}
	return object{"taskType": "SINGLE_EMBEDDING", "singleEmbeddingParams": params}
}

func listed(raw []byte) (vectors [][]float32, err error) {
	var out struct {
		Embeddings []struct{ Embedding []float32 }
	}
	err = json.Unmarshal(raw, &out)
	for _, e := range out.Embeddings {
		vectors = append(vectors, e.Embedding)
	}
	return vectors, err
}

func cohere(texts []string, dimension int, queries bool) object {
	kind := "search_document"
	if queries {
		kind = "search_query"
	}
	body := object{"texts": texts, "input_type": kind, "truncate": "NONE"}
	if dimension > 0 {
		body["output_dimension"] = dimension
	}
	return body
}

// several parses a list of vectors, or, from newer models, lists by type.
func several(raw []byte) ([][]float32, error) {
	var out struct{ Embeddings json.RawMessage }
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	var vectors [][]float32
	if json.Unmarshal(out.Embeddings, &vectors) == nil {
		return vectors, nil
	}
	var typed struct{ Float [][]float32 }
	err := json.Unmarshal(out.Embeddings, &typed)
	return typed.Float, err
}

// NewEmbedder opens an embedder by model ID, such as
// "amazon.titan-embed-text-v2:0" or "cohere.embed-v4:0". [Options].Dimension
// selects one of the dimensions that the model supports. It is required for models
// that the package does not list.
func NewEmbedder(model string, opts *Options) (*Embedder, error) {
	if opts == nil {
		opts = &Options{}
	}
	e := &Embedder{name: model, dimension: opts.Dimension}
	fail := func(err error) (*Embedder, error) { return nil, fmt.Errorf("bedrock: embedder %q: %w", model, err) }
	var err error
	if e.client, err = connect(model, opts); err != nil {
		return fail(err)
	}
	base := familyOf(model)
	if opts.BaseModel != "" {
		base = familyOf(opts.BaseModel)
	}
	at := slices.IndexFunc(embedders, func(f format) bool { return base.any(f.prefix) })
	if at < 0 {
		return fail(errors.New("unknown embedding model: use a model of Amazon or Cohere, or set Options.BaseModel if the ID names a profile"))
	}
	e.format = embedders[at]
	switch sizes := e.format.sizes; {
	case e.dimension < 0 || len(sizes) > 0 && e.dimension > 0 && !slices.Contains(sizes, e.dimension):
		return fail(fmt.Errorf("invalid Options.Dimension %d: the model supports %v", e.dimension, sizes))
	case len(sizes) == 0 && e.dimension == 0:
		return fail(errors.New("unknown dimension: set Options.Dimension"))
	case e.dimension == 0:
		e.dimension = sizes[0]
	default:
		e.shorten = len(sizes) > 0 && e.dimension != sizes[0]
	}
	return e, nil
}

// Model returns the provider and the model ID, such as
// "bedrock:amazon.titan-embed-text-v2:0".
func (e *Embedder) Model() string { return provider + ":" + e.name }

// Dimension returns the length of the vectors.
func (e *Embedder) Dimension() int { return e.dimension }

// parallel is the maximum number of concurrent requests of one call, because some
// models accept only one text per request.
const parallel = 8

// Embed returns one vector for each text, in order. If there are more texts than
// the model accepts at once, it sends several requests, some of them concurrently.
// A request that fails temporarily is retried as by [llm.Retry] with the default
// policy. A text that is too long for the model causes an error. API errors have the type
// [*llm.Error].
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return e.embed(ctx, texts, false)
}

// EmbedQueries is like [Embedder.Embed], but for search queries, which Cohere and
// Nova embed differently.
func (e *Embedder) EmbedQueries(ctx context.Context, texts []string) ([][]float32, error) {
	return e.embed(ctx, texts, true)
}

func (e *Embedder) embed(ctx context.Context, texts []string, queries bool) ([][]float32, error) {
	if err := adapter.CheckTexts(texts); err != nil {
		return nil, fmt.Errorf("bedrock: %w", err)
	}
	if ctx.Err() != nil {
		return nil, adapter.Canceled(ctx)
	}
	call, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([][]float32, len(texts))
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for from := 0; from < len(texts) && call.Err() == nil; from += e.format.batch {
		to := min(len(texts), from+e.format.batch)
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			vectors, err := adapter.Retry(call, e.name, func(ctx context.Context) ([][]float32, error) { return e.batch(ctx, texts[from:to], queries) })
			if err != nil {
				cancel(err) // the first error is the cause of the others
				return
			}
			copy(out[from:to], vectors)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, adapter.Canceled(ctx)
	}
	if err := context.Cause(call); err != nil {
		return nil, err
	}
	return out, nil
}

func (e *Embedder) batch(ctx context.Context, texts []string, queries bool) ([][]float32, error) {
	dimension := 0
	if e.shorten {
		dimension = e.dimension
	}
	body, err := encode(e.format.body(texts, dimension, queries))
	if err != nil {
		return nil, fmt.Errorf("bedrock: %w", err)
	}
	x, err := e.client.invoke(ctx, e.name, body)
	if err != nil {
		return nil, e.client.failure(ctx, e.name, err, x, false)
	}
	raw, err := io.ReadAll(x.body)
	_ = x.body.Close()
	if err != nil {
		return nil, e.client.failure(ctx, e.name, err, x, false)
	}
	vectors, err := e.format.vectors(raw)
	if err != nil {
		return nil, e.client.failure(ctx, e.name, fmt.Errorf("invalid response %q: %w", cmp.Or(adapter.Excerpt(string(raw)), "empty response"), err), x, false)
	}
	if err := adapter.CheckVectors(e.name, vectors, len(texts), e.dimension); err != nil {
		return nil, &llm.Error{Provider: provider, Status: x.status, Message: err.Error()}
	}
	return vectors, nil
}
