package threadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// askState is the state of most graphs in the interrupt suite.
type askState struct {
	Log  reduce.List[string] `json:"log"`
	Note string              `json:"note"`
}

// Updates that nodes of these graphs return.
type (
	askLog  struct{ Log reduce.List[string] }
	askNote struct{ Note string }
)

func askSay(words ...string) askLog { return askLog{words} }

// askTally counts effects by name. It represents the outside world, which survives a
// restart.
type askTally struct {
	mu   sync.Mutex
	done []string
}

func (c *askTally) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = append(c.done, name)
}

// want compares the effects since the last call with want, in any order.
func (c *askTally) want(t *testing.T, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	got := slices.Sorted(slices.Values(c.done))
	c.done = nil
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("what ran: %q, want %q", got, want)
	}
}

// askRig is a graph on a saver. The cold variant rebuilds the graph for every use, so
// that calls share only saved data.
type askRig[In, Out any] struct {
	t     *testing.T
	saver checkpoint.Saver
	tally *askTally
	build askBuild[In, Out]
	kept  *treadle.Graph[In, Out] // set in the warm variant
}

type askBuild[In, Out any] func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[In, Out], error)

// askBothWays runs a test with a single graph, and with a restart between all calls.
func askBothWays[In, Out any](t *testing.T, open func(t *testing.T) checkpoint.Saver, build askBuild[In, Out], test func(t *testing.T, rig *askRig[In, Out])) {
	t.Run("warm", func(t *testing.T) {
		rig := &askRig[In, Out]{t: t, saver: open(t), tally: &askTally{}, build: build}
		rig.kept = rig.graph()
		test(t, rig)
	})
	t.Run("restarted", func(t *testing.T) {
		test(t, &askRig[In, Out]{t: t, saver: open(t), tally: &askTally{}, build: build})
	})
}

func (r *askRig[In, Out]) graph() *treadle.Graph[In, Out] {
	r.t.Helper()
	if r.kept != nil {
		return r.kept
	}
	g, err := r.build(r.saver, r.tally)
	if err != nil {
		r.t.Fatal(err)
	}
	return g
}

func (r *askRig[In, Out]) thread(opts ...treadle.RunOption) *treadle.Thread[In, Out] {
	r.t.Helper()
	return r.graph().Thread("t", opts...)
}

// askedStrings checks that a run is interrupted with exactly these questions, in order.
func askedStrings(t *testing.T, err error, want ...string) []treadle.Pause {
	t.Helper()
	p, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok {
		t.Fatalf("run ended with %v, want the questions %q", err, want)
	}
	return askQuestions(t, p.Pauses, want...)
}

// askedAny is like askedStrings, but for interrupts of parallel nodes, in any order.
func askedAny(t *testing.T, err error, want ...string) map[string]string {
	t.Helper()
	p, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok {
		t.Fatalf("run ended with %v, want the questions %q", err, want)
	}
	ids := map[string]string{}
	for _, p := range p.Pauses {
		var q string
		if err := p.Decode(&q); err != nil {
			t.Fatal(err)
		}
		ids[q] = p.ID
	}
	got := []string{}
	for q := range ids {
		got = append(got, q)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(p.Pauses) != len(want) {
		t.Fatalf("open questions %q, want %q", got, want)
	}
	return ids
}

func askQuestions(t *testing.T, pauses []treadle.Pause, want ...string) []treadle.Pause {
	t.Helper()
	got := []string{}
	for _, p := range pauses {
		var q string
		if err := p.Decode(&q); err != nil {
			t.Fatal(err)
		}
		got = append(got, q)
	}
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("questions (-want +got):\n%s", diff)
	}
	return pauses
}

// askStopped checks that a run stopped at these breakpoints without interrupts.
func askStopped(t *testing.T, err error, before, after []string) {
	t.Helper()
	p, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok {
		t.Fatalf("run ended with %v, want a breakpoint", err)
	}
	if !slices.Equal(p.Before, before) || !slices.Equal(p.After, after) || len(p.Pauses) > 0 {
		t.Fatalf("stopped before %q, after %q with %d questions; want before %q, after %q", p.Before, p.After, len(p.Pauses), before, after)
	}
}

// askEnded checks that a run finished with this log.
func askEnded(t *testing.T, out askState, err error, want ...string) {
	t.Helper()
	if err != nil {
		t.Fatalf("run failed: %v", err)
	}
	if !slices.Equal([]string(out.Log), want) {
		t.Fatalf("log %q, want %q", out.Log, want)
	}
}

// askDump returns everything that the saver stores in the thread's root namespace, byte
// by byte.
func askDump(t *testing.T, saver checkpoint.Saver) string {
	t.Helper()
	var out strings.Builder
	for cp, err := range saver.List(t.Context(), checkpoint.Query{Thread: "t"}) {
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(cp)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(raw)
		out.WriteByte('\n')
	}
	return out.String()
}

// askUnchanged runs f and checks that it leaves the thread unchanged.
func askUnchanged(t *testing.T, saver checkpoint.Saver, what string, f func()) {
	t.Helper()
	before := askDump(t, saver)
	f()
	if diff := cmp.Diff(before, askDump(t, saver)); diff != "" {
		t.Errorf("%s changed the thread (-before +after):\n%s", what, diff)
	}
}

// askNext checks the thread's next nodes and returns its state.
func askNext[In, Out any](t *testing.T, r *askRig[In, Out], want ...string) *treadle.Snapshot {
	t.Helper()
	snap, err := r.thread().State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(snap.Next, want) {
		t.Errorf("next %q, want %q", snap.Next, want)
	}
	return snap
}

// askNode returns a node that asks a question with its name and logs the answer.
func askNode(c *askTally, name string) func(context.Context, askState) (askLog, error) {
	return func(ctx context.Context, _ askState) (askLog, error) {
		c.add(name)
		a, err := treadle.Interrupt[string](ctx, name+"?")
		if err != nil {
			return askLog{}, err
		}
		return askSay(name + "=" + a), nil
	}
}

// askPlain returns a node that logs its name.
func askPlain(c *askTally, name string) func(context.Context, askState) (askLog, error) {
	return func(context.Context, askState) (askLog, error) {
		c.add(name)
		return askSay(name), nil
	}
}

// askLine formats a stream event as one line.
func askLine(ev treadle.Event) string {
	at := ev.Where()
	where := at.Node
	if len(at.Namespace) > 0 {
		where = fmt.Sprintf("%d deep %s", len(at.Namespace), at.Node)
	}
	switch ev := ev.(type) {
	case treadle.Updated:
		cached := ""
		if ev.Cached {
			cached = " cached"
		}
		return fmt.Sprintf("update %s %s%s", where, ev.Update, cached)
	case treadle.Values:
		return fmt.Sprintf("values %s pauses %d", ev.State, len(ev.Pauses))
	case treadle.Interrupted:
		var qs strings.Builder
		for _, p := range ev.Pauses {
			qs.WriteString(" " + string(p.Value))
		}
		return fmt.Sprintf("interrupted %s%s before %q after %q", where, &qs, ev.Before, ev.After)
	case treadle.Custom:
		return fmt.Sprintf("custom %v", ev.Value)
	}
	return fmt.Sprintf("%T", ev)
}
