package uselite

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/treadle-go/treadle/store/internal/matmul"
)

// An Encoder embeds texts with one model. It is safe for concurrent use.
type Encoder struct {
	model   string
	vocab   *vocab
	network *network
	kernel  matmul.Kernel
	scratch sync.Pool // of *scratch
}

// maxBatch is the maximum number of texts in a batch; larger batches are hardly faster.
const maxBatch = 16

// Embed returns one vector of length 1 per text, in order. It uses the first 128 tokens
// of a text; an empty text has a vector too. The vector of a text does not depend on
// the other texts, but one call with many texts is faster than many calls.
//
// Embed uses all processors (runtime.GOMAXPROCS), and its goroutines have ended when it
// returns. When ctx is done, it stops within the time needed to embed one text of 128
// tokens and returns the context's error.
func (e *Encoder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	workers := min(runtime.GOMAXPROCS(0), len(texts))
	call := &call{encoder: e, texts: texts, vectors: make([][]float32, len(texts))}
	call.most = min(maxBatch, (len(texts)+workers-1)/max(workers, 1))
	var others sync.WaitGroup
	for range workers - 1 {
		others.Go(func() { call.work(ctx) })
	}
	call.work(ctx)
	others.Wait()
	if done := int(call.done.Load()); done < len(texts) {
		return nil, fmt.Errorf("uselite: stopped after %d of %d texts: %w", done, len(texts), ctx.Err())
	}
	return call.vectors, nil
}

// call is a call of Embed, shared by its workers.
type call struct {
	encoder *Encoder
	texts   []string
	vectors [][]float32 // each element is written by the worker that took its text
	most    int         // maximum texts per batch, so that every worker gets some
	next    atomic.Int64
	done    atomic.Int64
}

// work encodes texts in batches until none are left or ctx is done.
func (c *call) work(ctx context.Context) {
	e := c.encoder
	s, ok := e.scratch.Get().(*scratch)
	if !ok {
		s = newScratch()
	}
	defer e.scratch.Put(s)
	var b batch
	flush := func() bool {
		if ctx.Err() != nil {
			return false
		}
		for i, vector := range e.network.encode(e.kernel, &b, s) {
			c.vectors[b.spans[i].text] = vector
		}
		c.done.Add(int64(len(b.spans)))
		b = batch{}
		return true
	}
	for text := int(c.next.Add(1)) - 1; text < len(c.texts); text = int(c.next.Add(1)) - 1 {
		ids := e.vocab.tokens(c.texts[text], maxTokens)
		if !b.fits(ids) && !flush() {
			return
		}
		b.add(text, ids)
		if len(b.spans) == c.most && !flush() {
			return
		}
	}
	if len(b.spans) > 0 {
		flush()
	}
}

// Model returns the name of the model, which depends on the contents of its files.
func (e *Encoder) Model() string { return e.model }

// Dimension returns the length of the vectors, 512.
func (e *Encoder) Dimension() int { return wide }
