// Package sentence contains what the sentence encoders share: they encode texts in batches on
// all processors, and read their model from files of limited size.
package sentence

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// maxTexts is the maximum number of texts in a batch; larger batches are hardly faster.
const maxTexts = 16

// A Batch is a group of texts encoded together, so that the weights are read only once: for
// short texts, reading the weights is most of the work.
type Batch struct {
	Spans []Span
	Rows  int
}

// A Span is the range of rows of one text.
type Span struct {
	Text  int // its index among the caller's texts
	Start int // its first row
	IDs   []int32
}

// A Model encodes batches. S is the working memory of one encoding.
type Model[S any] struct {
	Tokens     func(text string) []int32
	Encode     func(*Batch, *S) [][]float32 // one vector per span
	NewScratch func() *S
	Scratch    *sync.Pool // of *S
	MaxRows    int        // of a batch; enough for any text
	Align      int        // each text starts at a multiple of Align
}

// Embed returns one vector per text, in order, and the number of encoded texts, which is
// smaller only if ctx is done. It uses all processors (runtime.GOMAXPROCS), and its goroutines
// have ended when it returns.
func Embed[S any](ctx context.Context, m *Model[S], texts []string) ([][]float32, int) {
	workers := min(runtime.GOMAXPROCS(0), len(texts))
	c := &call[S]{Model: m, texts: texts, vectors: make([][]float32, len(texts))}
	c.most = min(maxTexts, (len(texts)+workers-1)/max(workers, 1))
	var others sync.WaitGroup
	for range workers - 1 {
		others.Go(func() { c.work(ctx) })
	}
	c.work(ctx)
	others.Wait()
	return c.vectors, int(c.done.Load())
}

// call is a call of Embed, shared by its workers.
type call[S any] struct {
	*Model[S]
	texts   []string
	vectors [][]float32 // each element is written by the worker that took its text
	most    int         // maximum texts per batch, so that every worker gets some
	next    atomic.Int64
	done    atomic.Int64
}

// work encodes texts in batches until none are left or ctx is done.
func (c *call[S]) work(ctx context.Context) {
	s, ok := c.Scratch.Get().(*S)
	if !ok {
		s = c.NewScratch()
	}
	defer c.Scratch.Put(s)
	var b Batch
	flush := func() bool {
		if ctx.Err() != nil {
			return false
		}
		for i, vector := range c.Encode(&b, s) {
			c.vectors[b.Spans[i].Text] = vector
		}
		c.done.Add(int64(len(b.Spans)))
		b = Batch{}
		return true
	}
	for text := int(c.next.Add(1)) - 1; text < len(c.texts); text = int(c.next.Add(1)) - 1 {
		ids := c.Tokens(c.texts[text])
		rows := (len(ids) + c.Align - 1) / c.Align * c.Align
		if b.Rows+rows > c.MaxRows && !flush() {
			return
		}
		b.Spans = append(b.Spans, Span{text, b.Rows, ids})
		b.Rows += rows
		if len(b.Spans) == c.most && !flush() {
			return
		}
	}
	if len(b.Spans) > 0 {
		flush()
	}
}
