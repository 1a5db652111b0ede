package openai

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
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
	voyage    bool // the server is Voyage
	texts     int  // the maximum number of texts per request
	tokens    int  // the maximum number of tokens per request
}

// known describes an embedding model.
type known struct {
	size    int   // the default dimension
	shorter bool  // all smaller dimensions are supported
	sizes   []int // other supported dimensions
	tokens  int   // the maximum number of tokens per request; 0 means the server's
}

// embedders lists the models whose dimension is known.
var embedders = map[string]known{
	"text-embedding-3-small": {size: 1536, shorter: true},
	"text-embedding-3-large": {size: 3072, shorter: true},
	"text-embedding-ada-002": {size: 1536},
	"mistral-embed":          {size: 1024},

	"voyage-4-large":        {size: 1024, sizes: voyageSizes},
	"voyage-4":              {size: 1024, sizes: voyageSizes, tokens: 320_000},
	"voyage-4-lite":         {size: 1024, sizes: voyageSizes, tokens: 1_000_000},
	"voyage-3-large":        {size: 1024, sizes: voyageSizes},
	"voyage-3.5":            {size: 1024, sizes: voyageSizes, tokens: 320_000},
	"voyage-3.5-lite":       {size: 1024, sizes: voyageSizes, tokens: 1_000_000},
	"voyage-code-3":         {size: 1024, sizes: voyageSizes},
	"voyage-finance-2":      {size: 1024},
	"voyage-law-2":          {size: 1024},
	"voyage-multilingual-2": {size: 1024},
}

var voyageSizes = []int{256, 512, 2048}

// Limits of a request to OpenAI and to Voyage, whose limit of tokens depends on the
// model.
const (
	openaiTexts  = 2048
	openaiTokens = 300_000
	voyageTexts  = 1000
	voyageTokens = 120_000
)

// voyage is the name of Voyage as a provider.
const voyage = "voyage"

// isVoyage reports whether a host belongs to Voyage.
func isVoyage(host string) bool {
	return strings.EqualFold(host, "api.voyageai.com") || strings.EqualFold(host, "ai.mongodb.com")
}

// NewEmbedder opens an embedder by model name. It fails if the server is OpenAI and
// there is no key. [Options].Dimension is required for models whose dimension the
// package does not know. Requests have Voyage's format if the server is Voyage: by
// its address, or because [Options].Provider is "voyage".
func NewEmbedder(model string, opts *Options) (*Embedder, error) {
	c, err := connect(model, opts)
	if err != nil {
		return nil, fmt.Errorf("openai: embedder %q: %w", model, err)
	}
	e := &Embedder{name: model, client: c, texts: openaiTexts, tokens: openaiTokens}
	if opts != nil {
		e.dimension = opts.Dimension
	}
	m, ok := embedders[model]
	e.voyage = c.provider == voyage || isVoyage(c.base.Hostname())
	if e.voyage {
		e.texts, e.tokens = voyageTexts, cmp.Or(m.tokens, voyageTokens)
	}
	switch {
	case e.dimension < 0 || ok && e.dimension > max(m.size, slices.Max(append(m.sizes, 0))):
		return nil, fmt.Errorf("openai: embedder %q: Options.Dimension is %d, which the model does not support", model, e.dimension)
	case !ok && e.dimension == 0:
		return nil, fmt.Errorf("openai: embedder %q: unknown dimension: set Options.Dimension", model)
	case !ok:
	case e.dimension == 0:
		e.dimension = m.size
	case e.dimension != m.size && m.sizes != nil && !slices.Contains(m.sizes, e.dimension):
		return nil, fmt.Errorf("openai: embedder %q: dimension is %d or one of %v, and cannot be %d", model, m.size, m.sizes, e.dimension)
	case e.dimension != m.size && m.sizes == nil && !m.shorter:
		return nil, fmt.Errorf("openai: embedder %q: dimension is %d and cannot be %d", model, m.size, e.dimension)
	default:
		e.shorten = e.dimension != m.size
	}
	return e, nil
}

// Model returns the provider and the model name, such as
// "openai:text-embedding-3-small".
func (e *Embedder) Model() string { return e.client.provider + ":" + e.name }

// Dimension returns the length of the vectors.
func (e *Embedder) Dimension() int { return e.dimension }

// Embed returns one vector for each text, in order. If there are more texts than
// the API accepts at once, it sends several requests in sequence. A request that fails
// temporarily is retried as by [llm.Retry] with the default policy. A text that is too
// long for the model causes an error. Server errors have the type [*llm.Error].
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return e.embed(ctx, texts, "document")
}

// EmbedQueries is like [Embedder.Embed], but for search queries, which Voyage embeds
// differently.
func (e *Embedder) EmbedQueries(ctx context.Context, texts []string) ([][]float32, error) {
	return e.embed(ctx, texts, "query")
}

func (e *Embedder) embed(ctx context.Context, texts []string, purpose string) ([][]float32, error) {
	if err := adapter.CheckTexts(texts); err != nil {
		return nil, fmt.Errorf("%s: %w", e.client.provider, err)
	}
	out := make([][]float32, 0, len(texts))
	for len(texts) > 0 {
		n := e.fitting(texts)
		vectors, err := adapter.Retry(ctx, e.name, func(ctx context.Context) ([][]float32, error) { return e.batch(ctx, texts[:n], purpose) })
		if err != nil {
			return nil, err
		}
		out = append(out, vectors...)
		texts = texts[n:]
	}
	return out, nil
}

// promptTokens bounds the tokens that Voyage adds to each text.
const promptTokens = 16

// fitting returns the number of texts, at least 1, that fit into a request. A token
// has at least one byte, so texts never have more tokens than bytes.
func (e *Embedder) fitting(texts []string) (n int) {
	for tokens := 0; n < len(texts) && n < e.texts; n++ {
		tokens += len(texts[n])
		if e.voyage {
			tokens += promptTokens
		}
		if n > 0 && tokens > e.tokens {
			break
		}
	}
	return n
}

// body returns a request for the vectors of texts.
func (e *Embedder) body(texts []string, purpose string) object {
	body := object{{"input", texts}, {"model", e.name}}
	size := "dimensions"
	if e.voyage {
		body = append(body, field{"input_type", purpose}, field{"truncation", false})
		size = "output_dimension"
	}
	if e.shorten {
		body = append(body, field{size, e.dimension})
	}
	if !e.voyage {
		body = append(body, field{"encoding_format", "float"})
	}
	return body
}

func (e *Embedder) batch(ctx context.Context, texts []string, purpose string) ([][]float32, error) {
	if ctx.Err() != nil {
		return nil, adapter.Canceled(ctx)
	}
	sent, err := marshal(e.body(texts, purpose))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.client.provider, err)
	}
	raw, resp, err := e.client.postWhole(ctx, "embeddings", sent) //nolint:bodyclose // postWhole closes it
	if err != nil {
		return nil, e.client.failure(ctx, err, resp, false)
	}
	got, err := readVectors(raw)
	if err != nil {
		return nil, e.client.failure(ctx, err, resp, false)
	}
	vectors, err := inOrder(got)
	if err == nil {
		err = adapter.CheckVectors(e.name, vectors, len(texts), e.dimension)
	}
	if err != nil {
		return nil, &llm.Error{Provider: e.client.provider, Status: resp.StatusCode, Message: err.Error()}
	}
	return vectors, nil
}

// inOrder returns the numbers of vectors in the order of their texts.
func inOrder(got []vector) ([][]float32, error) {
	out := make([][]float32, len(got))
	for i, v := range got {
		at := i
		if v.numbered {
			at = int(v.index)
		}
		if at < 0 || at >= len(out) || out[at] != nil {
			return nil, fmt.Errorf("invalid or duplicate index %d among %d vectors", at, len(got))
		}
		out[at] = v.numbers
	}
	return out, nil
}

// vector is the server's vector for a text.
type vector struct {
	index    int64
	numbered bool // the server reports the index of the text
	numbers  []float32
}

// readVectors returns the vectors of a response in order of appearance.
func readVectors(raw []byte) (out []vector, err error) {
	s := scanner{data: raw}
	if s.open('{') {
		for s.more('}') {
			if string(s.key()) != "data" {
				s.skip()
			} else if s.open('[') {
				for s.more(']') {
					var v vector
					err = cmp.Or(v.scan(&s), err)
					out = append(out, v)
				}
			}
		}
	}
	if s.broken {
		return nil, notJSON(raw)
	}
	return out, err
}

func (v *vector) scan(s *scanner) (err error) {
	if !s.open('{') {
		return nil
	}
	for s.more('}') {
		switch string(s.key()) {
		case "index":
			v.numbered = s.peek() != 'n'
			v.index = s.number()
		case "embedding":
			v.numbers, err = scanNumbers(s)
		default:
			s.skip()
		}
	}
	return err
}

// scanNumbers reads a list of numbers, or a base64 string with four bytes for each.
func scanNumbers(s *scanner) (out []float32, err error) {
	if s.peek() == '"' {
		raw, err := base64.StdEncoding.DecodeString(s.str(""))
		if err != nil {
			return nil, fmt.Errorf("vector: %w", err)
		}
		for ; len(raw) >= 4; raw = raw[4:] {
			out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
		}
		return out, nil
	}
	if !s.open('[') {
		return nil, nil
	}
	for s.more(']') {
		x, wrong := strconv.ParseFloat(string(s.raw()), 32)
		if wrong != nil {
			err = fmt.Errorf("vector: %w", wrong)
		}
		out = append(out, float32(x))
	}
	return out, err
}
