package minilm

import (
	"context"
	"fmt"
	"sync"

	"github.com/treadle-go/treadle/store/internal/matmul"
	"github.com/treadle-go/treadle/store/internal/sentence"
)

// An Encoder embeds texts. It is safe for concurrent use.
type Encoder struct {
	model   string
	vocab   *vocab
	network *network
	kernel  matmul.Kernel
	scratch sync.Pool // of *scratch
}

// Embed returns one vector of length 1 per text, in order. It uses the first 256 tokens
// of a text; an empty text has a vector too. The vector of a text does not depend on
// the other texts, but one call with many texts is faster than many calls.
//
// Embed uses all processors (runtime.GOMAXPROCS), and its goroutines have ended when it
// returns. When ctx is done, it stops within the time needed to embed one text of 256
// tokens and returns the context's error.
func (e *Encoder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, done := sentence.Embed(ctx, &sentence.Model[scratch]{
		Tokens:     func(text string) []int32 { return e.vocab.tokens(text, maxTokens) },
		Encode:     func(b *sentence.Batch, s *scratch) [][]float32 { return e.network.encode(e.kernel, b, s) },
		NewScratch: newScratch,
		Scratch:    &e.scratch,
		MaxRows:    maxRows,
		Align:      1,
	}, texts)
	if done < len(texts) {
		return nil, fmt.Errorf("minilm: stopped after %d of %d texts: %w", done, len(texts), ctx.Err())
	}
	return vectors, nil
}

// Model returns the name of the model, which depends on the contents of its files.
func (e *Encoder) Model() string { return e.model }

// Dimension returns the length of the vectors, 384.
func (e *Encoder) Dimension() int { return width }
