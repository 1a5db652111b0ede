package uselite

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// An Encoder makes the vectors of one model. It may be used concurrently; all uses share the weights.
type Encoder struct {
	model   string
	vocab   *vocab
	network *network
	kernel  kernel
	scratch sync.Pool // of *scratch
}

// Embed returns one vector of length 1 per text, in order. The first 128 tokens of a text count; a text without any has
// a vector too. A text's vector does not depend on the texts beside it.
//
// It works on as many texts at a time as there are processors (runtime.GOMAXPROCS), and has ended all of that work when it
// returns. When the context ends it stops before the next text, and returns no vectors and the context's error.
func (e *Encoder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	var next, done atomic.Int64
	work := func() {
		s, ok := e.scratch.Get().(*scratch)
		if !ok {
			s = newScratch()
		}
		defer e.scratch.Put(s)
		for i := next.Add(1) - 1; i < int64(len(texts)) && ctx.Err() == nil; i = next.Add(1) - 1 {
			vectors[i] = e.network.encode(e.kernel, e.vocab.tokens(texts[i], maxTokens), s)
			done.Add(1)
		}
	}
	var others sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(texts)) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	if count := int(done.Load()); count < len(texts) {
		return nil, fmt.Errorf("uselite: stopped after %d of %d texts: %w", count, len(texts), ctx.Err())
	}
	return vectors, nil
}

// Model names the model: it is another for other files.
func (e *Encoder) Model() string { return e.model }

// Dimension is the length of the vectors, 512.
func (e *Encoder) Dimension() int { return wide }
