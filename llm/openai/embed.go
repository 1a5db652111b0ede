package openai

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

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

// dimensions lists the dimensions of OpenAI's models, and whether they support
// shorter vectors.
var dimensions = map[string]struct {
	size    int
	shorter bool
}{
	"text-embedding-3-small": {1536, true},
	"text-embedding-3-large": {3072, true},
	"text-embedding-ada-002": {1536, false},
}

// NewEmbedder opens an embedder by model name. It fails if the server is OpenAI and
// there is no key. [Options].Dimension is required for models whose dimension the
// package does not know.
func NewEmbedder(model string, opts *Options) (*Embedder, error) {
	c, err := connect(model, opts)
	if err != nil {
		return nil, fmt.Errorf("openai: embedder %q: %w", model, err)
	}
	e := &Embedder{name: model, client: c}
	if opts != nil {
		e.dimension = opts.Dimension
	}
	known, ok := dimensions[model]
	switch {
	case e.dimension < 0 || ok && e.dimension > known.size:
		return nil, fmt.Errorf("openai: embedder %q: Options.Dimension is %d, which the model does not support", model, e.dimension)
	case !ok && e.dimension == 0:
		return nil, fmt.Errorf("openai: embedder %q: the dimension of this model is not known: set Options.Dimension", model)
	case !ok:
	case e.dimension == 0:
		e.dimension = known.size
	case e.dimension != known.size && !known.shorter:
		return nil, fmt.Errorf("openai: embedder %q: its dimension is %d and cannot be %d", model, known.size, e.dimension)
	default:
		e.shorten = e.dimension != known.size
	}
	return e, nil
}

// Model returns the provider and the model name, such as
// "openai:text-embedding-3-small".
func (e *Embedder) Model() string { return e.client.provider + ":" + e.name }

// Dimension returns the length of the vectors.
func (e *Embedder) Dimension() int { return e.dimension }

// The API accepts at most this many texts per request, and 300,000 tokens. Even
// dense texts have less than one token per two bytes.
const (
	batchTexts = 2048
	batchBytes = 600_000
)

// Embed returns one vector for each text, in order. If there are more texts than
// the API accepts at once, it sends several requests in sequence. Server errors
// have the type [*llm.Error].
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
	body := object{{"input", texts}, {"model", e.name}}
	if e.shorten {
		body = append(body, field{"dimensions", e.dimension})
	}
	sent, err := marshal(append(body, field{"encoding_format", "float"}))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.client.provider, err)
	}
	raw, resp, err := e.client.postWhole(ctx, "embeddings", sent)
	if err != nil {
		return nil, e.client.failure(ctx, err, resp, false)
	}
	got, err := readVectors(raw)
	if err != nil {
		return nil, e.client.failure(ctx, err, resp, false)
	}
	wrong := func(format string, args ...any) error {
		return &llm.Error{Provider: e.client.provider, Status: resp.StatusCode, Message: fmt.Sprintf(format, args...)}
	}
	if len(got) != len(texts) {
		return nil, wrong("asked for the vectors of %d texts, the model %s gave %d", len(texts), e.name, len(got))
	}
	out := make([][]float32, len(texts))
	for i, v := range got {
		at := i
		if v.numbered {
			at = int(v.index)
		}
		if at < 0 || at >= len(out) || out[at] != nil {
			return nil, wrong("the vector of text %d is there twice, or of a text that was not sent", at)
		}
		if len(v.numbers) != e.dimension {
			return nil, wrong("the vectors of %s have %d numbers, not %d: set Options.Dimension to what it makes", e.name, len(v.numbers), e.dimension)
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
			return nil, fmt.Errorf("a vector: %w", err)
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
			err = fmt.Errorf("a vector: %w", wrong)
		}
		out = append(out, float32(x))
	}
	return out, err
}
