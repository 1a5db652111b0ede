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

// maxBatch bounds the texts of a batch, beyond which there is little to gain.
const maxBatch = 16

// Embed returns one vector of length 1 per text, in order. The first 128 tokens of a text count; a text without any has
// a vector too. A text's vector does not depend on the texts beside it, but many texts in one call take less time than
// each in its own.
//
// It works on as many processors as there are (runtime.GOMAXPROCS), and has ended all of that work when it returns. When the
// context ends it stops within the time that a text of 128 tokens takes, and returns no vectors and the context's error.
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

// A call is one call of Embed, which its workers share.
type call struct {
	encoder *Encoder
	texts   []string
	vectors [][]float32 // each element is written by the worker that took its text
	most    int         // texts of a batch, so that every worker gets some
	next    atomic.Int64
	done    atomic.Int64
}

// work takes texts and encodes them in batches, until there are none or the context ends.
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

// Model names the model: it is another for other files.
func (e *Encoder) Model() string { return e.model }

// Dimension is the length of the vectors, 512.
func (e *Encoder) Dimension() int { return wide }
