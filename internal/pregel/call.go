package pregel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"sync"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/wait"
	"github.com/treadle-go/treadle/treadletype"
)

// A CallSpec is a function that runs as a separate task inside a node. Its
// result is recorded: a run that is retried or resumed uses the recorded result
// instead of running the function again.
type CallSpec struct {
	Name    string
	In      any
	Fn      func(ctx context.Context, in any) (any, error)
	Options *NodeSpec // retry, timeout, cache
}

// Future is the result of a call that may still be running.
type Future struct {
	done chan struct{}
	raw  json.RawMessage
	err  error
}

// Wait waits for the call to end and returns its result.
func (f *Future) Wait(ctx context.Context) (json.RawMessage, error) {
	select {
	case <-f.done:
		return f.raw, f.err
	default:
	}
	select {
	case <-f.done:
		return f.raw, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Done is closed when the call has ended.
func (f *Future) Done() <-chan struct{} { return f.done }

func (f *Future) resolve(raw json.RawMessage, err error) *Future {
	f.raw, f.err = raw, err
	close(f.done)
	return f
}

// callJSON is a recorded result.
type callJSON struct {
	Call  string          `json:"call"`
	Input string          `json:"input,omitempty"` // a digest, to recognise the same call
	Value json.RawMessage `json:"value"`

	Children map[string]checkpoint.ID `json:"children,omitempty"` // heads of the per-thread nested runs it made
}

// StartCall runs a function as a task of the node that ctx belongs to.
func StartCall(ctx context.Context, spec CallSpec) *Future {
	f := &Future{done: make(chan struct{})}
	sc := scopeOf(ctx)
	if sc == nil {
		return f.resolve(nil, fmt.Errorf("task %q: %w", spec.Name, ErrOutsideRun))
	}
	if sc.late() {
		return f.resolve(nil, context.Cause(sc))
	}
	up := sc.task
	if err := up.anyFault(); err != nil {
		return f.resolve(nil, err) // do not cause an effect whose result may not be stored
	}
	sc.alive(false)
	r := up.run
	index := sc.calls.Add(1) - 1
	t := &Task{run: r, step: up.step, head: up.head, index: index, caller: up}
	t.node = &node{NodeSpec: &NodeSpec{Name: spec.Name, Call: spec.Fn}, view: -1, id: up.node.id}
	if o := spec.Options; o != nil {
		t.node.fn = o.Func
		t.node.Retry, t.node.Timeout, t.node.Cache, t.node.Tags, t.node.Metadata = o.Retry, o.Timeout, o.Cache, o.Tags, o.Metadata
	}
	t.packet = &packet{input: spec.In}
	sum := sha256.Sum256([]byte(up.namespace() + "|call " + strconv.Itoa(int(index))))
	id := uuidText(sum[:16])
	t.id.Store(&id)
	if c, ok, err := r.recorded(id); ok {
		if err != nil {
			return f.resolve(nil, up.noteFault(fmt.Errorf("task %q: recorded result: %w", spec.Name, err)))
		}
		if c.Call != spec.Name {
			return f.resolve(nil, up.noteFault(&OrderError{Call: int(index%handlerFirst) + 1, Recorded: c.Call, Made: spec.Name}))
		}
		if now := digest(spec.In); c.Input != "" && now != "" && c.Input != now {
			return f.resolve(nil, up.noteFault(&OrderError{Call: int(index%handlerFirst) + 1, Recorded: c.Call, Made: spec.Name, Input: true}))
		}
		t.addChildHeads(c.Children)
		return f.resolve(c.Value, nil) // an earlier run has emitted its events
	}
	ctx, cancel := context.WithCancelCause(ctx)
	extras := up.needExtras()
	extras.mu.Lock()
	extras.cancels = append(extras.cancels, cancel)
	extras.mu.Unlock()
	extras.calls.Go(func() {
		defer cancel(nil)
		returned := false
		defer func() {
			if !returned {
				err := t.unreturned(recover())
				t.awaitCalls(err)
				f.resolve(nil, t.callFailed(&t.scope, err))
			}
		}()
		raw, err := t.runCall(ctx)
		returned = true
		f.resolve(raw, err)
	})
	return f
}

// digest distinguishes inputs. It is empty for an input without JSON.
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
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// callResults are recorded results, by the ids of their tasks.
type callResults struct {
	mu sync.Mutex
	of map[string]callResult
}

// callResult is a recorded result: as it is stored, or, in a run that stores
// nothing, as it was made. Most of those are never asked for again, so they are not
// encoded.
type callResult struct {
	raw  []byte
	made callJSON // without Input, which is the digest of in
	in   any
}

// recorded returns the recorded result of a call.
func (r *Run) recorded(id string) (c callJSON, ok bool, err error) {
	known := r.calls.Load()
	if known == nil {
		return c, false, nil
	}
	known.mu.Lock()
	result, ok := known.of[id]
	known.mu.Unlock()
	switch {
	case !ok:
	case result.raw != nil:
		err = json.Unmarshal(result.raw, &c)
	default:
		c = result.made
		c.Input = digest(result.in)
	}
	return c, ok, err
}

// record keeps a result in memory, and on the thread if there is one.
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
			return fmt.Errorf("store the result: %w", err)
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

// runCall runs the function until it succeeds or its retries are used up, and
// records the result before returning it.
func (t *Task) runCall(ctx context.Context) (json.RawMessage, error) {
	t.enter(ctx)
	sc := &t.scope
	t.emitStart(sc)
	t.run.emitStarts([]*Task{t})
	known, earlier, err := t.lookUp(sc, "task/"+t.Name())
	defer known.finish()
	if err != nil {
		return nil, t.callFailed(sc, err)
	}
	known.setResult(earlier)
	raw, hit := json.RawMessage(earlier), earlier != nil
	if err := t.run.awaitHead(ctx); err != nil {
		if IsFault(err) {
			err = t.noteFault(err)
		}
		return nil, t.callFailed(sc, err)
	}
	if !hit {
		raw, err = t.attemptCall(sc)
		for err != nil && ctx.Err() == nil && !t.final(err) {
			pause, again, bad := t.node.retryAfter(err, int(sc.attempt))
			if err = bad; !again || wait.For(ctx, pause) != nil {
				break
			}
			sc = &scope{Context: ctx, task: t, attempt: sc.attempt + 1, span: sc.span}
			raw, err = t.attemptCall(sc)
		}
	}
	if err != nil {
		return nil, t.callFailed(sc, err)
	}
	err = t.run.record(t.ID(), callJSON{Call: t.Name(), Value: raw, Children: t.childHeads()}, t.packet.input)
	if err == nil && !hit {
		err = known.put(sc, raw)
	}
	if err != nil {
		return nil, t.callFailed(sc, t.noteFault(err))
	}
	t.shownResult(raw, hit)
	return raw, nil
}

// callFailed returns the error of a call and emits its event.
func (t *Task) callFailed(sc *scope, err error) error {
	if treadletype.IsSignal(err) {
		return err
	}
	err = t.nodeError(sc, err)
	if t.modes()&ModeTasks != 0 {
		t.run.emit(ModeTasks, t.event(&TaskEnd{Record: &Record{}, Err: err}))
	}
	return err
}

func (t *Task) attemptCall(sc *scope) (json.RawMessage, error) {
	t.nested.Store(0)
	t.dropPauses()
	call := t.call
	if !t.timeout().isZero() {
		call = t.timed
	}
	out, err := call(sc, t.packet.input)
	t.awaitCalls(err)
	if err = t.orFault(err); err != nil {
		return nil, err
	}
	if ps := t.paused(); len(ps) > 0 {
		return nil, &SwallowedInterruptError{Pauses: ps}
	}
	raw, err := toJSON(out)
	if err != nil {
		return nil, fmt.Errorf("the result has no JSON: %w", err)
	}
	return raw, nil
}

// awaitCalls waits for the calls that a task has started, also if the node did
// not wait for them. They are cancelled if the task failed, but not if it asked
// a question.
func (t *Task) awaitCalls(err error) {
	extras := t.extras.Load()
	if extras == nil {
		return
	}
	if err != nil && !treadletype.IsSignal(err) {
		extras.mu.Lock()
		for _, cancel := range extras.cancels {
			cancel(fmt.Errorf("cancelled because %q failed: %w", t.Name(), context.Canceled))
		}
		extras.mu.Unlock()
	}
	extras.calls.Wait()
}

// result is the pseudo channel for the result of a call or workflow.
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
		t.run.emit(ModeTasks, t.event(&TaskEnd{Record: &Record{items: items}}))
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

// forgetCalls drops the recorded results of a step that is over.
func (r *Run) forgetCalls() {
	if r.calls.Load() != nil {
		r.calls.Store(nil)
	}
}

// PreviousOf returns the value that the last run of a workflow on the thread
// saved.
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
