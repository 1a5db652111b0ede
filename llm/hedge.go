package llm

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/treadle-go/treadle/internal/caught"
)

// HedgeOptions configures [Hedge]. A nil *HedgeOptions means the defaults.
type HedgeOptions struct {
	// After is the wait for the first chunk before the second request; 0 means the
	// 95th percentile of the waits of the last 100 requests. Until 20 requests have
	// been made, there is no second request.
	After time.Duration
	// Model receives the second request; nil means the same model.
	Model Model
}

// Hedge returns a model that makes a second request if the first one has not
// produced a chunk after some time. The request that produces a chunk first wins,
// and the other one is canceled. Only the usage of the winner is reported, although
// a provider may charge for the input of both. For requests that fail, see [Retry]
// and [Fallback]. Hedge panics if model is nil.
func Hedge(model Model, opts *HedgeOptions) Model {
	need("Hedge", model)
	h := &hedged{model: model, waits: &waits{}}
	if opts != nil {
		h.o = *opts
	}
	if h.o.Model == nil {
		h.o.Model = model
	}
	return h
}

type hedged struct {
	model Model
	o     HedgeOptions
	waits *waits
}

// Describe implements [Describer]. A request must suit both models.
func (h *hedged) Describe() Info { return fallback{h.model, h.o.Model}.Describe() }

// Stream implements [Model].
func (h *hedged) Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		r := &race{ctx: ctx, req: req, first: make(chan *runner), start: time.Now()}
		defer r.stop()
		winner, err := r.run(h)
		if err != nil {
			yield(Chunk{}, err)
			return
		}
		h.waits.add(winner.wait)
		for c := range winner.chunks {
			if !yield(c.chunk, c.err) {
				return
			}
		}
		if winner.cut { // by ctx: nothing else cancels the winner
			yield(Chunk{}, context.Cause(ctx))
		}
	}
}

// A race is a request that is made up to twice.
type race struct {
	ctx     context.Context
	req     *Request
	first   chan *runner // receives each runner with its first chunk or its error
	start   time.Time
	runners []*runner
	done    sync.WaitGroup
}

// A runner is one of the two requests.
type runner struct {
	cancel context.CancelFunc
	chunks chan piece
	begun  bool          // it has entered the race
	wait   time.Duration // for the first chunk
	err    error         // if it failed before the first chunk
	cut    bool          // a chunk was lost because the request was canceled
}

type piece struct {
	chunk Chunk
	err   error
}

// run returns the runner that wins, or the errors if both fail.
func (r *race) run(h *hedged) (*runner, error) {
	r.begin(h.model)
	var second <-chan time.Time
	if after := h.after(); after > 0 {
		timer := time.NewTimer(after)
		defer timer.Stop()
		second = timer.C
	}
	var failed []error
	for {
		select {
		case <-r.ctx.Done():
			return nil, context.Cause(r.ctx)
		case <-second:
			second = nil
			r.begin(h.o.Model)
		case got := <-r.first:
			if got.err == nil {
				for _, x := range r.runners {
					if x != got {
						x.cancel()
					}
				}
				return got, nil
			}
			failed = append(failed, got.err)
			if len(failed) == len(r.runners) {
				return nil, errors.Join(failed...)
			}
		}
	}
}

// begin starts a request.
func (r *race) begin(m Model) {
	ctx, cancel := context.WithCancel(r.ctx)
	x := &runner{cancel: cancel, chunks: make(chan piece)}
	r.runners = append(r.runners, x)
	r.done.Go(func() {
		defer close(x.chunks)
		defer func() {
			if p := recover(); p != nil { // here, it would end the process
				x.deliver(ctx, r, Chunk{}, caught.New("llm: model: ", p))
			}
		}()
		for chunk, err := range m.Stream(ctx, r.req) {
			if !x.deliver(ctx, r, chunk, err) {
				return
			}
		}
		if !x.begun { // an empty response
			x.enter(ctx, r, nil)
		}
	})
}

// deliver passes on a chunk or an error. It reports whether to continue.
func (x *runner) deliver(ctx context.Context, r *race, chunk Chunk, err error) bool {
	if !x.begun && !x.enter(ctx, r, err) {
		return false
	}
	select {
	case x.chunks <- piece{chunk, err}:
		return true
	case <-ctx.Done():
		x.cut = true
		return false
	}
}

// enter enters the race with the first chunk or an error. It reports whether to
// continue.
func (x *runner) enter(ctx context.Context, r *race, err error) bool {
	x.begun, x.err, x.wait = true, err, time.Since(r.start)
	select {
	case r.first <- x:
		return err == nil
	case <-ctx.Done():
		return false
	}
}

// stop cancels both requests and waits until they have ended.
func (r *race) stop() {
	for _, x := range r.runners {
		x.cancel()
	}
	r.done.Wait()
}

// after returns the wait before the second request, or 0 for no second request.
func (h *hedged) after() time.Duration {
	if h.o.After > 0 {
		return h.o.After
	}
	return h.waits.p95()
}

// waits are the waits for the first chunks of the last requests.
type waits struct {
	mu   sync.Mutex
	last [100]time.Duration
	n    int
}

func (w *waits) add(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[w.n%len(w.last)] = d
	w.n++
}

// p95 returns the 95th percentile, or 0 if there are too few requests.
func (w *waits) p95() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n < 20 {
		return 0
	}
	sorted := slices.Clone(w.last[:min(w.n, len(w.last))])
	slices.Sort(sorted)
	return sorted[len(sorted)*95/100]
}
