package pregel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/caught"
	"github.com/treadle-go/treadle/internal/observe"
)

// packet is an input on its way to a node.
type packet struct {
	node    int32
	input   any
	timeout time.Duration // of an attempt; 0: the node's
}

// outcome is what a task has to say: what it writes and where control goes.
type outcome struct {
	writes  []write
	targets []Target
	handled bool // an error handler spoke, so the node's own edges do not fire
	space   *outcomeSpace
}

// outcomeSpace is memory for the writes and targets of most tasks. The tasks of
// a step get theirs in one piece, and a run reuses that of its lone tasks.
type outcomeSpace struct {
	writes  [2]write
	targets [1]Target
}

// to is the list of targets to append to.
func (o *outcome) to() []Target {
	if o.targets == nil && o.space != nil {
		return o.space.targets[:0]
	}
	return o.targets
}

func (o *outcome) add(w write) {
	if o.writes == nil {
		if o.space == nil {
			o.space = &outcomeSpace{}
		}
		o.writes = o.space.writes[:0]
	}
	o.writes = append(o.writes, w)
}

func (o *outcome) clear() { o.writes, o.targets = nil, nil }

// A Task is one call of a node in one step: a PULL task because something led
// to the node, or a PUSH task because something was sent to it.
type Task struct {
	run    *Run
	node   *node
	step   int
	head   checkpoint.ID // that the step began from
	index  int32         // of a PUSH task among its step's sends; -1 for PULL
	nested atomic.Int32
	packet *packet // of a PUSH task
	in     any     // of a PULL task: pointer to the shared view
	out    outcome
	err    error
	first  bool // it failed before anything was cancelled
	cached bool // answered by the cache or by an earlier, unfinished run
	kept   bool // by an earlier run, which has asked the branches too
	stored bool // the result is stored, ahead of the step's commit
	// handling: what follows is said by the node's error handler.
	handling bool
	began    int64 // when the first attempt did, in Unix nanoseconds; only of nodes with a retry policy

	scope  scope // of the first attempt
	caller *Task // the task that this one runs for, if a workflow or node called it
	side   atomic.Pointer[aside]
	id     atomic.Pointer[string] // made when it is first asked for
}

// aside is what only some tasks need: those that ask questions or call tasks.
// The others, which are most, do not pay for it.
type aside struct {
	calls sync.WaitGroup // tasks called and not yet over

	mu      sync.Mutex
	pauses  []Pause                   // questions asked, here or below
	places  []int32                   // their order among the calls
	cancels []context.CancelCauseFunc // of the calls
	kids    map[string]checkpoint.ID  // heads of the lasting graphs that ran for it
	fault   error                     // see fails
	exit    error                     // see ends
}

// aside returns the task's, made on first use.
func (t *Task) aside() *aside {
	if a := t.side.Load(); a != nil {
		return a
	}
	t.side.CompareAndSwap(nil, &aside{})
	return t.side.Load()
}

// unask forgets the questions of an attempt that is over.
func (t *Task) unask() {
	if a := t.side.Load(); a != nil {
		a.mu.Lock()
		a.pauses, a.places = nil, nil
		a.mu.Unlock()
	}
}

// scope is the context of one attempt. The node is called with it, so the
// engine finds its way back from any context derived from it.
type scope struct {
	context.Context
	task    *Task
	beat    chan struct{} // signs of life, for an idle timeout
	attempt int32
	closed  atomic.Bool  // timed out: what comes late is dropped
	span    *span        // for lifecycle events
	asks    atomic.Int32 // questions asked without a key
	calls   atomic.Int32 // tasks called
}

type scopeKey struct{}

// enter makes ctx the context of the task's first attempt.
func (t *Task) enter(ctx context.Context) {
	t.scope.Context, t.scope.task, t.scope.attempt = ctx, t, 1 //nolint:fatcontext // set once in the life of a task, so nothing nests
}

// Value implements [context.Context] and finds the scope itself.
func (s *scope) Value(key any) any {
	if key == (scopeKey{}) || key == observe.Key {
		return s
	}
	return s.Context.Value(key)
}

// scopeOf finds the attempt that ctx belongs to, or nil.
func scopeOf(ctx context.Context) *scope {
	if ctx == nil {
		return nil
	}
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// Name is the name of the task's node.
func (t *Task) Name() string { return t.node.Name }

// ID names the task. It is the same whenever the same checkpoint is run from.
func (t *Task) ID() string {
	if id := t.id.Load(); id != nil {
		return *id
	}
	var space [256]byte
	text := append(append(space[:0], t.run.seed()...), '|')
	text = append(append(text, t.run.ns()...), '|')
	text = append(strconv.AppendInt(text, int64(t.step), 10), '|')
	text = append(append(text, t.node.Name...), '|')
	if t.packet != nil {
		text = strconv.AppendInt(append(text, "push"...), int64(t.index), 10)
	} else {
		text = append(text, "pull"...)
	}
	sum := sha256.Sum256(text)
	id := uuidText(sum[:16])
	t.id.CompareAndSwap(nil, &id)
	return *t.id.Load()
}

// namespace is where graphs run that this task starts.
func (t *Task) namespace() string {
	ns := t.node.Name + ":" + t.ID()
	switch {
	case t.caller != nil:
		ns = t.caller.namespace() + "|" + ns
	case t.run.ns() != "":
		ns = t.run.ns() + "|" + ns
	}
	return ns
}

// input is what the node was given: a copy that no later step changes.
func (t *Task) input() any {
	if t.packet != nil {
		return t.packet.input
	}
	if v := reflect.ValueOf(t.in); v.Kind() == reflect.Pointer {
		return v.Elem().Interface()
	}
	return t.in
}

// execute runs the node until it succeeds or its retries are used up, then its
// error handler if it has one. What it wrote is in t.out, its failure in t.err.
func (t *Task) execute(ctx context.Context) {
	returned := false
	defer func() {
		if !returned { // a function beside the node's own panicked, or the goroutine ends
			err := t.unreturned(recover())
			t.awaitCalls(err)
			t.out.clear()
			t.finish(&t.scope, err)
		}
	}()
	t.perform(ctx)
	returned = true
}

func (t *Task) perform(ctx context.Context) {
	n := t.node
	if len(n.Retry) > 0 {
		t.began = time.Now().UnixNano() // a clock costs a tenth of a step
	}
	t.enter(ctx)
	sc := &t.scope
	if t.cached { // an earlier run has done it
		t.finish(sc, nil)
		return
	}
	t.emitStart(sc)
	if n.Handler != nil && len(t.run.failures) > 0 {
		if failure := t.run.failures[t.ID()]; failure != nil { // an earlier run has tried the node
			t.finish(sc, t.handle(sc, failure))
			return
		}
	}
	known, hit, err := t.fromCache(sc)
	if known != nil {
		defer known.over()
	}
	if hit {
		t.cached = true
		t.finish(sc, nil)
		return
	}
	if err == nil {
		err = t.attempt(sc)
		for err != nil && ctx.Err() == nil && !t.final(err) {
			wait, again, bad := n.retryAfter(err, int(sc.attempt))
			if err = bad; !again || !sleep(ctx, wait) {
				break
			}
			sc = &scope{Context: ctx, task: t, attempt: sc.attempt + 1, span: sc.span}
			err = t.attempt(sc)
		}
	}
	if sc != &t.scope { // branches go on counting where the last attempt ended
		t.scope.asks.Store(sc.asks.Load())
		t.scope.calls.Store(sc.calls.Load())
	}
	if sc.beat != nil { // the attempt was timed and its own context is over
		sc = &scope{Context: ctx, task: t, attempt: sc.attempt, span: sc.span}
	}
	if err == nil {
		err = t.toCache(sc, known)
	}
	if err != nil && n.Handler != nil && ctx.Err() == nil && !t.final(err) {
		if unkept := t.keepFailure(err); unkept != nil {
			err = joinErrors(err, unkept)
		} else {
			err = t.handle(sc, err)
		}
	}
	t.finish(sc, err)
}

// Bubbles reports errors that are not failures of a node but messages to an
// enclosing level.
func Bubbles(err error) bool {
	if _, ok := errors.AsType[*parentCommand](err); ok {
		return true
	}
	_, ok := errors.AsType[*InterruptError](err)
	return ok || errors.Is(err, ErrDrained)
}

// attempt calls the node once and reads its result.
func (t *Task) attempt(sc *scope) error {
	t.out.clear()
	t.nested.Store(0)
	t.unask()
	var out any
	var err error
	in := t.in
	if t.packet != nil {
		in = t.packet.input
	}
	switch {
	case t.timeout().isZero():
		out, err = t.call(sc, in)
	default:
		out, err = t.timed(sc, in)
	}
	t.awaitCalls(err)
	err = t.verdict(err)
	if err == nil {
		if ps := t.paused(); len(ps) > 0 {
			return &SwallowedInterruptError{Pauses: ps}
		}
		return t.take(t.node.out, out)
	}
	// A graph that ran inside this task commands the graph of this task.
	if cmd, ok := errors.AsType[*parentCommand](err); ok {
		return t.obey(cmd)
	}
	return err
}

// obey applies a command of a graph that ran inside this task, and what that graph
// has written to other fields than the command: a hand-off loses nothing.
func (t *Task) obey(cmd *parentCommand) error {
	if err := t.answer(cmd.cmd); err != nil {
		return err
	}
	said := t.out.writes
	for _, w := range cmd.above {
		if !slices.ContainsFunc(said, func(s write) bool { return s.ch == w.ch }) {
			t.out.writes = append(t.out.writes, w)
		}
	}
	return nil
}

func (t *Task) timeout() Timeout {
	if t.packet != nil && t.packet.timeout != 0 {
		return Timeout{Run: t.packet.timeout}
	}
	return t.node.Timeout
}

// call runs the user's function; a panic is an error, and so is the end of the
// goroutine for whoever waits for it on another.
func (t *Task) call(sc *scope, in any) (out any, err error) {
	returned := false
	defer func() {
		if !returned {
			out, err = nil, t.unreturned(recover())
		}
	}()
	out, err = t.callNode(sc, in)
	returned = true
	return out, err
}

func (t *Task) callNode(sc *scope, in any) (out any, err error) {
	if t.node.nest != nil {
		return t.runNested(sc)
	}
	if !t.run.set.Check {
		return t.node.Call(sc, in)
	}
	before := fingerprint(in)
	out, err = t.node.Call(sc, in)
	if err == nil {
		if f := before.changed(fingerprint(in)); f != "" {
			return nil, &MutationError{Node: t.node.Name, Field: f}
		}
	}
	return out, err
}

// grace is how long a timed-out node may take to notice that its context is
// cancelled before it is left behind.
const grace = 5 * time.Second

// timed calls the node in a goroutine of its own and watches the clock.
func (t *Task) timed(sc *scope, in any) (any, error) {
	limit := t.timeout()
	if t.packet == nil {
		in = t.input() // an abandoned attempt must not read the shared view
	}
	type result struct {
		out any
		err error
	}
	ctx, cancel := context.WithCancelCause(sc.Context)
	defer cancel(nil)
	sc.Context = ctx
	sc.beat = make(chan struct{}, 1)
	done := make(chan result, 1)
	go func() {
		r := result{}
		defer func() {
			if err := t.ended(); err != nil && r.err == nil {
				r = result{err: err}
			}
			done <- r
		}()
		r.out, r.err = t.call(sc, in)
	}()
	var run, idle <-chan time.Time
	var idler *time.Timer
	if limit.Run > 0 {
		timer := time.NewTimer(limit.Run)
		defer timer.Stop()
		run = timer.C
	}
	if limit.Idle > 0 {
		idler = time.NewTimer(limit.Idle)
		defer idler.Stop()
		idle = idler.C
	}
	expire := func(e *TimeoutError) (any, error) {
		sc.closed.Store(true)
		cancel(e)
		patience := time.NewTimer(grace)
		defer patience.Stop()
		select {
		case <-done:
		case <-patience.C:
			e.Abandoned = true
		}
		return nil, e
	}
	for {
		select {
		case r := <-done:
			return r.out, r.err
		case <-sc.beat:
			if idler != nil {
				idler.Reset(limit.Idle)
			}
		case <-run:
			return expire(&TimeoutError{Node: t.node.Name, Limit: limit.Run})
		case <-idle:
			return expire(&TimeoutError{Node: t.node.Name, Limit: limit.Idle, Idle: true})
		}
	}
}

// alive notes a sign of life; heartbeat says it was an explicit one. It is one
// for the tasks around a nested graph too.
func (s *scope) alive(heartbeat bool) {
	for ; s != nil; s = s.task.run.within {
		if s.beat == nil || !heartbeat && s.task.timeout().HeartbeatOnly {
			continue
		}
		select {
		case s.beat <- struct{}{}:
		default:
		}
	}
}

// late reports whether the attempt, or one that it is nested in, has timed out.
func (s *scope) late() bool {
	for ; s != nil; s = s.task.run.within {
		if s.closed.Load() {
			return true
		}
	}
	return false
}

// take reads a node's result.
func (t *Task) take(o *outPlan, out any) error {
	s := t.run.plan.schema
	if t.node.nest != nil && o == nil {
		t.out.writes = out.([]write)
		return nil
	}
	switch o.kind {
	case outGoto:
		t.out.targets = s.words.Targets(t.out.to(), out)
		return nil
	case outCommand:
		return t.takeCommands(s.words.Commands(out))
	}
	if o.pointer {
		rv := reflect.ValueOf(out)
		if rv.IsNil() {
			return nil
		}
		out = rv.Elem().Interface()
	}
	return o.update.collect(s, &t.out, out)
}

func (t *Task) takeCommands(cmds []Command) error {
	for _, c := range cmds {
		if c.Parent {
			return &parentCommand{cmd: c, node: t.node.Name, wrote: slices.Clone(t.out.writes)}
		}
		if err := t.answer(c); err != nil {
			return err
		}
	}
	return nil
}

// answer applies a command to this task's graph.
func (t *Task) answer(c Command) error {
	if c.Update != nil {
		u, err := t.run.plan.updateFor(reflect.TypeOf(c.Update))
		if err != nil {
			return err
		}
		if err := u.collect(t.run.plan.schema, &t.out, c.Update); err != nil {
			return err
		}
	}
	t.out.targets = append(t.out.targets, c.Goto...)
	return nil
}

// handlerFirst numbers what an error handler asks, calls and runs, so that it
// does not depend on how far the node came, which does not run again.
const handlerFirst = 1 << 20

// handlerError: a node's error handler failed too, or asked something.
type handlerError struct{ err, failure error }

func (e *handlerError) Error() string {
	return fmt.Sprintf("error handler: %v (handling: %v)", e.err, e.failure)
}

func (e *handlerError) Unwrap() []error { return []error{e.err, e.failure} }

// handle lets the node's error handler answer for it.
func (t *Task) handle(sc *scope, failure error) (err error) {
	t.out.clear()
	t.unask()
	ne := t.nodeError(sc, failure)
	sc = &scope{Context: sc.Context, task: t, attempt: sc.attempt, span: sc.span}
	sc.asks.Store(handlerFirst)
	sc.calls.Store(handlerFirst)
	t.nested.Store(handlerFirst)
	returned := false
	defer func() {
		if !returned {
			p := recover()
			e := caught.New("", p)
			if err = e; p == nil {
				t.ends(&handlerError{err, failure})
			}
		}
		t.awaitCalls(err)
		err = t.verdict(err)
		if ps := t.paused(); err == nil && len(ps) > 0 {
			err = &SwallowedInterruptError{Pauses: ps}
		}
		if err != nil {
			t.out.clear()
			err = &handlerError{err, failure}
		}
	}()
	in := t.in
	if t.packet != nil {
		in = t.packet.input
	}
	t.emitFailure(ne)
	t.handling = true
	if t.node.wholeState {
		r := t.run
		in = r.plan.state.fresh(r.slots, r.plan.schema.words, r.plan.public)
	}
	out, err := t.node.Handler.Call(sc, in, ne)
	returned = true
	if err != nil {
		return err
	}
	t.out.handled = true
	return t.take(t.node.handler, out)
}

// nodeError says where err happened.
func (t *Task) nodeError(sc *scope, err error) *NodeError {
	ne := &NodeError{Graph: t.run.plan.name, Node: t.node.Name, Path: t.run.ns(), Step: t.step, Attempt: int(sc.attempt), Err: err}
	if e, ok := errors.AsType[*caught.Error](err); ok {
		ne.Stack = e.Stack
	}
	return ne
}

// finish records how the task ended and tells the stream.
func (t *Task) finish(sc *scope, err error) {
	if err != nil {
		if !Bubbles(err) {
			err = t.nodeError(sc, err)
		}
		t.err = err
	}
	t.emitEnd(sc, err)
}

// retryAfter says whether err is to be tried again and after how long. The
// first policy that matches the error decides. The error it returns is err, or
// that a policy could not decide about it.
func (n *node) retryAfter(err error, attempt int) (wait time.Duration, again bool, bad error) {
	defer func() {
		if p := recover(); p != nil {
			wait, again, bad = 0, false, &undecidedError{caught.New("retry policy: ", p), err}
		}
	}()
	for i := range n.Retry {
		if p := n.Retry[i]; p.Retryable(err) {
			wait, again = p.Wait(attempt)
			return wait, again, err
		}
	}
	return 0, false, err
}

// undecidedError: a retry policy failed to say whether a failure is tried again.
type undecidedError struct{ err, failure error }

func (e *undecidedError) Error() string { return fmt.Sprintf("%v (asked about: %v)", e.err, e.failure) }

func (e *undecidedError) Unwrap() []error { return []error{e.err, e.failure} }

// sleep waits for d and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// prints are the encoded fields of a node's input, to see whether the node
// changed it. Fields that JSON cannot hold are not watched.
type prints map[string][]byte

func fingerprint(in any) prints {
	v := reflect.ValueOf(in)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	p := prints{}
	switch v.Kind() {
	case reflect.Struct:
		fields, _ := fieldsOf(v.Type())
		for _, f := range fields {
			p[f.name] = imprint(v.FieldByIndex(f.index))
		}
	case reflect.Map:
		for k, val := range v.Seq2() {
			p[k.String()] = imprint(val)
		}
	case reflect.Slice, reflect.Array:
		p[v.Type().String()] = imprint(v)
	}
	return p
}

// imprint is the JSON of a field, nil if it has none.
func imprint(v reflect.Value) []byte {
	raw, err := toJSON(v.Interface())
	if err != nil {
		return nil
	}
	return raw
}

// changed names a field whose print differs, the first by name.
func (p prints) changed(now prints) string {
	first := ""
	for k, was := range p {
		if !bytes.Equal(was, now[k]) && (first == "" || k < first) {
			first = k
		}
	}
	for k := range now {
		if _, ok := p[k]; !ok && (first == "" || k < first) {
			first = k
		}
	}
	return first
}
