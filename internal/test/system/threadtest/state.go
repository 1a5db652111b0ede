package threadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// State is the suite for a thread's state and history, for edits, and for continuing
// after a failure.
var State = Suite{
	{"Unknown", sequential, stateUnknown},
	{"History", concurrent, stateHistory},
	{"HistoryIsNarrowed", sequential, stateHistoryNarrowed},
	{"OnlyWrittenFieldsAreThere", sequential, stateWrittenFields},
	{"MetadataIsOnEveryCheckpoint", sequential, stateMetadata},
	{"FinishedSiblingIsKept", concurrent, stateFinishedSibling},
	{"FailureLeavesValues", sequential, stateFailure},
	{"NewInputGivesUpFailure", sequential, stateNewInput},
	{"StepLimit", sequential, stateStepLimit},
	{"DeleteThread", sequential, stateDelete},
	{"NoPendingWrites", sequential, stateNilPending},
	{"OfAnotherGraph", sequential, stateOfAnotherGraph},
	{"OfNoGraph", sequential, stateOfNoGraph},
	{"InputsAreUpdates", sequential, stateTypedInputs},
}

func stateUnknown(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	w := &kitWorld{}
	thread := kitChain("a")(t, w, open(t)).Thread("t")
	snap := kitStateOf(t, thread)
	if !snap.ID.IsZero() || snap.Thread != "t" || snap.Next != nil || snap.Tasks != nil || snap.State.Names() != nil {
		t.Errorf("state of a thread that does not exist: %+v", snap)
	}
	if h := kitHistory(t, thread); h != nil {
		t.Errorf("unexpected history: %v", kitLines(h))
	}
	if _, err := thread.Continue(t.Context()); !errors.Is(err, treadle.ErrNothingToContinue) {
		t.Errorf("continue: %v, want ErrNothingToContinue", err)
	}
	if _, err := thread.At(checkpoint.NewID(3, checkpoint.ID{})).State(t.Context()); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("state at a checkpoint that is not there: %v, want ErrNotFound", err)
	}
	kitRan(t, w)
}

func stateHistory(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(treadle.RunID("first")), kitState{N: 1}, "a", "b")
		kitRun(t, thread(treadle.RunID("second")), kitState{Log: reduce.List[string]{"x"}}, "a", "b", "x", "a", "b")
		snaps := kitHistory(t, thread())
		kitWantLines(t, snaps,
			`6 loop {"n":1,"log":["a","b","x","a","b"]} []`,
			`5 loop {"n":1,"log":["a","b","x","a"]} [b]`,
			`4 loop {"n":1,"log":["a","b","x"]} [a]`,
			`3 input {"n":1,"log":["a","b"]} [__start__]`,
			`2 loop {"n":1,"log":["a","b"]} []`,
			`1 loop {"n":1,"log":["a"]} [b]`,
			`0 loop {"n":1,"log":[]} [a]`,
			`-1 input {"log":[]} [__start__]`,
		)
		for i, s := range snaps {
			want := "first"
			if i < 4 {
				want = "second"
			}
			if s.RunID != want || s.Thread != "t" || s.CreatedAt.IsZero() {
				t.Errorf("checkpoint %d: run %q of thread %q at %v, want run %q", s.Step, s.RunID, s.Thread, s.CreatedAt, want)
			}
			var parent checkpoint.ID
			if i+1 < len(snaps) {
				parent = snaps[i+1].ID
			}
			if s.Parent != parent {
				t.Errorf("checkpoint %d follows %s, want %s", s.Step, s.Parent, parent)
			}
			at, err := thread().At(s.ID).State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if kitLine(at) != kitLine(s) || at.ID != s.ID {
				t.Errorf("state at %d: %s, the history says %s", s.Step, kitLine(at), kitLine(s))
			}
		}
		if snap := kitStateOf(t, thread()); snap.ID != snaps[0].ID {
			t.Errorf("state: %s, want the newest checkpoint", kitLine(snap))
		}
	})
}

func stateHistoryNarrowed(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		for _, user := range []string{"ada", "bob"} {
			kitRunAny(t, thread(treadle.Metadata(map[string]any{"user": user, "deep": map[string]any{"n": 1}})), kitState{N: 1})
		}
		all := kitHistory(t, thread())
		steps := func(o *treadle.HistoryOptions) []int {
			out := []int{}
			for _, s := range kitSelected(t, thread(), o) {
				out = append(out, s.Step)
			}
			return out
		}
		for _, c := range []struct {
			name string
			opts *treadle.HistoryOptions
			want []int
		}{
			{"all", nil, []int{4, 3, 2, 1, 0, -1}},
			{"limit", &treadle.HistoryOptions{Limit: 2}, []int{4, 3}},
			{"limit beyond the end", &treadle.HistoryOptions{Limit: 100}, []int{4, 3, 2, 1, 0, -1}},
			{"earlier", &treadle.HistoryOptions{Before: all[3].ID}, []int{0, -1}},
			{"earlier than the first", &treadle.HistoryOptions{Before: all[5].ID}, []int{}},
			{"earlier and limit", &treadle.HistoryOptions{Before: all[0].ID, Limit: 2}, []int{3, 2}},
			{"having", &treadle.HistoryOptions{Metadata: map[string]any{"user": "ada"}}, []int{1, 0, -1}},
			{"having an object", &treadle.HistoryOptions{Metadata: map[string]any{"deep": map[string]any{"n": 1}}}, []int{4, 3, 2, 1, 0, -1}},
			{"having another value", &treadle.HistoryOptions{Metadata: map[string]any{"user": "eve"}}, []int{}},
			{"having another key", &treadle.HistoryOptions{Metadata: map[string]any{"team": "ada"}}, []int{}},
			{"having, earlier, limit", &treadle.HistoryOptions{Metadata: map[string]any{"user": "bob"}, Before: all[0].ID, Limit: 1}, []int{3}},
		} {
			if diff := cmp.Diff(c.want, steps(c.opts)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		}
		for want, opt := range map[string]*treadle.HistoryOptions{
			`metadata "when": value cannot be encoded as JSON: json: unsupported type: chan int`: {Metadata: map[string]any{"when": make(chan int)}},
			`unknown source "inputs": want input, loop, update, or fork`:                         {Sources: []checkpoint.Source{"inputs"}},
			`limit -1: want 0 (no limit) or more`:                                                {Limit: -1},
		} {
			var got []string
			for snap, err := range thread().History(t.Context(), opt) {
				got = append(got, fmt.Sprint(snap == nil, " ", err))
			}
			if len(got) != 1 || !strings.HasPrefix(got[0], "true graph ") || !strings.HasSuffix(got[0], want) {
				t.Errorf("history of %q, want the error %s", got, want)
			}
		}
		kitUpdate(t, thread(), kitN{7})
		kitContinue(t, thread().At(all[1].ID), "a", "a")
		for _, c := range []struct {
			name string
			opts *treadle.HistoryOptions
			want []int
		}{
			{"inputs", &treadle.HistoryOptions{Sources: []checkpoint.Source{checkpoint.Input}}, []int{2, -1}},
			{"edits and forks", &treadle.HistoryOptions{Sources: []checkpoint.Source{checkpoint.Update, checkpoint.Fork}}, []int{4, 5}},
			{"inputs, the newest", &treadle.HistoryOptions{Sources: []checkpoint.Source{checkpoint.Input}, Limit: 1}, []int{2}},
			{"inputs of one user", &treadle.HistoryOptions{Sources: []checkpoint.Source{checkpoint.Input}, Metadata: map[string]any{"user": "ada"}}, []int{-1}},
			{"a step", &treadle.HistoryOptions{Step: new(1)}, []int{1}},
			{"a step of several branches", &treadle.HistoryOptions{Step: new(5)}, []int{5, 5}},
			{"a step and a source", &treadle.HistoryOptions{Step: new(5), Sources: []checkpoint.Source{checkpoint.Update}}, []int{5}},
			{"step 0", &treadle.HistoryOptions{Step: new(0)}, []int{0}},
			{"a step that is not there", &treadle.HistoryOptions{Step: new(77)}, []int{}},
			{"earlier than", &treadle.HistoryOptions{Sources: []checkpoint.Source{checkpoint.Loop}, Before: all[2].ID}, []int{1, 0}},
		} {
			if diff := cmp.Diff(c.want, steps(c.opts)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		}
		for range thread().History(t.Context(), nil) {
			break // leaving a history early is allowed
		}
	})
}

// kitRunAny runs the thread without checking the log.
func kitRunAny(t *testing.T, thread *kitThread, in kitState) kitState {
	t.Helper()
	out, err := thread.Run(t.Context(), in)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return out
}

func stateWrittenFields(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{}, "a")
		snap := kitStateOf(t, thread())
		if snap.Has("n") || snap.Has("N") || !snap.Has("Log") || !snap.Has("log") {
			t.Errorf("fields that are there: %v, want the log alone", snap.State.Names())
		}
		kitUpdate(t, thread(), kitN{0})
		if snap := kitStateOf(t, thread()); !snap.Has("n") {
			t.Error("written zero is missing")
		}
	})
}

func stateMetadata(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(treadle.Metadata(map[string]any{"user": "ada", "n": 7})), kitState{}, "a", "b")
		for _, s := range kitHistory(t, thread()) {
			if diff := cmp.Diff(map[string]any{"user": "ada", "n": 7.0}, s.Metadata); diff != "" {
				t.Errorf("metadata of step %d (-want +got):\n%s", s.Step, diff)
			}
		}
		w.fail("b", errKit)
		if _, err := thread(treadle.Metadata(map[string]any{"try": "1"})).Run(t.Context(), kitState{}); !errors.Is(err, errKit) {
			t.Fatal(err)
		}
		w.fail("b", nil)
		if _, err := thread(treadle.Metadata(map[string]any{"try": "2"})).Continue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := kitStateOf(t, thread()).Metadata["try"]; got != "2" {
			t.Errorf("continued run's checkpoint has the metadata %v, want those of the run that made it", got)
		}
		id, err := thread(treadle.Metadata(map[string]any{"by": "editor"})).Update(t.Context(), kitN{1})
		if err != nil {
			t.Fatal(err)
		}
		snap, err := thread().At(id).State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := snap.Metadata["by"]; got != "editor" {
			t.Errorf("edit's checkpoint has the metadata %v, want the handle's", snap.Metadata)
		}
	})
}

func stateFinishedSibling(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitPair("one", "two"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		oneIsDone := make(chan struct{})
		w.on("one", func(context.Context) error { close(oneIsDone); return nil })
		w.on("two", func(context.Context) error { <-oneIsDone; return errKit })
		// One has finished when two fails, and its result is kept. MaxConcurrency 1
		// ensures that order.
		_, err := thread(treadle.MaxConcurrency(1)).Run(t.Context(), kitState{Log: reduce.List[string]{"in"}})
		failed, ok := errors.AsType[*treadle.NodeError](err)
		if !ok || !errors.Is(err, errKit) || failed.Node != "two" {
			t.Fatalf("run: %v, want the failure of two", err)
		}
		kitRan(t, w, "one", "two")

		snap := kitStateOf(t, thread())
		if got, want := kitLine(snap), `0 loop {"log":["in","one"]} [two]`; got != want {
			t.Errorf("state %s, want %s: what one wrote is there already", got, want)
		}
		if len(snap.Tasks) != 2 || snap.Tasks[0].Name != "one" || snap.Tasks[0].Result.String() != `{"log":["one"]}` || snap.Tasks[0].Error != "" ||
			snap.Tasks[1].Name != "two" || snap.Tasks[1].Result.String() != "null" || !strings.Contains(snap.Tasks[1].Error, errKit.Error()) {
			t.Errorf("tasks: %s", kitTasks(snap))
		}
		at, err := thread().At(snap.ID).State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := at.State.String(), `{"log":["in"]}`; got != want {
			t.Errorf("checkpoint itself holds %s, want %s", got, want)
		}
		before := kitHistory(t, thread())

		// It fails again and then succeeds; one does not run again.
		w.fail("two", errKit)
		if _, err := thread().Continue(t.Context()); !errors.Is(err, errKit) {
			t.Fatalf("continue: %v", err)
		}
		kitRan(t, w, "two")
		w.fail("two", nil)
		kitContinue(t, thread(), "in", "one", "two")
		kitRan(t, w, "two")
		kitContinue(t, thread(), "in", "one", "two")
		kitRan(t, w) // nothing was left
		kitWantLines(t, kitAppended(t, thread(), before[1:])[:1], `1 loop {"log":["in","one","two"]} []`)
	})
}

func kitTasks(s *treadle.Snapshot) string {
	var out []string
	for _, t := range s.Tasks {
		out = append(out, fmt.Sprintf("%s: result %s, error %q", t.Name, t.Result, t.Error))
	}
	return strings.Join(out, "; ")
}

func stateFailure(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	kitBothWays(t, func(*testing.T) checkpoint.Saver { return saver }, kitChain("a"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		if err := saver.DeleteThread(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		kitRun(t, thread(), kitState{N: 2}, "a")
		w.fail("a", errKit)
		out, err := thread().Run(t.Context(), kitState{N: 3})
		if !errors.Is(err, errKit) {
			t.Fatalf("run: %v", err)
		}
		if out.N != 3 {
			t.Errorf("output so far has n=%d, want the input's 3", out.N)
		}
		cp, err := saver.Get(t.Context(), checkpoint.Key{Thread: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if len(cp.Pending) != 1 || cp.Pending[0].Kind != checkpoint.Failed {
			t.Fatalf("pending writes: %+v, want one error", cp.Pending)
		}
		var stored struct{ Node, Type, Message string }
		if err := json.Unmarshal(cp.Pending[0].Data, &stored); err != nil || stored.Node != "a" || !strings.Contains(stored.Message, errKit.Error()) {
			t.Errorf("stored error: %s", cp.Pending[0].Data)
		}
		w.fail("a", nil)
		kitContinue(t, thread(), "a", "a")
		// Threads are independent of each other.
		if _, err := saver.Get(t.Context(), checkpoint.Key{Thread: "other"}); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("another thread: %v, want ErrNotFound", err)
		}
	})
}

func stateNewInput(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	n := 0
	fresh := func(t *testing.T) checkpoint.Saver {
		n++
		if n > 1 {
			if err := saver.DeleteThread(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
		}
		return saver
	}
	kitBothWays(t, fresh, kitChain("a", "b"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		w.fail("b", errKit)
		if _, err := thread().Run(t.Context(), kitState{N: 1}); !errors.Is(err, errKit) {
			t.Fatalf("run: %v", err)
		}
		w.fail("b", nil)
		w.ran()
		kitRun(t, thread(), kitState{N: 2}, "a", "a", "b")
		kitRan(t, w, "a", "b")
		snaps := kitHistory(t, thread())
		kitWantLines(t, snaps,
			`5 loop {"n":2,"log":["a","a","b"]} []`,
			`4 loop {"n":2,"log":["a","a"]} [b]`,
			`3 loop {"n":2,"log":["a"]} [a]`,
			`2 input {"n":1,"log":["a"]} [__start__]`,
			`1 loop {"n":1,"log":["a"]} [b]`,
			`0 loop {"n":1,"log":[]} [a]`,
			`-1 input {"log":[]} [__start__]`,
		)
	})
}

func stateStepLimit(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b", "c", "d", "e", "f"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		_, err := thread(treadle.StepLimit(2)).Run(t.Context(), kitState{})
		limit, ok := errors.AsType[*treadle.StepLimitError](err)
		if !ok || limit.Limit != 2 || !slices.Equal(limit.Next, []string{"c"}) {
			t.Fatalf("run: %v, want the limit of 2 before c", err)
		}
		kitRan(t, w, "a", "b")
		if got, want := kitLine(kitStateOf(t, thread())), `2 loop {"log":["a","b"]} [c]`; got != want {
			t.Errorf("state %s, want %s", got, want)
		}
		if _, err := thread(treadle.StepLimit(1)).Continue(t.Context()); !errors.As(err, &limit) {
			t.Fatalf("continue with a limit of 1: %v", err)
		}
		kitRan(t, w, "c", "d", "e") // the two steps that an input would have taken are free, as in LangGraph
		kitContinue(t, thread(), "a", "b", "c", "d", "e", "f")
		kitRan(t, w, "f")
	})
}

func stateDelete(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	w := &kitWorld{}
	g := kitChain("a")(t, w, saver)
	other := kitChain("a")(t, w, saver)
	kitRun(t, g.Thread("t"), kitState{N: 1}, "a")
	kitRun(t, g.Thread("t"), kitState{}, "a", "a")
	kitRun(t, other.Thread("t"), kitState{}, "a", "a", "a")
	if err := saver.DeleteThread(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if h := kitHistory(t, g.Thread("t")); len(h) != 0 {
		t.Errorf("deleted thread has the history %v", kitLines(h))
	}
	// Both graphs have cached the thread; neither may restore it.
	kitRun(t, g.Thread("t"), kitState{}, "a")
	kitRun(t, other.Thread("t"), kitState{}, "a", "a")
	kitWantLines(t, kitHistory(t, g.Thread("t")),
		`4 loop {"log":["a","a"]} []`, `3 loop {"log":["a"]} [a]`, `2 input {"log":["a"]} [__start__]`,
		`1 loop {"log":["a"]} []`, `0 loop {"log":[]} [a]`, `-1 input {"log":[]} [__start__]`)
}

// stateForgetful drops pending writes and metadata, like a saver that has none.
type stateForgetful struct{ checkpoint.Saver }

func (s stateForgetful) Get(ctx context.Context, key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	cp, err := s.Saver.Get(ctx, key)
	if cp != nil {
		cp.Pending, cp.Metadata = nil, nil
	}
	return cp, err
}

func stateNilPending(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, func(t *testing.T) checkpoint.Saver { return stateForgetful{open(t)} }, kitPair("one", "two"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		w.fail("two", errKit)
		if _, err := thread(treadle.MaxConcurrency(1)).Run(t.Context(), kitState{}); !errors.Is(err, errKit) {
			t.Fatal(err)
		}
		w.fail("two", nil)
		w.ran()
		kitContinue(t, thread(), "one", "two")
		kitRan(t, w, "one", "two") // no result of one was saved
	})
}
