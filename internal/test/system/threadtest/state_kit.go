// Package threadtest contains the test suites for threads, which run on every saver:
// state and history, edits, time travel, subgraphs, continuing after a failure, and
// saving steps. They test the engine. A saver that passes checkpointtest passes them too.
package threadtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// kitState is the state of most graphs here: a value for which the last write wins, and a
// list that shows the order of writes.
type kitState struct {
	N   int                 `json:"n"`
	Log reduce.List[string] `json:"log"`
}

type (
	kitLog    struct{ Log reduce.List[string] }
	kitN      struct{ N int }
	kitGraph  = treadle.Graph[kitState, kitState]
	kitThread = treadle.Thread[kitState, kitState]
)

func kitSay(words ...string) kitLog { return kitLog{reduce.List[string](words)} }

// kitWorld is shared by the nodes of a test and the test itself, even across restarts:
// which nodes ran, and what they must do.
type kitWorld struct {
	database bool // the saver is a database

	mu    sync.Mutex
	calls []string
	hooks map[string]func(context.Context) error
}

// on makes a node call do before it returns; nil removes that.
func (w *kitWorld) on(node string, do func(context.Context) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hooks == nil {
		w.hooks = map[string]func(context.Context) error{}
	}
	w.hooks[node] = do
}

// fail makes a node fail; nil lets it run again.
func (w *kitWorld) fail(node string, err error) {
	if err == nil {
		w.on(node, nil)
		return
	}
	w.on(node, func(context.Context) error { return err })
}

// enter records that a node runs and performs its configured action.
func (w *kitWorld) enter(ctx context.Context, node string) error {
	w.mu.Lock()
	w.calls = append(w.calls, node)
	do := w.hooks[node]
	w.mu.Unlock()
	if do == nil {
		return nil
	}
	return do(ctx)
}

// ran returns the nodes that ran since the last call, sorted, because the nodes of a step
// run concurrently.
func (w *kitWorld) ran() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.calls
	w.calls = nil
	slices.Sort(out)
	return out
}

// node returns a node that logs its name.
func (w *kitWorld) node(name string) func(context.Context, kitState) (kitLog, error) {
	return func(ctx context.Context, _ kitState) (kitLog, error) {
		if err := w.enter(ctx, name); err != nil {
			return kitLog{}, err
		}
		return kitSay(name), nil
	}
}

// asker returns a node that asks "name?" and logs "name=answer".
func (w *kitWorld) asker(name string) func(context.Context, kitState) (kitLog, error) {
	return func(ctx context.Context, _ kitState) (kitLog, error) {
		if err := w.enter(ctx, name); err != nil {
			return kitLog{}, err
		}
		answer, err := treadle.Interrupt[string](ctx, name+"?")
		if err != nil {
			return kitLog{}, err
		}
		return kitSay(name + "=" + answer), nil
	}
}

// kitBuild builds a graph; it is called again for every restart.
type kitBuild func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph

func kitCompile(t *testing.T, b *treadle.Builder[kitState], saver checkpoint.Saver) *kitGraph {
	t.Helper()
	g, err := b.Compile(&treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// kitChain builds a graph whose nodes run in sequence; a node whose name ends with a
// question mark interrupts.
func kitChain(names ...string) kitBuild {
	return func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		t.Helper()
		return kitCompile(t, kitChainOf(w, "chain", names...), saver)
	}
}

func kitChainOf(w *kitWorld, graph string, names ...string) *treadle.Builder[kitState] {
	b := treadle.New[kitState](graph)
	seq := []string{treadle.Start}
	for _, name := range names {
		plain, asks := strings.CutSuffix(name, "?")
		if asks {
			treadle.AddNode(b, plain, w.asker(plain))
		} else {
			treadle.AddNode(b, plain, w.node(plain))
		}
		seq = append(seq, plain)
	}
	b.Sequence(treadle.Nodes(seq)...)
	return b
}

// kitPair builds a graph with two nodes in one step.
func kitPair(one, two string) kitBuild {
	return func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		t.Helper()
		b := treadle.New[kitState]("pair")
		for _, name := range []string{one, two} {
			treadle.AddNode(b, name, w.node(name))
			b.Edge(treadle.Start, name)
		}
		return kitCompile(t, b, saver)
	}
}

// kitHandle opens the test's thread.
type kitHandle func(...treadle.RunOption) *kitThread

// kitBothWays runs a test with a single graph, and with a graph that is rebuilt on the
// same saver for every call, like a restart.
func kitBothWays(t *testing.T, open func(*testing.T) checkpoint.Saver, build kitBuild, test func(t *testing.T, w *kitWorld, thread kitHandle)) {
	t.Helper()
	kitBothGraphs(t, open, build, func(t *testing.T, w *kitWorld, graph func() *kitGraph) {
		test(t, w, func(opts ...treadle.RunOption) *kitThread { return graph().Thread("t", opts...) })
	})
}

// kitBothGraphs is like kitBothWays, but passes the graph.
func kitBothGraphs(t *testing.T, open func(*testing.T) checkpoint.Saver, build kitBuild, test func(t *testing.T, w *kitWorld, graph func() *kitGraph)) {
	t.Helper()
	t.Run("warm", func(t *testing.T) {
		saver := open(t)
		w := &kitWorld{database: !inMemory(saver)}
		g := build(t, w, saver)
		test(t, w, func() *kitGraph { return g })
	})
	t.Run("restarted", func(t *testing.T) {
		saver := open(t)
		w := &kitWorld{database: !inMemory(saver)}
		test(t, w, func() *kitGraph { return build(t, w, saver) })
	})
}

// inMemory reports whether s is the in-memory saver. Tests that cover all combinations
// there cover only some on a database, which takes a hundred times as long under the race
// detector.
func inMemory(s checkpoint.Saver) bool {
	_, ok := s.(*checkpoint.Memory)
	return ok
}

// kitRun runs the thread with an input and checks the log.
func kitRun(t *testing.T, thread *kitThread, in kitState, want ...string) kitState {
	t.Helper()
	out, err := thread.Run(t.Context(), in)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	kitWantLog(t, "run", out, want)
	return out
}

func kitContinue(t *testing.T, thread *kitThread, want ...string) kitState {
	t.Helper()
	out, err := thread.Continue(t.Context())
	if err != nil {
		t.Fatalf("continue: %v", err)
	}
	kitWantLog(t, "continue", out, want)
	return out
}

func kitResume(t *testing.T, thread *kitThread, answer any, want ...string) kitState {
	t.Helper()
	out, err := thread.Resume(t.Context(), answer)
	if err != nil {
		t.Fatalf("resume: %v", err)
	}
	kitWantLog(t, "resume", out, want)
	return out
}

func kitWantLog(t *testing.T, what string, s kitState, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, []string(s.Log)); diff != "" {
		t.Errorf("%s: log (-want +got):\n%s", what, diff)
	}
}

// kitAsked checks that err is an interrupt with exactly these questions.
func kitAsked(t *testing.T, err error, questions ...string) []treadle.Pause {
	t.Helper()
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok {
		t.Fatalf("error %v, want the questions %q", err, questions)
	}
	var got []string
	for _, p := range stop.Pauses {
		var q string
		if err := p.Decode(&q); err != nil {
			t.Fatal(err)
		}
		got = append(got, q)
	}
	slices.Sort(got)
	if diff := cmp.Diff(questions, got); diff != "" {
		t.Fatalf("questions (-want +got):\n%s", diff)
	}
	return stop.Pauses
}

func kitRan(t *testing.T, w *kitWorld, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.ran()); diff != "" {
		t.Errorf("nodes that ran (-want +got):\n%s", diff)
	}
}

type kitReader interface {
	State(context.Context) (*treadle.Snapshot, error)
	History(context.Context, *treadle.HistoryOptions) iter.Seq2[*treadle.Snapshot, error]
}

func kitStateOf(t *testing.T, thread kitReader) *treadle.Snapshot {
	t.Helper()
	snap, err := thread.State(t.Context())
	if err != nil {
		t.Fatalf("state: %v", err)
	}
	return snap
}

func kitHistory(t *testing.T, thread kitReader) []*treadle.Snapshot {
	t.Helper()
	return kitSelected(t, thread, nil)
}

// kitSelected returns the part of a history that the options select.
func kitSelected(t *testing.T, thread kitReader, opts *treadle.HistoryOptions) []*treadle.Snapshot {
	t.Helper()
	var out []*treadle.Snapshot
	for snap, err := range thread.History(t.Context(), opts) {
		if err != nil {
			t.Fatalf("history: %v", err)
		}
		out = append(out, snap)
	}
	return out
}

// kitLine formats a snapshot as one line: step, source, values, and next nodes.
func kitLine(s *treadle.Snapshot) string {
	return fmt.Sprintf("%d %s %s %v", s.Step, s.Source, s.State, s.Next)
}

func kitLines(snaps []*treadle.Snapshot) []string {
	var out []string
	for _, s := range snaps {
		out = append(out, kitLine(s))
	}
	return out
}

func kitWantLines(t *testing.T, snaps []*treadle.Snapshot, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, kitLines(snaps)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

// kitAppended checks that a history still contains all its previous checkpoints, and
// returns the new ones.
func kitAppended(t *testing.T, thread kitReader, before []*treadle.Snapshot) []*treadle.Snapshot {
	t.Helper()
	now := kitHistory(t, thread)
	if len(now) < len(before) {
		t.Fatalf("history has %d checkpoints, it had %d", len(now), len(before))
	}
	added := len(now) - len(before)
	show := func(snaps []*treadle.Snapshot) (out []string) {
		for _, s := range snaps {
			out = append(out, fmt.Sprintf("%s after %s: %s", s.ID, s.Parent, kitLine(s)))
		}
		return out
	}
	if diff := cmp.Diff(show(before), show(now[added:])); diff != "" {
		t.Errorf("old checkpoints have changed (-want +got):\n%s", diff)
	}
	return now[:added]
}

// kitAt returns the newest checkpoint of a history with these next nodes.
func kitAt(t *testing.T, snaps []*treadle.Snapshot, next ...string) *treadle.Snapshot {
	t.Helper()
	for _, s := range snaps {
		if slices.Equal(s.Next, next) {
			return s
		}
	}
	t.Fatalf("no checkpoint is followed by %v in:\n%s", next, strings.Join(kitLines(snaps), "\n"))
	return nil
}

func kitUpdate(t *testing.T, thread *kitThread, values any, opts ...treadle.UpdateOption) checkpoint.ID {
	t.Helper()
	id, err := thread.Update(t.Context(), values, opts...)
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	return id
}

// kitNested returns a handle on the subgraph with the given namespace.
func kitNested(t *testing.T, thread *kitThread, namespace ...string) *kitThread {
	t.Helper()
	in, err := thread.Nested(namespace...)
	if err != nil {
		t.Fatalf("nested %v: %v", namespace, err)
	}
	return in
}

var errKit = errors.New("the database is down")

// kitFaulty is a saver whose n-th call of a kind fails and, if stuck, all later calls
// too.
type kitFaulty struct {
	checkpoint.Saver

	mu    sync.Mutex
	fails string // get, put, writes, list
	after int    // calls of that kind that still succeed
	stuck bool
	hits  int
}

func (f *kitFaulty) arm(kind string, after int, stuck bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = kind
	f.after = after
	f.stuck = stuck
	f.hits = 0
}

func (f *kitFaulty) disarm() (hits int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = ""
	return f.hits
}

func (f *kitFaulty) check(kind string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails != kind {
		return nil
	}
	f.after--
	if f.after == -1 || f.stuck && f.after < 0 {
		f.hits++
		return fmt.Errorf("%s: %w", kind, errKit)
	}
	return nil
}

func (f *kitFaulty) Get(ctx context.Context, key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	if err := f.check("get"); err != nil {
		return nil, err
	}
	return f.Saver.Get(ctx, key)
}

func (f *kitFaulty) Put(ctx context.Context, p *checkpoint.Put) error {
	if err := f.check("put"); err != nil {
		return err
	}
	return f.Saver.Put(ctx, p)
}

func (f *kitFaulty) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	if err := f.check("writes"); err != nil {
		return err
	}
	return f.Saver.PutWrites(ctx, at, fence, ws)
}

func (f *kitFaulty) List(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Checkpoint, error] {
	if err := f.check("list"); err != nil {
		return func(yield func(*checkpoint.Checkpoint, error) bool) { yield(nil, err) }
	}
	return f.Saver.List(ctx, q)
}
