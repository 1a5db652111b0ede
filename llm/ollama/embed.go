package ollama

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// Embedder converts texts to vectors. Create one with [NewEmbedder]. It is safe for
// concurrent use, and a store can use it for semantic search.
type Embedder struct {
	name      string
	client    *client
	dimension int
	shorten   bool // the request must include the dimension
}

// dimensions lists the dimensions of common models.
var dimensions = map[string]int{
	"all-minilm":             384,
	"bge-m3":                 1024,
	"embeddinggemma":         768,
	"mxbai-embed-large":      1024,
	"nomic-embed-text":       768,
	"qwen3-embedding:0.6b":   1024,
	"qwen3-embedding:4b":     2560,
	"qwen3-embedding:8b":     4096,
	"snowflake-arctic-embed": 1024,
}

// prefixes lists the instructions that the authors of models prescribe for the start
// of texts, by the model's name without a tag. Ollama does not add them.
var prefixes = map[string]struct{ document, query string }{
	"embeddinggemma":         {"title: none | text: ", "task: search result | query: "},
	"mxbai-embed-large":      {"", "Represent this sentence for searching relevant passages: "},
	"nomic-embed-text":       {"search_document: ", "search_query: "},
	"qwen3-embedding":        {"", "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"},
	"snowflake-arctic-embed": {"", "Represent this sentence for searching relevant passages: "},
}

// NewEmbedder opens an embedder by model name, such as "nomic-embed-text".
// [Options].Dimension is required for models that the package does not list.
// NewEmbedder does not check whether the server has the model; see [Pull].
func NewEmbedder(model string, opts *Options) (*Embedder, error) {
	c, err := connect(model, opts)
	if err != nil {
		return nil, fmt.Errorf("ollama: embedder %q: %w", model, err)
	}
	e := &Embedder{name: model, client: c}
	if opts != nil {
		e.dimension = opts.Dimension
	}
	known := dimensions[strings.TrimSuffix(model, ":latest")]
	switch {
	case e.dimension < 0 || known > 0 && e.dimension > known:
		return nil, fmt.Errorf("ollama: embedder %q: invalid Options.Dimension %d: vectors of the model have %d numbers", model, e.dimension, known)
	case known == 0 && e.dimension == 0:
		return nil, fmt.Errorf("ollama: embedder %q: unknown dimension: set Options.Dimension to the embedding length that ollama show reports", model)
	case e.dimension == 0:
		e.dimension = known
	default:
		e.shorten = e.dimension != known
	}
	return e, nil
}

// Model returns the provider and the model name, such as "ollama:nomic-embed-text".
func (e *Embedder) Model() string { return provider + ":" + e.name }

// Dimension returns the length of the vectors.
func (e *Embedder) Dimension() int { return e.dimension }

// batchTexts is the maximum number of texts per request. The server has no limit,
// but it computes all texts of a request before it responds.
const batchTexts = 256

// Embed returns one vector for each text, in order. It sends several requests in
// sequence if there are many texts. A request that fails temporarily is retried as
// by [llm.Retry] with the default policy. A text that exceeds the model's context
// window causes an error. Server errors have the type [*llm.Error].
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return e.embed(ctx, texts, prefixes[e.family()].document)
}

// EmbedQueries is like [Embedder.Embed], but for search queries: texts begin with
// another instruction if the model has been trained with one.
func (e *Embedder) EmbedQueries(ctx context.Context, texts []string) ([][]float32, error) {
	return e.embed(ctx, texts, prefixes[e.family()].query)
}

// family returns the model's name without its tag.
func (e *Embedder) family() string {
	name, _, _ := strings.Cut(e.name, ":")
	return name
}

func (e *Embedder) embed(ctx context.Context, texts []string, prefix string) ([][]float32, error) {
	if err := adapter.CheckTexts(texts); err != nil {
		return nil, fmt.Errorf("ollama: %w", err)
	}
	if prefix != "" {
		texts = slices.Clone(texts)
		for i := range texts {
			texts[i] = prefix + texts[i]
		}
	}
	out := make([][]float32, 0, len(texts))
	for len(texts) > 0 {
		n := min(len(texts), batchTexts)
		vectors, err := adapter.Retry(ctx, e.name, func(ctx context.Context) ([][]float32, error) { return e.batch(ctx, texts[:n]) })
		if err != nil {
			return nil, err
		}
		out, texts = append(out, vectors...), texts[n:]
	}
	return out, nil
}

func (e *Embedder) batch(ctx context.Context, texts []string) ([][]float32, error) {
	if ctx.Err() != nil {
		return nil, adapter.Canceled(ctx)
	}
	body := map[string]any{"model": e.name, "input": texts, "truncate": false}
	if e.shorten {
		body["dimensions"] = e.dimension
	}
	if e.client.context > 0 {
		body["options"] = map[string]any{"num_ctx": e.client.context}
	}
	e.client.addKeepAlive(body)
	resp, err := e.client.post(ctx, "api/embed", body)
	if err != nil {
		return nil, e.client.failure(ctx, e.name, err, resp, false)
	}
	defer func() { _ = resp.Body.Close() }()
	var got struct{ Embeddings [][]float32 }
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		return nil, e.client.failure(ctx, e.name, fmt.Errorf("invalid response: %w", err), resp, false)
	}
	if err := adapter.CheckVectors(e.name, got.Embeddings, len(texts), e.dimension); err != nil {
		return nil, &llm.Error{Provider: provider, Status: resp.StatusCode, Message: err.Error()}
	}
	return got.Embeddings, nil
}
