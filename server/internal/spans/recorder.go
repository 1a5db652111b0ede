// Package spans records the model, tool, and retriever calls of runs in the ledger.
//
// A [Recorder] installs a tracer in the context of a run, around the tracer that is there. Each
// call becomes a span, which is stored in batches: when the call has started, and again when it
// has ended. A process that dies leaves spans that have started and not ended. All spans of a
// run are stored before the run ends.
package spans

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
)

// Options configures a [Recorder]. Zero fields mean the defaults.
type Options struct {
	Ledger *ledger.Ledger
	Logger *slog.Logger
	// Redact, if not nil, returns the text to store instead of a text of a call.
	Redact    func(string) string
	NoContent bool          // store neither inputs, outputs, nor error messages
	Age       time.Duration // how long spans are kept; 0 means a week
	MaxSpan   int           // of a span's input and of its output, in bytes; 0 means 256 KiB
	MaxRun    int64         // of the inputs and outputs of a run, in bytes; 0 means 8 MiB
	MaxSpans  int           // per run; 0 means 1,000
	// Failure returns the class and message of an error.
	Failure func(error) (class, message string)
}

// The defaults of Options, and the limits that are not options.
const (
	defaultAge      = 7 * 24 * time.Hour
	defaultMaxSpan  = 256 << 10
	defaultMaxRun   = 8 << 20
	defaultMaxSpans = 1000

	// batchTime is the time that a span waits for others before it is stored.
	batchTime = 50 * time.Millisecond
	// retryTime is the wait after a failure to store spans, and maxFailures the number of
	// failures after which the spans of a run are dropped. An unavailable database does not
	// count: the spans wait for it.
	retryTime   = time.Second
	maxFailures = 60
	// maxHeld is the maximum size of the content of all calls that are in progress or not
	// stored. Content beyond it is omitted.
	maxHeld = 64 << 20
	// endTime limits an attempt to store spans. The end of a run waits for the
	// current attempt and for another one.
	endTime = 5 * time.Second
	// savers is the number of runs whose spans are stored concurrently.
	savers = 4
)

// A Recorder records the calls of runs. It is safe for concurrent use.
type Recorder struct {
	o    Options
	held atomic.Int64
	wake chan struct{}
	quit chan struct{}
	done chan struct{}

	mu    sync.Mutex
	dirty map[*Run]struct{} // runs with spans to store
}

// New returns a recorder. Call Close when it is no longer needed.
func New(o Options) *Recorder {
	o.Age, o.MaxSpan = cmp.Or(o.Age, defaultAge), cmp.Or(o.MaxSpan, defaultMaxSpan)
	o.MaxRun, o.MaxSpans = cmp.Or(o.MaxRun, defaultMaxRun), cmp.Or(o.MaxSpans, defaultMaxSpans)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	r := &Recorder{o: o, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}), dirty: map[*Run]struct{}{}}
	go r.loop()
	return r
}

// Close stops the recorder and stores the remaining spans, within a limited time.
func (r *Recorder) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	close(r.quit)
	<-r.done
	r.store(ctx)
}

// loop stores spans in batches until the recorder is closed.
func (r *Recorder) loop() {
	defer close(r.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-r.wake:
		}
		timer.Reset(batchTime)
		for ok := false; !ok; {
			select {
			case <-r.quit:
				return
			case <-timer.C:
			}
			ctx, cancel := context.WithTimeout(context.Background(), endTime)
			ok = r.store(ctx)
			cancel()
			timer.Reset(retryTime) // drained above, or by the next Reset
		}
		timer.Stop()
	}
}

// store stores the spans of all runs. It reports whether all were stored.
func (r *Recorder) store(ctx context.Context) bool {
	r.mu.Lock()
	all := r.dirty
	r.dirty = map[*Run]struct{}{}
	r.mu.Unlock()
	var failed atomic.Bool
	var group sync.WaitGroup
	slots := make(chan struct{}, savers)
	for run := range all {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if !run.save(ctx) {
				failed.Store(true)
			}
		})
	}
	group.Wait()
	return !failed.Load()
}

// mark schedules a run whose spans have changed.
func (r *Recorder) mark(run *Run) {
	r.mu.Lock()
	r.dirty[run] = struct{}{}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// A Run records the calls of one attempt of a run.
type Run struct {
	r      *Recorder
	run    *ledger.Run
	saving sync.Mutex // held while spans of the run are stored

	mu      sync.Mutex
	dirty   map[*span]struct{}
	open    map[*span]struct{} // spans that have not ended
	spans   int
	content int64
	omitted ledger.SpansOmitted
	counted bool // omitted is stored
	fails   int
}

// add counts a new span. It reports false if the run has too many.
func (x *Run) add() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.spans >= x.r.o.MaxSpans {
		x.omitted.Spans++
		x.counted = false
		return false
	}
	x.spans++
	return true
}

// admit reports whether content of a size may be kept, and counts it.
func (x *Run) admit(size int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.content+int64(size) > x.r.o.MaxRun || x.r.held.Load()+int64(size) > maxHeld {
		x.omitted.Bytes += int64(size)
		x.counted = false
		return false
	}
	x.content += int64(size)
	x.r.held.Add(int64(size))
	return true
}

// changed schedules a span to be stored.
func (x *Run) changed(s *span) {
	x.mu.Lock()
	x.dirty[s] = struct{}{}
	x.mu.Unlock()
	x.r.mark(x)
}

// save stores the changed spans of the run. It reports false if it should be called again.
func (x *Run) save(ctx context.Context) bool {
	x.saving.Lock()
	defer x.saving.Unlock()
	x.mu.Lock()
	changed := x.dirty
	x.dirty = map[*span]struct{}{}
	var omitted *ledger.SpansOmitted
	if !x.counted && x.omitted != (ledger.SpansOmitted{}) {
		counts := x.omitted
		omitted, x.counted = &counts, true
	}
	x.mu.Unlock()
	if len(changed) == 0 && omitted == nil {
		return true
	}
	all := make([]*ledger.Span, 0, len(changed))
	for s := range changed {
		all = append(all, s.stored())
	}
	err := x.r.o.Ledger.SaveSpans(ctx, x.run, all, omitted, x.r.o.Age)
	if err == nil {
		x.mu.Lock()
		x.fails = 0
		x.mu.Unlock()
		x.release(changed)
		return true
	}
	away := errors.Is(err, checkpoint.ErrUnavailable) || ctx.Err() != nil
	x.mu.Lock()
	if !away {
		x.fails++
	}
	lost := x.fails > maxFailures
	if !lost {
		for s := range changed {
			x.dirty[s] = struct{}{}
		}
		x.counted = x.counted && omitted == nil
	}
	x.mu.Unlock()
	if lost {
		x.r.o.Logger.ErrorContext(ctx, "failed to store spans, dropping them", "run", x.run.ID, "spans", len(changed), "error", err)
		x.release(changed)
		return true
	}
	x.r.o.Logger.WarnContext(ctx, "failed to store spans, retrying", "run", x.run.ID, "error", err)
	x.r.mark(x)
	return false
}

// release returns the memory of stored spans that have ended.
func (x *Run) release(stored map[*span]struct{}) {
	for s := range stored {
		x.r.held.Add(-s.release(false))
	}
}

// opened and closed count the spans that have not ended.
func (x *Run) opened(s *span) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.open[s] = struct{}{}
}

func (x *Run) closed(s *span) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, s)
}

// End stores the spans of the run before the run ends. If the database is unavailable for long,
// the spans are stored later. The calls of abandoned nodes may end after End.
func (x *Run) End() {
	x.store()
	x.mu.Lock()
	open := slices.Collect(maps.Keys(x.open))
	x.mu.Unlock() // a span locks its run, so the run must not lock its spans
	for _, s := range open {
		x.r.held.Add(-s.release(true))
	}
}

// store stores all spans, within a limited time.
func (x *Run) store() {
	x.mu.Lock()
	clean := len(x.dirty) == 0 && (x.counted || x.omitted == (ledger.SpansOmitted{}))
	x.mu.Unlock()
	if clean {
		x.saving.Lock() // the last batch may not be committed yet
		defer x.saving.Unlock()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	x.save(ctx)
}
