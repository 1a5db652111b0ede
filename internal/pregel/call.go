package pregel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/treadletype"
)

// A CallSpec is a function that runs as a separate task inside a node. Its result
// is recorded: when the node runs again, after a retry or on resume, the recorded
// result is replayed instead. Sequential calls of one node may share a CallSpec and
// change its Name and In between them.
type CallSpec struct {
	Name    string
	In      any
	Fn      func(ctx context.Context, in any) (any, error)
	Options *NodeSpec // retry, timeout, cache
	Kept    bool      // the Go value may be shared, because no receiver modifies it

	node *node // of the previous call
}

// Future is the result of a call that may still be running.
type Future struct {
	done  chan struct{}
	made  CallResult
	err   error
	pause error  // the pause of the call, even if the call returned another error
	by    *scope // the attempt that made the call
}

// CallResult is the result of a call.
type CallResult struct {
	Raw  json.RawMessage // the JSON, unless the call ran just now and CallSpec.Kept is set
	Made any             // the Go value, if the call ran just now and CallSpec.Kept is set
}

// Wait waits for the call to end and returns its result.
func (f *Future) Wait(ctx context.Context) (CallResult, error) {
	select {
	case <-f.done:
		return f.result()
	default:
	}
	select {
	case <-f.done:
		return f.result()
	case <-ctx.Done():
		return CallResult{}, context.Cause(ctx)
	}
}

// result returns the result of an ended call, and stops the caller if the call
// paused.
func (f *Future) result() (CallResult, error) {
	if f.pause != nil && f.by != nil {
		f.by.stopAt(f.pause)
	}
	return f.made, f.err
}

// Done returns a channel that is closed when the call has ended.
func (f *Future) Done() <-chan struct{} { return f.done }

func (f *Future) resolve(made CallResult, err error) *Future {
	f.made, f.err = made, err
	close(f.done)
	return f
}

func (f *Future) fail(err error) *Future { return f.resolve(CallResult{}, err) }

// callJSON is a recorded result.
type callJSON struct {
	Call  string          `json:"call"`
	Input string          `json:"input,omitempty"` // a digest, to recognize the same call
	Value json.RawMessage `json:"value"`

	Children map[string]checkpoint.ID `json:"children,omitempty"` // heads of its per-thread subgraph runs
}

// startedCall holds everything that a call needs, in a single allocation.
type startedCall struct {
	future Future
	task   Task
	packet packet
	kept   bool
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// StartCall runs a function as a task of the node that ctx belongs to.
func StartCall(ctx context.Context, spec *CallSpec) *Future {
	c := &startedCall{kept: spec.Kept}
	f := &c.future
	f.done = make(chan struct{})
	sc := scopeOf(ctx)
	if sc == nil {
		return f.fail(fmt.Errorf("task %q: %w", spec.Name, ErrOutsideRun))
	}
	if sc.late() {
		return f.fail(context.Cause(sc))
	}
	f.by = sc
	up := sc.task
	if err := up.anyFault(); err != nil {
		return f.fail(err) // do not cause a side effect whose result might not be saved
	}
	if pause := sc.stop(); pause != nil {
		return f.fail(pause)
	}
	sc.alive(false)
	c.prepare(up, sc.calls.Add(1)-1, spec)
	made, known, err := c.recorded(spec)
	if err != nil {
		return f.fail(up.noteFault(err))
	}
	if known {
		return f.resolve(made, nil) // an earlier run emitted its events
	}
	for _, c := range []context.Context{ctx, sc} { // ctx can outlive the attempt
		if c.Err() != nil {
			return f.fail(notStarted(c, spec.Name))
		}
	}
	extras := up.needExtras()
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	extras.mu.Lock()
	extras.cancels = append(extras.cancels, c.cancel)
	extras.mu.Unlock()
	extras.calls.run(c)
	return f
}

// notStarted returns the error of a call that does not start because ctx has ended.
func notStarted(ctx context.Context, name string) error {
	return fmt.Errorf("task %q not started: %w", name, causeOf(ctx))
}

// prepare sets up the task of the call.
func (c *startedCall) prepare(up *Task, index int32, spec *CallSpec) {
	if spec.node == nil || spec.node.Name != spec.Name {
		spec.node = spec.makeNode(up.node.id)
	}
	c.packet.input = spec.In
	t := &c.task
	t.run = up.run
	t.node = spec.node
	t.step = up.step
	t.head = up.head
	t.index = index
	t.caller = up
	t.packet = &c.packet
	up.ID() // now: an abandoned attempt must not read the run, and the call's ID depends on this ID
}

// makeNode returns the node for calls made by the node with the given ID.
func (s *CallSpec) makeNode(id int32) *node {
	n := &node{NodeSpec: &NodeSpec{Name: s.Name, Call: s.Fn}, view: -1, id: id}
	if o := s.Options; o != nil {
		n.fn = o.Func
		n.Retry = o.Retry
		n.Timeout = o.Timeout
		n.Cache = o.Cache
		n.Tags = o.Tags
		n.Metadata = o.Metadata
	}
	return n
}

// recorded returns the result that an earlier attempt or run recorded for the call.
func (c *startedCall) recorded(spec *CallSpec) (made CallResult, ok bool, err error) {
	t := &c.task
	if t.run.calls.Load() == nil {
		return made, false, nil
	}
	was, ok, err := t.run.recorded(t.ID())
	if err != nil {
		return made, false, fmt.Errorf("task %q: recorded result: %w", spec.Name, err)
	}
	if !ok {
		return made, false, nil
	}
	number := int(t.index%handlerFirst) + 1
	if was.Call != "" && was.Call != spec.Name { // LangGraph does not save the names of imported calls
		return made, false, &OrderError{Call: number, Recorded: was.Call, Made: spec.Name}
	}
	if now := digest(spec.In); was.Input != "" && now != "" && was.Input != now {
		return made, false, &OrderError{Call: number, Recorded: was.Call, Made: spec.Name, Input: true}
	}
	t.addChildHeads(was.Children)
	return CallResult{Raw: was.Value}, true, nil
}

// perform runs the call and resolves its future.
func (c *startedCall) perform() {
	defer c.cancel(nil)
	if c.ctx.Err() != nil {
		c.future.fail(notStarted(c.ctx, c.task.Name()))
		return
	}
	span := c.startTrace()
	returned := false
	defer func() {
		if !returned {
			err := c.task.unreturned(recover())
			c.task.awaitCalls(err)
			observe.Ended(span, err)
			c.end(CallResult{}, c.task.callFailed(&c.task.scope, err))
		}
	}()
	made, err := c.run()
	if span != nil {
		var out any = made.Raw
		if made.Made != nil {
			out = made.Made
		}
		span.End(out, err)
	}
	returned = true
	c.end(made, err)
}

// end resolves the future of a call that has run.
func (c *startedCall) end(made CallResult, err error) {
	if err != nil {
		switch ps := c.task.paused(); {
		case treadletype.IsPause(err):
			c.future.pause = err
		case len(ps) > 0:
			c.future.pause = &InterruptError{Graph: c.task.run.plan.name, Pauses: ps}
		}
	}
	c.future.resolve(made, err)
}

// callQueue runs the calls of a task. Each goroutine starts the next goroutine
// before it runs its call, and takes another call afterward. A blocked call
// therefore never delays another, and short calls share a few goroutines, whose
// stacks have already grown.
type callQueue struct {
	open     sync.WaitGroup // unfinished calls
	mu       sync.Mutex
	waiting  []*startedCall
	starting bool // a goroutine was started and has not taken a call yet
}

func (q *callQueue) run(c *startedCall) {
	q.open.Add(1)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, c)
	q.start()
}

// start starts a goroutine if a call is waiting. The caller must hold mu.
func (q *callQueue) start() {
	if len(q.waiting) > 0 && !q.starting {
		q.starting = true
		go q.work()
	}
}

func (q *callQueue) work() {
	q.mu.Lock()
	q.starting = false
	for len(q.waiting) > 0 {
		c := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		q.start()
		q.mu.Unlock()
		q.one(c)
		q.mu.Lock()
	}
	q.mu.Unlock()
}

func (q *callQueue) one(c *startedCall) {
	defer q.open.Done() // even if the call ends the goroutine
	c.perform()
}

// digest returns a short hash of an input, or "" if the input cannot be encoded.
func digest(in any) string {
	raw, err := toJSON(in)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

func uuidText(b []byte) string {
	var text [36]byte
	hex.Encode(text[:8], b[:4])
	hex.Encode(text[9:13], b[4:6])
	hex.Encode(text[14:18], b[6:8])
	hex.Encode(text[19:23], b[8:10])
	hex.Encode(text[24:], b[10:16])
	text[8] = '-'
	text[13] = '-'
	text[18] = '-'
	text[23] = '-'
	return string(text[:])
}

// callResults holds recorded results, keyed by task ID.
type callResults struct {
	mu sync.Mutex
	of map[string]callResult
}

// callResult is a recorded result in its saved form. In a run that saves nothing,
// it is the result as returned by the call: most of these are never needed again,
// so they are not encoded.
type callResult struct {
	raw  []byte
	made callJSON // without Input, which is the digest of in
	in   any
}

// recorded returns the recorded result of a call. r.calls must not be nil.
func (r *Run) recorded(id string) (c callJSON, ok bool, err error) {
	known := r.calls.Load()
	known.mu.Lock()
	result, ok := known.of[id]
	known.mu.Unlock()
	switch {
	case !ok:
		return c, false, nil
	case result.raw != nil:
		return decodeCall(result.raw)
	}
	c = result.made
	c.Input = digest(result.in)
	return c, true, nil
}

func decodeCall(raw []byte) (c callJSON, ok bool, err error) {
	err = json.Unmarshal(raw, &c)
	return c, true, err
}

// record keeps a result in memory, and saves it if the run has a thread.
func (r *Run) record(id string, made callJSON, in any) error {
	result := callResult{made: made, in: in}
	if r.saving() {
		made.Input = digest(in)
		raw, err := json.Marshal(made)
		if err != nil {
			return err
		}
		w := []checkpoint.Write{{Task: id, Kind: checkpoint.Done, Data: raw, RunID: r.set.RunID}}
		if err := r.saveWrites(r.set.Saver, r.key(), w); err != nil {
			return fmt.Errorf("save result: %w", err)
		}
		r.grewByWrites(w)
		result = callResult{raw: raw}
	}
	r.calls.CompareAndSwap(nil, &callResults{of: map[string]callResult{}})
	known := r.calls.Load()
	known.mu.Lock()
	defer known.mu.Unlock()
	known.of[id] = result
	return nil
}

// again reports whether the calls of a task may be repeated: by a run that
// continues from the thread, or by the next attempt of a task in this run.
func (t *Task) again() bool {
	if t.run.saving() {
		return true
	}
	for ; t != nil; t = t.caller {
		if len(t.node.Retry) > 0 {
			return true
		}
	}
	return false
}

// run runs the function until it succeeds or its retries are exhausted, and records
// the result before returning it.
func (c *startedCall) run() (CallResult, error) {
	t := &c.task
	t.enter(c.ctx)
	sc := &t.scope
	t.emitStart(sc)
	if t.run.modes != 0 {
		t.run.emitStarts([]*Task{t})
	}
	var known *lookup
	var earlier []byte
	var err error
	if t.node.Cache != nil {
		known, earlier, err = t.lookUp(sc, "task/"+t.Name())
	}
	defer known.finish()
	if err != nil {
		return CallResult{}, t.callFailed(sc, err)
	}
	known.setResult(earlier)
	if err := t.run.awaitHead(c.ctx); err != nil {
		if IsFault(err) {
			err = t.noteFault(err)
		}
		return CallResult{}, t.callFailed(sc, err)
	}
	made, hit := CallResult{Raw: earlier}, earlier != nil
	again := t.caller.again()
	if !hit && c.ctx.Err() != nil {
		return CallResult{}, t.callFailed(sc, notStarted(c.ctx, t.Name()))
	}
	if !hit {
		encode := again || !c.kept || t.run.modes != 0 || t.node.Cache != nil
		if made, sc, err = c.attempts(sc, encode); err != nil {
			return CallResult{}, t.callFailed(sc, err)
		}
	}
	// As for a node, the events of a call precede its record: a server saves the
	// events first, and a run that finds the record does not emit them again.
	t.shownResult(made.Raw, hit)
	if again {
		err = t.run.record(t.ID(), callJSON{Call: t.Name(), Value: made.Raw, Children: t.childHeads()}, t.packet.input)
	}
	if err == nil && !hit {
		err = known.put(sc, made.Raw)
	}
	if err != nil {
		return CallResult{}, t.callFailed(sc, t.noteFault(err))
	}
	return made, nil
}

// attempts calls the function until it succeeds or its retries are exhausted. It
// also returns the scope of the last attempt.
func (c *startedCall) attempts(sc *scope, encode bool) (CallResult, *scope, error) {
	t := &c.task
	if len(t.node.Retry) > 0 {
		t.began = time.Now().UnixNano()
	}
	made, err := c.attempt(sc, encode)
	for err != nil && c.ctx.Err() == nil && !t.final(err) {
		next, span, bad := t.retry(c.ctx, sc, err)
		if next == nil {
			err = bad
			break
		}
		sc = next
		made, err = c.attempt(sc, encode)
		observe.Ended(span, err)
	}
	return made, sc, err
}

// callFailed wraps the error of a call and emits its event.
func (t *Task) callFailed(sc *scope, err error) error {
	if treadletype.IsPause(err) {
		return err
	}
	t.aborted = aborted(sc.Context, err)
	err = t.nodeError(sc, err)
	if t.aborted {
		return err
	}
	if t.modes()&ModeTasks != 0 {
		t.run.emit(ModeTasks, t.event(&TaskEnd{Record: &Record{}, Err: err, Tried: t.tried()}))
	}
	return err
}

func (c *startedCall) attempt(sc *scope, encode bool) (made CallResult, err error) {
	t := &c.task
	t.nested.Store(0)
	t.dropPauses()
	call := t.call
	if !t.timeout().isZero() {
		call = t.timed
	}
	out, err := call(sc, t.packet.input)
	t.awaitCalls(err)
	if err = t.orFault(err); err != nil {
		return made, err
	}
	if ps := t.paused(); len(ps) > 0 {
		return made, &SwallowedInterruptError{Pauses: ps}
	}
	if c.kept {
		made.Made = out
	}
	if !encode {
		return made, nil
	}
	if made.Raw, err = toJSON(out); err != nil {
		return CallResult{}, fmt.Errorf("cannot encode result as JSON: %w", err)
	}
	return made, nil
}

// awaitCalls waits for the calls that a task has started, even if the node did not
// wait for them. It cancels them if the task failed, but not if it was interrupted.
func (t *Task) awaitCalls(err error) {
	extras := t.extras.Load()
	if extras == nil {
		return
	}
	if err != nil && !treadletype.IsPause(err) {
		extras.mu.Lock()
		for _, cancel := range extras.cancels {
			cancel(&abortError{t.Name()})
		}
		extras.mu.Unlock()
	}
	extras.calls.open.Wait()
}

// result is the pseudo-channel for the result of a call or workflow.
var result = &channel{name: Root, wire: "__return__", typ: reflect.TypeFor[json.RawMessage](), upd: reflect.TypeFor[json.RawMessage]()}

// shownResult emits the events of a finished call.
func (t *Task) shownResult(raw json.RawMessage, cached bool) {
	if t.run.modes == 0 {
		return
	}
	items := []write{{ch: result, val: raw}}
	if t.modes()&ModeUpdates != 0 {
		t.run.emit(ModeUpdates, t.event(&Updated{Record: &Record{root: true, items: items}, Cached: cached}))
	}
	if t.modes()&ModeTasks != 0 && !cached {
		t.run.emit(ModeTasks, t.event(&TaskEnd{Record: &Record{items: items}, Tried: t.tried()}))
	}
	if t.run.modes&ModeEvents != 0 && t.scope.span != nil {
		t.spanEnd(&t.scope, &Record{root: true, items: items}, nil)
	}
}

// restoreCalls loads the recorded results of a checkpoint.
func (r *Run) restoreCalls() {
	if len(r.saved) > 0 {
		known := make(map[string]callResult, len(r.saved))
		for id, raw := range r.saved {
			known[id] = callResult{raw: raw}
		}
		r.calls.Store(&callResults{of: known})
	}
}

// forgetCalls drops the recorded results of a finished step.
func (r *Run) forgetCalls() {
	if r.calls.Load() != nil {
		r.calls.Store(nil)
	}
}

// PreviousOf returns the value saved by the previous run of a workflow on the
// thread.
func PreviousOf(ctx context.Context) (any, bool) {
	sc := scopeOf(ctx)
	if sc == nil {
		return nil, false
	}
	r := sc.task.run
	c := r.plan.schema.byWire[previous]
	if c == nil || !r.slots[c.id].has {
		return nil, false
	}
	return r.slots[c.id].val, true
}
