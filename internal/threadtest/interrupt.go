package threadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Interrupts is the suite of questions that nodes ask and of breakpoints.
func Interrupts(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, s := range []struct {
		name string
		test func(*testing.T, func(*testing.T) checkpoint.Saver)
	}{
		{"AskAndAnswer", interruptAsk},
		{"AnswersAreCheckedBeforeAnythingRuns", interruptChecked},
		{"NeedsSaverAndThread", interruptNeeds},
		{"SeveralByOrder", interruptSeveral},
		{"SeveralByKey", interruptKeys},
		{"NullIsAnAnswer", interruptNull},
		{"UntilTheAnswerIsValid", interruptLoopInNode},
		{"InALoop", interruptLoop},
		{"Parallel", interruptParallel},
		{"ParallelTwiceEach", interruptParallelDouble},
		{"SiblingIsNotCancelled", interruptSibling},
		{"SiblingFails", interruptSiblingFails},
		{"NodesBefore", interruptNodesBefore},
		{"InsideCalls", interruptCalls},
		{"ThreeLevelsDown", interruptDeep},
		{"TwiceInACalledGraph", interruptCalledGraph},
		{"SentToGraphs", interruptSends},
		{"SendsThatFinishedAreKept", interruptSendDedupe},
		{"Swallowed", interruptSwallowed},
		{"QuestionChanged", interruptChanged},
		{"Events", interruptEvents},
		{"ResumeWithUpdate", interruptAlso},
		{"ResumeWithGoto", interruptGoto},
		{"CommandsInJSON", interruptCommandJSON},
		{"NewInputAbandons", interruptNewInput},
		{"UpdateClears", interruptUpdateClears},
		{"ErrorHandlers", interruptHandlers},
		{"Retry", interruptRetry},
		{"EffectsRunOnce", interruptEffects},
		{"Cancelled", interruptCancelled},
		{"TimedNodes", interruptTimed},
		{"Identity", interruptIdentity},
	} {
		t.Run(s.name, func(t *testing.T) { s.test(t, open) })
	}
}

type opener = func(t *testing.T) checkpoint.Saver

// askChain is a graph of the nodes in a row.
func askChain(nodes ...func(*treadle.Builder[askState], *askTally) string) askBuild[askState, askState] {
	return func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		b := treadle.New[askState]("asks")
		last := treadle.Start
		for _, add := range nodes {
			name := add(b, c)
			b.Edge(last, name)
			last = name
		}
		return b.Compile(&treadle.Options{Saver: saver, Logger: slog.New(slog.DiscardHandler)})
	}
}

// askFan is a graph of the nodes side by side.
func askFan(nodes ...func(*treadle.Builder[askState], *askTally) string) askBuild[askState, askState] {
	return func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		b := treadle.New[askState]("asks")
		for _, add := range nodes {
			b.Edge(treadle.Start, add(b, c))
		}
		return b.Compile(&treadle.Options{Saver: saver, Logger: slog.New(slog.DiscardHandler)})
	}
}

func asking(name string) func(*treadle.Builder[askState], *askTally) string {
	return func(b *treadle.Builder[askState], c *askTally) string {
		treadle.AddNode(b, name, askNode(c, name))
		return name
	}
}

func plain(name string) func(*treadle.Builder[askState], *askTally) string {
	return func(b *treadle.Builder[askState], c *askTally) string {
		treadle.AddNode(b, name, askPlain(c, name))
		return name
	}
}

func doing[Out any](name string, fn func(c *askTally, ctx context.Context, s askState) (Out, error), opts ...treadle.NodeOption) func(*treadle.Builder[askState], *askTally) string {
	return func(b *treadle.Builder[askState], c *askTally) string {
		treadle.AddNode(b, name, func(ctx context.Context, s askState) (Out, error) { return fn(c, ctx, s) }, opts...)
		return name
	}
}

func interruptAsk(t *testing.T, open opener) {
	type review struct {
		Draft string `json:"draft"`
		Words int    `json:"words"`
	}
	build := askChain(plain("draft"), doing("review", func(c *askTally, ctx context.Context, s askState) (askLog, error) {
		c.add("review")
		ok, err := treadle.Interrupt[bool](ctx, review{Draft: s.Log[0], Words: 7})
		if err != nil {
			return askLog{}, err
		}
		return askSay(fmt.Sprintf("approved: %v", ok)), nil
	}), plain("send"))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		out, err := rig.thread().Run(t.Context(), askState{Note: "n"})
		p, ok := errors.AsType[*treadle.InterruptError](err)
		if !ok || len(p.Pauses) != 1 || p.Graph != "asks" || p.Before != nil || p.After != nil {
			t.Fatalf("the run ended with %v, want one question", err)
		}
		if !slices.Equal(out.Log, []string{"draft"}) || out.Note != "n" {
			t.Errorf("state so far %+v", out)
		}
		pause := p.Pauses[0]
		var q review
		if err := pause.Decode(&q); err != nil || q != (review{"draft", 7}) {
			t.Errorf("question %+v, %v", q, err)
		}
		if pause.Node != "review" || len(pause.Namespace) > 0 || len(pause.ID) != 32 || pause.Key != "" {
			t.Errorf("pause %+v", pause)
		}
		rig.tally.want(t, "draft", "review")
		snap := askNext(t, rig, "review")
		if diff := cmp.Diff([]treadle.Pause{pause}, snap.Pauses); diff != "" {
			t.Errorf("the state's questions (-error +state):\n%s", diff)
		}
		if len(snap.Tasks) != 1 || !cmp.Equal(snap.Tasks[0].Pauses, snap.Pauses) {
			t.Errorf("tasks %+v", snap.Tasks)
		}

		// Going on without an answer asks the same thing again.
		_, err = rig.thread().Continue(t.Context())
		again, ok := errors.AsType[*treadle.InterruptError](err)
		if !ok || !cmp.Equal(again.Pauses, p.Pauses) {
			t.Fatalf("asked again: %v, want %v", err, p)
		}
		rig.tally.want(t, "review")

		out, err = rig.thread().Resume(t.Context(), true)
		askEnded(t, out, err, "draft", "approved: true", "send")
		rig.tally.want(t, "review", "send")
		if snap := askNext(t, rig); len(snap.Pauses) > 0 {
			t.Errorf("questions of a run that has ended: %v", snap.Pauses)
		}
		for snap, err := range rig.thread().History(t.Context()) {
			if err != nil || len(snap.Pauses) > 0 {
				t.Errorf("step %d has open questions %v, %v", snap.Step, snap.Pauses, err)
			}
		}

		// A question of the next turn is another one.
		_, err = rig.thread().Run(t.Context(), askState{})
		next, ok := errors.AsType[*treadle.InterruptError](err)
		if !ok || len(next.Pauses) != 1 || next.Pauses[0].ID == pause.ID {
			t.Errorf("the second turn asks %v, want an id of its own", err)
		}
	})
}

func interruptChecked(t *testing.T, open opener) {
	type vote struct {
		Yes   bool `json:"yes"`
		Count int  `json:"count"`
	}
	node := func(name string) func(*treadle.Builder[askState], *askTally) string {
		return doing(name, func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
			c.add(name)
			v, err := treadle.Interrupt[vote](ctx, name)
			if err != nil {
				return askLog{}, err
			}
			return askSay(fmt.Sprintf("%s %v %d", name, v.Yes, v.Count)), nil
		})
	}
	askBothWays(t, open, askFan(node("a"), node("b")), func(t *testing.T, rig *askRig[askState, askState]) {
		askUnchanged(t, rig.saver, "resuming a thread that does not exist", func() {
			if _, err := rig.thread().Resume(t.Context(), 1); !errors.Is(err, treadle.ErrNothingToResume) {
				t.Errorf("%v, want ErrNothingToResume", err)
			}
		})
		_, err := rig.thread().Run(t.Context(), askState{})
		ps := askedStrings(t, err, "a", "b")
		if ps[0].ID == ps[1].ID {
			t.Error("two questions have one id")
		}
		rig.tally.want(t, "a", "b")
		unknown := strings.Repeat("0", 32)
		good := vote{true, 2}
		for _, c := range []struct {
			name   string
			answer any
			want   error
		}{
			{"one answer for two questions", good, treadle.ErrAmbiguousResume},
			{"an unknown id", treadle.Answers{unknown: good}, treadle.ErrUnknownPause},
			{"an unknown id beside a known one", treadle.Answers{ps[0].ID: good, unknown: good}, treadle.ErrUnknownPause},
			{"another type", treadle.Answers{ps[0].ID: "yes"}, nil},
			{"null", treadle.Answers{ps[0].ID: nil}, nil},
			{"a field of another type", treadle.Answers{ps[0].ID: map[string]any{"yes": true, "count": "two"}}, nil},
			{"a missing field", treadle.Answers{ps[0].ID: map[string]any{"yes": true}}, nil},
			{"an unknown field", treadle.Answers{ps[0].ID: map[string]any{"yes": true, "count": 1, "why": "x"}}, nil},
			{"one good, one bad", treadle.Answers{ps[0].ID: good, ps[1].ID: 3}, nil},
			{"no JSON", treadle.Answers{ps[0].ID: func() {}}, new(json.UnsupportedTypeError)},
		} {
			askUnchanged(t, rig.saver, c.name, func() {
				_, err := rig.thread().Resume(t.Context(), c.answer, treadle.Also(askNote{"no"}))
				switch want := c.want.(type) {
				case nil:
					bad, ok := errors.AsType[*treadle.AnswerError](err)
					if !ok || !slices.ContainsFunc(ps, func(p treadle.Pause) bool { return p.ID == bad.Pause.ID }) || bad.Err == nil {
						t.Errorf("%s: %v, want an AnswerError that names the question", c.name, err)
					}
				case *json.UnsupportedTypeError:
					if !errors.As(err, &want) {
						t.Errorf("%s: %v, want %T", c.name, err, want)
					}
				default:
					if !errors.Is(err, c.want) {
						t.Errorf("%s: %v, want %v", c.name, err, c.want)
					}
				}
			})
			for ev, err := range rig.thread().ResumeStream(t.Context(), c.answer) {
				if err == nil {
					t.Errorf("%s: a stream shows %T of a run that may not begin", c.name, ev)
				}
			}
		}
		// An update that does not fit is refused together with good answers.
		askUnchanged(t, rig.saver, "a bad update", func() {
			if _, err := rig.thread().Resume(t.Context(), treadle.Answers{ps[0].ID: good}, treadle.Also(treadle.Update{"nope": 1})); err == nil {
				t.Error("an update of an unknown field is accepted")
			} else if u, ok := errors.AsType[*treadle.UpdateError](err); !ok || u.Field != "nope" {
				t.Errorf("%v, want an UpdateError of nope", err)
			}
			_, err := rig.thread().Resume(t.Context(), treadle.Answers{ps[0].ID: good}, treadle.Also(treadle.Command[askNote]{Goto: treadle.To("nowhere")}))
			if to, ok := errors.AsType[*treadle.GotoError](err); !ok || to.To != "nowhere" {
				t.Errorf("%v, want a GotoError", err)
			}
		})
		rig.tally.want(t) // nothing ran
		out, err := rig.thread().Resume(t.Context(), treadle.Answers{ps[0].ID: good, ps[1].ID: map[string]any{"yes": false, "count": 0}})
		askEnded(t, out, err, "a true 2", "b false 0")
		askUnchanged(t, rig.saver, "resuming a run that has ended", func() {
			if _, err := rig.thread().Resume(t.Context(), good); !errors.Is(err, treadle.ErrNothingToResume) {
				t.Errorf("%v, want ErrNothingToResume", err)
			}
			if _, err := rig.thread().Resume(t.Context(), treadle.Answers{ps[0].ID: good}); !errors.Is(err, treadle.ErrNothingToResume) {
				t.Errorf("%v, want ErrNothingToResume", err)
			}
		})
	})
}

func interruptNeeds(t *testing.T, open opener) {
	build := askChain(asking("a"))
	saver, c := open(t), &askTally{}
	bare, err := build(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := build(saver, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	run := func(_ askState, err error) error { return err }
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"run without a saver", run(bare.Run(ctx, askState{})), treadle.ErrNoSaver},
		{"thread without a saver", run(bare.Thread("t").Run(ctx, askState{})), treadle.ErrNoSaver},
		{"resume without a saver", run(bare.Thread("t").Resume(ctx, "x")), treadle.ErrNoSaver},
		{"continue without a saver", run(bare.Thread("t").Continue(ctx)), treadle.ErrNoSaver},
		{"run without a thread", run(stored.Run(ctx, askState{})), treadle.ErrNoThread},
		{"a thread without an id", run(stored.Thread("").Run(ctx, askState{})), treadle.ErrNoThread},
		{"resume without an id", run(stored.Thread("").Resume(ctx, "x")), treadle.ErrNoThread},
		{"breakpoint without a saver", run(bare.With(treadle.Before("a")).Run(ctx, askState{})), treadle.ErrNoSaver},
		{"breakpoint without a thread", run(stored.With(treadle.After("*")).Run(ctx, askState{})), treadle.ErrNoThread},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
		}
	}
	c.want(t, "a", "a") // the two runs that found out by asking
	if _, err := treadle.Interrupt[string](ctx, "hello?"); !errors.Is(err, treadle.ErrOutsideRun) {
		t.Errorf("asked outside a run: %v, want ErrOutsideRun", err)
	}
	if d := askDump(t, saver); d != "" {
		t.Errorf("something was stored: %s", d)
	}
	// A nested graph that is not stored cannot be interrupted.
	child, err := build(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	b := treadle.New[askState]("outer")
	treadle.AddGraph(b, "child", child, treadle.NoCheckpoints())
	b.Edge(treadle.Start, "child")
	outer, err := b.Compile(&treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := outer.Thread("t").Run(ctx, askState{}); !errors.Is(err, treadle.ErrNoSaver) {
		t.Errorf("asked in a graph that is not stored: %v, want ErrNoSaver", err)
	}
}

func interruptSeveral(t *testing.T, open opener) {
	build := askChain(doing("poll", func(c *askTally, ctx context.Context, s askState) (askLog, error) {
		c.add("poll")
		if s.Note == "seen" || len(s.Log) > 0 {
			return askLog{}, fmt.Errorf("the node sees %+v, which nobody has written", s)
		}
		var log askLog
		for _, q := range []string{"first", "second", "third"} {
			a, err := treadle.Interrupt[string](ctx, q)
			if err != nil {
				return askSay("lost"), err
			}
			log.Log = append(log.Log, q+"="+a)
		}
		return log, nil
	}))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		ids := map[string]bool{}
		for i, q := range []string{"first", "second", "third"} {
			p := askedStrings(t, err, q)[0]
			if ids[p.ID] {
				t.Errorf("%s has the id of another question", q)
			}
			ids[p.ID] = true
			rig.tally.want(t, "poll")
			if snap := askNext(t, rig, "poll"); len(snap.Pauses) != 1 || snap.Pauses[0].ID != p.ID || snap.Values.Has("log") && snap.Values.String() != `{"log":[]}` {
				t.Errorf("before the answer to %s: questions %v, values %s", q, snap.Pauses, snap.Values)
			}
			if i == 2 {
				break
			}
			var answer any = q[:1]
			if i == 1 {
				answer = treadle.Answers{p.ID: q[:1]} // by id is the same
			}
			_, err = rig.thread().Resume(t.Context(), answer)
		}
		out, err := rig.thread().Resume(t.Context(), "t")
		askEnded(t, out, err, "first=f", "second=s", "third=t")
		rig.tally.want(t, "poll")
	})
}

func interruptKeys(t *testing.T, open opener) {
	// Which questions come, and in which order, differs between the runs of the
	// node; each answer still finds its question.
	asks := [][]string{{"name"}, {"age", "name"}, {"name", "mail", "age"}, {"mail", "age", "name"}}
	run := 0
	build := askChain(doing("form", func(_ *askTally, ctx context.Context, _ askState) (askLog, error) {
		var log askLog
		for _, q := range asks[run] {
			a, err := treadle.Interrupt[string](ctx, "your "+q, treadle.Key(q))
			if err != nil {
				return askLog{}, err
			}
			log.Log = append(log.Log, q+"="+a)
		}
		return log, nil
	}))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		run = 0
		_, err := rig.thread().Run(t.Context(), askState{})
		for _, q := range []string{"name", "age", "mail"} {
			if p := askedStrings(t, err, "your "+q)[0]; p.Key != q {
				t.Errorf("key %q, want %q", p.Key, q)
			}
			run++
			_, err = rig.thread().Resume(t.Context(), "the "+q)
		}
		if err != nil {
			t.Fatal(err)
		}
		snap := askNext(t, rig)
		if got := snap.Values.String(); got != `{"log":["mail=the mail","age=the age","name=the name"]}` {
			t.Errorf("values %s", got)
		}
	})
	t.Run("a key is no place in the order", func(t *testing.T) {
		build := askChain(doing("form", func(_ *askTally, ctx context.Context, _ askState) (askLog, error) {
			a, err := treadle.Interrupt[string](ctx, "by order")
			if err != nil {
				return askLog{}, err
			}
			b, err := treadle.Interrupt[string](ctx, "by key", treadle.Key("#0"))
			if err != nil {
				return askLog{}, err
			}
			return askSay(a, b), nil
		}))
		rig := &askRig[askState, askState]{t: t, saver: open(t), tally: &askTally{}, build: build}
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "by order")
		_, err = rig.thread().Resume(t.Context(), "A")
		askedStrings(t, err, "by key")
		out, err := rig.thread().Resume(t.Context(), "B")
		askEnded(t, out, err, "A", "B")
	})
}

func interruptNull(t *testing.T, open opener) {
	build := askChain(doing("n", func(_ *askTally, ctx context.Context, _ askState) (askLog, error) {
		var log askLog
		for i := range 5 {
			a, err := treadle.Interrupt[any](ctx, i)
			if err != nil {
				return askLog{}, err
			}
			raw, err := json.Marshal(a)
			if err != nil {
				return askLog{}, err
			}
			log.Log = append(log.Log, string(raw))
		}
		return log, nil
	}))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		for _, answer := range []any{nil, false, 0, ""} {
			if _, ok := errors.AsType[*treadle.InterruptError](err); !ok {
				t.Fatal(err)
			}
			_, err = rig.thread().Resume(t.Context(), answer)
		}
		// An object is one answer, whatever its keys; only Answers go by id.
		out, err := rig.thread().Resume(t.Context(), map[string]int{strings.Repeat("a", 32): 1})
		askEnded(t, out, err, "null", "false", "0", `""`, `{"`+strings.Repeat("a", 32)+`":1}`)
	})
}

func interruptLoopInNode(t *testing.T, open opener) {
	build := askChain(doing("age", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
		c.add("age")
		question := "age?"
		for {
			a, err := treadle.Interrupt[any](ctx, question)
			if err != nil {
				return askLog{}, err
			}
			if n, ok := a.(float64); ok && n > 0 {
				return askSay(fmt.Sprint("age ", n)), nil
			}
			question = fmt.Sprintf("%v is no age", a)
		}
	}))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "age?")
		_, err = rig.thread().Resume(t.Context(), "old")
		askedStrings(t, err, "old is no age")
		_, err = rig.thread().Resume(t.Context(), -1)
		askedStrings(t, err, "-1 is no age")
		out, err := rig.thread().Resume(t.Context(), 7)
		askEnded(t, out, err, "age 7")
		rig.tally.want(t, "age", "age", "age", "age")
	})
}

func interruptLoop(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		b := treadle.New[askState]("loop")
		treadle.AddNode(b, "ask", func(ctx context.Context, s askState) (askLog, error) {
			c.add("ask")
			a, err := treadle.Interrupt[string](ctx, fmt.Sprintf("round %d", len(s.Log)))
			return askSay(a), err
		})
		b.Edge(treadle.Start, "ask")
		b.Branch("ask", func(_ context.Context, s askState) (treadle.Goto, error) {
			if s.Log[len(s.Log)-1] == "stop" {
				return treadle.To(treadle.End), nil
			}
			return treadle.To("ask"), nil
		}, "ask", treadle.End)
		return b.Compile(&treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		seen := map[string]bool{}
		for i, a := range []string{"a", "b", "c"} {
			p := askedStrings(t, err, fmt.Sprintf("round %d", i))[0]
			if seen[p.ID] {
				t.Error("a round has the id of an earlier one")
			}
			seen[p.ID] = true
			_, err = rig.thread().Resume(t.Context(), a)
		}
		askedStrings(t, err, "round 3")
		out, err := rig.thread().Resume(t.Context(), "stop")
		askEnded(t, out, err, "a", "b", "c", "stop")
		rig.tally.want(t, "ask", "ask", "ask", "ask", "ask", "ask", "ask", "ask")
	})
}

func interruptParallel(t *testing.T, open opener) {
	askBothWays(t, open, askFan(asking("a"), asking("b"), asking("c"), plain("d")), func(t *testing.T, rig *askRig[askState, askState]) {
		out, err := rig.thread().Run(t.Context(), askState{})
		ps := askedStrings(t, err, "a?", "b?", "c?")
		if !slices.Equal(out.Log, []string{"d"}) {
			t.Errorf("what finished is %q, want d", out.Log)
		}
		rig.tally.want(t, "a", "b", "c", "d")
		if snap := askNext(t, rig, "a", "b", "c"); snap.Values.String() != `{"log":["d"]}` {
			t.Errorf("values %s", snap.Values)
		}
		askUnchanged(t, rig.saver, "an ambiguous answer", func() {
			if _, err := rig.thread().Resume(t.Context(), "x"); !errors.Is(err, treadle.ErrAmbiguousResume) {
				t.Errorf("%v, want ErrAmbiguousResume", err)
			}
		})
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{ps[1].ID: "B"})
		askedStrings(t, err, "a?", "c?")
		rig.tally.want(t, "a", "b", "c")
		snap := askNext(t, rig, "a", "c")
		askQuestions(t, snap.Pauses, "a?", "c?")
		if snap.Values.String() != `{"log":["b=B","d"]}` {
			t.Errorf("values %s", snap.Values)
		}
		// An answered question is closed.
		askUnchanged(t, rig.saver, "a second answer", func() {
			if _, err := rig.thread().Resume(t.Context(), treadle.Answers{ps[1].ID: "again"}); !errors.Is(err, treadle.ErrUnknownPause) {
				t.Errorf("%v, want ErrUnknownPause", err)
			}
		})
		// No answers at all: they are asked again.
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{})
		askedStrings(t, err, "a?", "c?")
		rig.tally.want(t, "a", "c")
		var lines []string
		for ev, err := range rig.thread().ResumeStream(t.Context(), treadle.Answers{ps[2].ID: "C"}) {
			if err != nil {
				askedStrings(t, err, "a?")
				continue
			}
			lines = append(lines, askLine(ev))
		}
		slices.Sort(lines)
		if diff := cmp.Diff([]string{
			`interrupted a "a?" before [] after []`,
			`update b {"log":["b=B"]} cached`,
			`update c {"log":["c=C"]}`,
			`update d {"log":["d"]} cached`,
		}, lines); diff != "" {
			t.Errorf("stream (-want +got):\n%s", diff)
		}
		rig.tally.want(t, "a", "c")
		out, err = rig.thread().Resume(t.Context(), "A") // one is left, so a plain answer will do
		askEnded(t, out, err, "a=A", "b=B", "c=C", "d")
		rig.tally.want(t, "a")
	})
}

func interruptParallelDouble(t *testing.T, open opener) {
	twice := func(name string) func(*treadle.Builder[askState], *askTally) string {
		return doing(name, func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
			c.add(name)
			one, err := treadle.Interrupt[string](ctx, name+"1")
			if err != nil {
				return askLog{}, err
			}
			two, err := treadle.Interrupt[string](ctx, name+"2")
			if err != nil {
				return askLog{}, err
			}
			return askSay(name + one + two), nil
		})
	}
	askBothWays(t, open, askFan(twice("a"), twice("b")), func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		ps := askedStrings(t, err, "a1", "b1")
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{ps[0].ID: "x"})
		ps = askedStrings(t, err, "a2", "b1")
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{ps[1].ID: "y"})
		ps = askedStrings(t, err, "a2", "b2")
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{ps[1].ID: "z"})
		askedStrings(t, err, "a2")
		out, err := rig.thread().Resume(t.Context(), "w")
		askEnded(t, out, err, "axw", "byz")
		rig.tally.want(t, "a", "b", "a", "b", "a", "b", "a", "b", "a")
	})
}

func interruptSibling(t *testing.T, open opener) {
	asked := make(chan struct{}, 10)
	build := askFan(doing("asks", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
		c.add("asks")
		a, err := treadle.Interrupt[string](ctx, "go?")
		asked <- struct{}{}
		return askSay(a), err
	}), doing("works", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
		c.add("works")
		<-asked // the question is there and this one goes on
		return askSay("worked"), ctx.Err()
	}))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		out, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "go?")
		if !slices.Equal(out.Log, []string{"worked"}) {
			t.Errorf("log %q", out.Log)
		}
		out, err = rig.thread().Resume(t.Context(), "yes")
		askEnded(t, out, err, "yes", "worked")
		rig.tally.want(t, "asks", "works", "asks")
		<-asked
	})
}

func interruptSiblingFails(t *testing.T, open opener) {
	errBoom := errors.New("boom")
	broken := true
	build := askFan(asking("a"), doing("b", func(c *askTally, _ context.Context, _ askState) (askLog, error) {
		c.add("b")
		if broken {
			return askLog{}, errBoom
		}
		return askSay("b"), nil
	}))
	// One at a time, so that a has asked when b fails.
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		broken = true
		_, err := rig.thread(treadle.MaxConcurrency(1)).Run(t.Context(), askState{})
		if !errors.Is(err, errBoom) {
			t.Fatalf("%v, want the failure", err)
		}
		if _, ok := errors.AsType[*treadle.InterruptError](err); ok {
			t.Errorf("the failure also is a pause: %v", err)
		}
		snap := askNext(t, rig, "a", "b")
		askQuestions(t, snap.Pauses, "a?")
		rig.tally.want(t, "a", "b")
		// The question can be answered all the same; the answer is kept while b
		// goes on failing.
		_, err = rig.thread(treadle.MaxConcurrency(1)).Resume(t.Context(), "A")
		if !errors.Is(err, errBoom) {
			t.Fatalf("%v, want the failure", err)
		}
		rig.tally.want(t, "a", "b")
		snap = askNext(t, rig, "b")
		askQuestions(t, snap.Pauses)
		broken = false
		out, err := rig.thread().Continue(t.Context())
		askEnded(t, out, err, "a=A", "b")
		rig.tally.want(t, "b")
	})
}

func interruptNodesBefore(t *testing.T, open opener) {
	askBothWays(t, open, askChain(plain("one"), plain("two"), asking("ask"), plain("three"), asking("again")), func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "ask?")
		rig.tally.want(t, "one", "two", "ask")
		_, err = rig.thread().Resume(t.Context(), "x")
		askedStrings(t, err, "again?")
		rig.tally.want(t, "ask", "three", "again")
		out, err := rig.thread().Resume(t.Context(), "y")
		askEnded(t, out, err, "one", "two", "ask=x", "three", "again=y")
		rig.tally.want(t, "again")
	})
}

// A question deep in the functions that a node calls, as a tool of an agent
// asks it: some of them run as tasks.
func interruptCalls(t *testing.T, open opener) {
	tool := func(c *askTally, name string) *treadle.Task[string, string] {
		return treadle.NewTask(name, func(ctx context.Context, arg string) (string, error) {
			c.add(name)
			if name == "safe" {
				return "did " + arg, nil
			}
			ok, err := treadle.Interrupt[bool](ctx, name+" "+arg)
			if err != nil {
				return "", fmt.Errorf("tool %s: %w", name, err) // wrapped on the way up
			}
			return fmt.Sprintf("%s %s: %v", name, arg, ok), nil
		})
	}
	build := askChain(doing("tools", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
		c.add("tools")
		calls := []*treadle.Future[string]{tool(c, "safe").Go(ctx, "look"), tool(c, "pay").Go(ctx, "5"), tool(c, "mail").Go(ctx, "bob")}
		var log askLog
		var errs []error
		for _, f := range calls {
			s, err := f.Wait()
			log.Log = append(log.Log, s)
			errs = append(errs, err)
		}
		return log, errors.Join(errs...)
	}))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		ids := askedAny(t, err, "pay 5", "mail bob")
		rig.tally.want(t, "tools", "safe", "pay", "mail")
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{ids["mail bob"]: false})
		askedStrings(t, err, "pay 5")
		rig.tally.want(t, "tools", "pay", "mail")
		out, err := rig.thread().Resume(t.Context(), true)
		askEnded(t, out, err, "did look", "pay 5: true", "mail bob: false")
		rig.tally.want(t, "tools", "pay")
	})
}

// askNest puts a graph into graphs of their own, depth levels down.
func askNest(b *treadle.Builder[askState], c *askTally, depth int) (*treadle.Graph[askState, askState], error) {
	g, err := b.Compile(nil)
	for i := range depth {
		if err != nil {
			return nil, err
		}
		up := treadle.New[askState](fmt.Sprintf("level%d", i))
		treadle.AddNode(up, "pre", askPlain(c, fmt.Sprintf("pre%d", i)))
		treadle.AddGraph(up, "in", g)
		b := up
		b.Edge(treadle.Start, "pre")
		b.Edge("pre", "in")
		g, err = b.Compile(nil)
	}
	return g, err
}

func interruptDeep(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		leaf := treadle.New[askState]("leaf")
		treadle.AddNode(leaf, "left", askNode(c, "left"))
		treadle.AddNode(leaf, "right", askNode(c, "right"))
		treadle.AddNode(leaf, "free", askPlain(c, "free"))
		treadle.AddNode(leaf, "last", askNode(c, "last"))
		for _, n := range []string{"left", "right", "free"} {
			leaf.Edge(treadle.Start, n)
		}
		leaf.Join([]string{"left", "right", "free"}, "last")
		inner, err := askNest(leaf, c, 2)
		if err != nil {
			return nil, err
		}
		root := treadle.New[askState]("root")
		treadle.AddGraph(root, "sub", inner)
		treadle.AddNode(root, "beside", askNode(c, "beside"))
		root.Edge(treadle.Start, "sub")
		root.Edge(treadle.Start, "beside")
		return root.Compile(&treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		ps := askedStrings(t, err, "beside?", "left?", "right?")
		rig.tally.want(t, "pre0", "pre1", "left", "right", "free", "beside")
		if len(ps[0].Namespace) != 0 || len(ps[1].Namespace) != 3 || !slices.Equal(ps[1].Namespace, ps[2].Namespace) {
			t.Errorf("namespaces %q, %q, %q", ps[0].Namespace, ps[1].Namespace, ps[2].Namespace)
		}
		// The state shows the nested graphs with their questions.
		snap := askNext(t, rig, "beside", "sub")
		askQuestions(t, snap.Pauses, "beside?", "left?", "right?")
		sub := snap.Tasks[1]
		for range 2 {
			if sub.Graph == nil || !slices.Equal(sub.Graph.Next, []string{"in"}) {
				t.Fatalf("the state of %q is %+v", sub.Name, sub.Graph)
			}
			sub = sub.Graph.Tasks[0]
		}
		if sub.Graph == nil || !slices.Equal(sub.Graph.Next, []string{"left", "right"}) || !slices.Equal(sub.Graph.Namespace, ps[1].Namespace) {
			t.Fatalf("the state of the leaf is %+v", sub.Graph)
		}
		askQuestions(t, sub.Graph.Pauses, "left?", "right?")

		// What finished down there does not run again, and answers come one by one.
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{ps[2].ID: "R"})
		ps = askedStrings(t, err, "beside?", "left?")
		rig.tally.want(t, "left", "right", "beside")
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{ps[0].ID: "B"})
		askedStrings(t, err, "left?")
		rig.tally.want(t, "left", "beside")
		_, err = rig.thread().Resume(t.Context(), "L")
		askedStrings(t, err, "last?")
		rig.tally.want(t, "left", "last")
		out, err := rig.thread().Resume(t.Context(), "E")
		askEnded(t, out, err, "beside=B", "pre1", "pre0", "free", "left=L", "right=R", "last=E")
		rig.tally.want(t, "last")
	})
}

func interruptCalledGraph(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		inner := treadle.New[askState]("inner")
		treadle.AddNode(inner, "one", askNode(c, "one"))
		treadle.AddNode(inner, "two", askNode(c, "two"))
		inner.Edge(treadle.Start, "one")
		inner.Edge("one", "two")
		g, err := inner.Compile(nil)
		if err != nil {
			return nil, err
		}
		b := treadle.New[askState]("outer")
		treadle.AddNode(b, "call", func(ctx context.Context, _ askState) (askLog, error) {
			c.add("call")
			out, err := g.Run(ctx, askState{Log: treadle.List[string]{"in"}})
			if err != nil {
				return askLog{}, err
			}
			more, err := g.Run(ctx, askState{})
			return askLog{slices.Concat(out.Log, more.Log)}, err
		}, treadle.Uses(g))
		b.Edge(treadle.Start, "call")
		return b.Compile(&treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "one?")
		_, err = rig.thread().Resume(t.Context(), "1")
		askedStrings(t, err, "two?")
		rig.tally.want(t, "call", "one", "call", "one", "two")
		_, err = rig.thread().Resume(t.Context(), "2")
		askedStrings(t, err, "one?") // of the second run of the graph
		rig.tally.want(t, "call", "two", "one")
		_, err = rig.thread().Resume(t.Context(), "3")
		askedStrings(t, err, "two?")
		out, err := rig.thread().Resume(t.Context(), "4")
		askEnded(t, out, err, "in", "one=1", "two=2", "one=3", "two=4")
		rig.tally.want(t, "call", "one", "two", "call", "two")
	})
}

func interruptSends(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		inner := treadle.New[askState]("inner")
		treadle.AddNode(inner, "ask", func(ctx context.Context, s askState) (askLog, error) {
			c.add("ask " + s.Note)
			a, err := treadle.Interrupt[string](ctx, s.Note)
			if err != nil {
				return askLog{}, err
			}
			return askSay(s.Note + a), nil
		})
		inner.Edge(treadle.Start, "ask")
		g, err := inner.Compile(nil)
		if err != nil {
			return nil, err
		}
		b := treadle.New[askState]("outer")
		sub := treadle.AddGraph(b, "sub", g)
		treadle.AddNode(b, "end", askPlain(c, "end"))
		b.Edge("sub", "end")
		b.Branch(treadle.Start, func(context.Context, askState) (treadle.Goto, error) {
			var to treadle.Goto
			for _, n := range []string{"e", "d", "c", "b", "a"} {
				to = append(to, sub.Send(askState{Note: n})...)
			}
			return to, nil
		}, "sub")
		return b.Compile(&treadle.Options{Saver: saver})
	}
	order := []string{"e", "d", "c", "b", "a"}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		ps := askedStrings(t, err, order...)
		rig.tally.want(t, "ask a", "ask b", "ask c", "ask d", "ask e")
		snap := askNext(t, rig, "sub", "sub", "sub", "sub", "sub")
		for i, task := range snap.Tasks {
			if task.Graph == nil || !slices.Equal(task.Graph.Next, []string{"ask"}) || task.Graph.Values.String() != fmt.Sprintf(`{"log":[],"note":%q}`, order[i]) {
				t.Errorf("the graph of send %d is %+v", i, task.Graph)
			}
			askQuestions(t, task.Pauses, order[i])
		}
		all := treadle.Answers{}
		for i, p := range ps {
			all[p.ID] = fmt.Sprint(i)
		}
		out, err := rig.thread().Resume(t.Context(), all)
		askEnded(t, out, err, "e0", "d1", "c2", "b3", "a4", "end")
		rig.tally.want(t, "ask a", "ask b", "ask c", "ask d", "ask e", "end")
	})
}

func interruptSendDedupe(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		b := treadle.New[askState]("sends")
		work := treadle.AddNode(b, "work", func(ctx context.Context, n int) (askLog, error) {
			c.add(fmt.Sprint("work ", n))
			if n == 2 {
				a, err := treadle.Interrupt[string](ctx, "two?")
				return askSay("2" + a), err
			}
			return askSay(fmt.Sprint(n)), nil
		})
		treadle.AddNode(b, "end", askPlain(c, "end"))
		b.Edge("work", "end")
		b.Branch(treadle.Start, func(context.Context, askState) (treadle.Goto, error) {
			return slices.Concat(work.Send(1), work.Send(2), work.Send(3)), nil
		}, "work")
		return b.Compile(&treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "two?")
		rig.tally.want(t, "work 1", "work 2", "work 3")
		askNext(t, rig, "work")
		out, err := rig.thread().Resume(t.Context(), "!")
		askEnded(t, out, err, "1", "2!", "3", "end")
		rig.tally.want(t, "work 2", "end")
		steps := []string{}
		for snap, err := range rig.thread().History(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, fmt.Sprintf("%d %s %v %d", snap.Step, snap.Source, snap.Next, len(snap.Tasks)))
		}
		if diff := cmp.Diff([]string{"2 loop [] 0", "1 loop [end] 1", "0 loop [work work work] 3", "-1 input [__start__] 1"}, steps); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	})
}

func interruptSwallowed(t *testing.T, open opener) {
	task := treadle.NewTask("task", func(ctx context.Context, _ int) (string, error) { return treadle.Interrupt[string](ctx, "in a task") })
	child := func() *treadle.Graph[askState, askState] {
		b := treadle.New[askState]("child")
		treadle.AddNode(b, "n", askNode(&askTally{}, "in a graph"))
		b.Edge(treadle.Start, "n")
		return treadle.Must(b.Compile(nil))
	}()
	errOther := errors.New("other")
	for _, c := range []struct {
		name     string
		question string
		node     func(ctx context.Context) error
	}{
		{"in the node", "q", func(ctx context.Context) error {
			_, _ = treadle.Interrupt[string](ctx, "q") // what is tested
			return nil
		}},
		{"in a task", "in a task", func(ctx context.Context) error {
			_, _ = task.Run(ctx, 1) // what is tested
			return nil
		}},
		{"in a task nobody waits for", "in a task", func(ctx context.Context) error {
			task.Go(ctx, 1)
			return nil
		}},
		{"in a graph", "in a graph?", func(ctx context.Context) error {
			_, _ = child.Run(ctx, askState{}) // what is tested
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			build := askChain(doing("n", func(_ *askTally, ctx context.Context, _ askState) (askLog, error) {
				return askSay("went on"), c.node(ctx)
			}))
			rig := &askRig[askState, askState]{t: t, saver: open(t), tally: &askTally{}, build: build}
			_, err := rig.thread().Run(t.Context(), askState{})
			swallowed, ok := errors.AsType[*treadle.SwallowedInterruptError](err)
			if !ok {
				t.Fatalf("%v, want a SwallowedInterruptError", err)
			}
			askQuestions(t, swallowed.Pauses, c.question)
			if failed, ok := errors.AsType[*treadle.NodeError](err); !ok || failed.Node != "n" {
				t.Errorf("%v does not say which node", err)
			}
			if snap := askNext(t, rig, "n"); len(snap.Pauses) > 0 || snap.Tasks[0].Error == "" {
				t.Errorf("the node waits with %v, failed with %q", snap.Pauses, snap.Tasks[0].Error)
			}
		})
	}
	t.Run("for another error", func(t *testing.T) {
		// A node that fails with an error of its own has failed, it does not wait.
		build := askChain(doing("n", func(_ *askTally, ctx context.Context, _ askState) (askLog, error) {
			_, _ = treadle.Interrupt[string](ctx, "q") // what is tested
			return askLog{}, errOther
		}))
		rig := &askRig[askState, askState]{t: t, saver: open(t), tally: &askTally{}, build: build}
		if _, err := rig.thread().Run(t.Context(), askState{}); !errors.Is(err, errOther) {
			t.Errorf("%v, want the node's own error", err)
		}
		if snap := askNext(t, rig, "n"); len(snap.Pauses) > 0 {
			t.Errorf("a failed node waits with %v", snap.Pauses)
		}
	})
}

func interruptChanged(t *testing.T, open opener) {
	question := ""
	build := func(strict bool, log *bytes.Buffer) askBuild[askState, askState] {
		return func(saver checkpoint.Saver, _ *askTally) (*treadle.Graph[askState, askState], error) {
			b := treadle.New[askState]("changing")
			treadle.AddNode(b, "n", func(ctx context.Context, _ askState) (askLog, error) {
				a, err := treadle.Interrupt[string](ctx, question)
				if err != nil {
					return askLog{}, err
				}
				c, err := treadle.Interrupt[string](ctx, "second")
				return askSay(a, c), err
			})
			b.Edge(treadle.Start, "n")
			return b.Compile(&treadle.Options{Saver: saver, Strict: strict, Logger: slog.New(slog.NewTextHandler(log, nil))})
		}
	}
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprintf("strict %v", strict), func(t *testing.T) {
			var log bytes.Buffer
			askBothWays(t, open, build(strict, &log), func(t *testing.T, rig *askRig[askState, askState]) {
				log.Reset()
				question = "old"
				_, err := rig.thread().Run(t.Context(), askState{})
				askedStrings(t, err, "old")
				_, err = rig.thread().Resume(t.Context(), "A")
				askedStrings(t, err, "second")
				if log.Len() > 0 {
					t.Errorf("logged without a reason: %s", log.String())
				}
				question = "new"
				out, err := rig.thread().Resume(t.Context(), "B")
				if strict {
					changed, ok := errors.AsType[*treadle.InterruptChangedError](err)
					if !ok || changed.Node != "n" || string(changed.Answered) != `"old"` || string(changed.Asked) != `"new"` {
						t.Fatalf("%v, want an InterruptChangedError with both questions", err)
					}
					question = "old" // as before: the answers are still there
					out, err = rig.thread().Continue(t.Context())
					askEnded(t, out, err, "A", "B")
					return
				}
				askEnded(t, out, err, "A", "B")
				for _, part := range []string{"level=WARN", "a question has changed", "graph=changing", "node=n", "old", "new"} {
					if strings.Count(log.String(), "level=WARN") != 1 || !strings.Contains(log.String(), part) {
						t.Errorf("the log %q lacks %q", log.String(), part)
					}
				}
			})
		})
	}
}

func interruptEvents(t *testing.T, open opener) {
	askBothWays(t, open, askChain(plain("one"), asking("ask"), plain("two")), func(t *testing.T, rig *askRig[askState, askState]) {
		collect := func(stream func() ([]string, error), want ...string) error {
			t.Helper()
			got, err := stream()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("stream (-want +got):\n%s", diff)
			}
			return err
		}
		modes := treadle.Modes(treadle.ModeValues, treadle.ModeUpdates)
		read := func(seq func(func(treadle.Event, error) bool)) ([]string, error) {
			var lines []string
			var last error
			for ev, err := range seq {
				if err != nil {
					last = err
					continue
				}
				lines = append(lines, askLine(ev))
			}
			return lines, last
		}
		err := collect(func() ([]string, error) { return read(rig.thread().Stream(t.Context(), askState{Note: "x"}, modes)) },
			`values {"log":[],"note":"x"} pauses 0`,
			`update one {"log":["one"]}`,
			`values {"log":["one"],"note":"x"} pauses 0`,
			`interrupted ask "ask?" before [] after []`,
			`values {"log":["one"],"note":"x"} pauses 1`)
		askedStrings(t, err, "ask?")
		err = collect(func() ([]string, error) { return read(rig.thread().ResumeStream(t.Context(), "A", modes)) },
			`values {"log":["one"],"note":"x"} pauses 0`,
			`update ask {"log":["ask=A"]}`,
			`values {"log":["one","ask=A"],"note":"x"} pauses 0`,
			`update two {"log":["two"]}`,
			`values {"log":["one","ask=A","two"],"note":"x"} pauses 0`,
			`treadle.Finished[github.com/treadle-go/treadle/internal/threadtest.askState]`)
		if err != nil {
			t.Fatal(err)
		}
	})
	t.Run("nested", func(t *testing.T) {
		build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
			leaf := treadle.New[askState]("leaf")
			treadle.AddNode(leaf, "ask", askNode(c, "ask"))
			leaf.Edge(treadle.Start, "ask")
			g, err := askNest(leaf, c, 1)
			if err != nil {
				return nil, err
			}
			b := treadle.New[askState]("root")
			treadle.AddGraph(b, "sub", g)
			b.Edge(treadle.Start, "sub")
			return b.Compile(&treadle.Options{Saver: saver})
		}
		for _, deep := range []bool{false, true} {
			rig := &askRig[askState, askState]{t: t, saver: open(t), tally: &askTally{}, build: build}
			opts := []treadle.StreamOption{}
			want := []string{`interrupted sub "ask?" before [] after []`}
			if deep {
				opts = append(opts, treadle.Subgraphs())
				want = []string{`update 1 deep pre {"log":["pre0"]}`, `interrupted 2 deep ask "ask?" before [] after []`,
					`interrupted 1 deep in "ask?" before [] after []`, want[0]}
			}
			var got []string
			for ev, err := range rig.thread().Stream(t.Context(), askState{}, opts...) {
				if err != nil {
					askedStrings(t, err, "ask?")
					continue
				}
				got = append(got, askLine(ev))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("subgraphs %v (-want +got):\n%s", deep, diff)
			}
		}
	})
}

func interruptAlso(t *testing.T, open opener) {
	build := askChain(doing("ask", func(c *askTally, ctx context.Context, s askState) (askLog, error) {
		c.add("ask " + s.Note)
		a, err := treadle.Interrupt[string](ctx, "a?")
		if err != nil {
			return askLog{}, err
		}
		b, err := treadle.Interrupt[string](ctx, "b?")
		return askSay(s.Note, a, b), err
	}))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{Note: "old"})
		askedStrings(t, err, "a?")
		task := askNext(t, rig, "ask").Tasks[0].ID
		out, err := rig.thread().Resume(t.Context(), "A", treadle.Also(askNote{"new"}))
		first := askedStrings(t, err, "b?")
		if out.Note != "new" {
			t.Errorf("note %q", out.Note)
		}
		snap := askNext(t, rig, "ask")
		if snap.Tasks[0].ID != task || snap.Values.String() != `{"log":[],"note":"new"}` || snap.Source != checkpoint.Update {
			t.Errorf("after the update: task %s, values %s, source %v", snap.Tasks[0].ID, snap.Values, snap.Source)
		}
		// An update alone leaves the question open.
		_, err = rig.thread().Continue(t.Context(), treadle.Also(treadle.Update{"note": "newer", "log": []string{"edit"}}))
		again := askedStrings(t, err, "b?")
		if again[0].ID != first[0].ID {
			t.Error("an update changed the question's id")
		}
		out, err = rig.thread().Resume(t.Context(), treadle.Answers{again[0].ID: "B"})
		askEnded(t, out, err, "edit", "newer", "A", "B")
		rig.tally.want(t, "ask old", "ask new", "ask newer", "ask newer")
	})
	t.Run("a fresh thread", func(t *testing.T) {
		rig := &askRig[askState, askState]{t: t, saver: open(t), tally: &askTally{}, build: build}
		if _, err := rig.thread().Continue(t.Context(), treadle.Also(askNote{"x"})); !errors.Is(err, treadle.ErrNothingToContinue) {
			t.Errorf("%v, want ErrNothingToContinue", err)
		}
		if d := askDump(t, rig.saver); d != "" {
			t.Errorf("something was stored: %s", d)
		}
	})
}

func interruptGoto(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		b := treadle.New[askState]("gotos")
		treadle.AddNode(b, "ask", askNode(c, "ask"))
		treadle.AddNode(b, "extra", askPlain(c, "extra"))
		b.Edge(treadle.Start, "ask")
		b.Branch("ask", func(context.Context, askState) (treadle.Goto, error) { return treadle.To(treadle.End), nil }, "extra", treadle.End)
		return b.Compile(&treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "ask?")
		out, err := rig.thread().Resume(t.Context(), "A", treadle.Also(treadle.Command[askNote]{Update: &askNote{"n"}, Goto: treadle.To("extra")}))
		askEnded(t, out, err, "ask=A", "extra")
		if out.Note != "n" {
			t.Errorf("note %q", out.Note)
		}
		rig.tally.want(t, "ask", "ask", "extra")
	})
}

func interruptCommandJSON(t *testing.T, open opener) {
	askBothWays(t, open, askFan(asking("a"), asking("b")), func(t *testing.T, rig *askRig[askState, askState]) {
		command := func(raw string) error {
			t.Helper()
			var last error
			for _, err := range rig.graph().Open("t").CommandJSON(t.Context(), json.RawMessage(raw)) {
				last = err
			}
			return last
		}
		if _, err := rig.graph().Open("t").RunJSON(t.Context(), json.RawMessage(`{}`)); err == nil {
			t.Fatal("no question")
		} else {
			askedStrings(t, err, "a?", "b?")
		}
		snap := askNext(t, rig, "a", "b")
		askUnchanged(t, rig.saver, "a bad command", func() {
			for _, raw := range []string{`{}`, `[]`, `{"resume":"x"}`, `{"goto":7}`, `{"resume":{"` + strings.Repeat("0", 32) + `":"x"}}`} {
				err := command(raw)
				if _, ok := errors.AsType[*treadle.InterruptError](err); ok || err == nil {
					t.Errorf("%s: %v, want an error", raw, err)
				}
			}
		})
		askedStrings(t, command(fmt.Sprintf(`{"resume":{%q:"A"},"update":{"note":"x"}}`, snap.Pauses[0].ID)), "b?")
		if err := command(`{"resume":"B"}`); err != nil {
			t.Fatal(err)
		}
		if snap := askNext(t, rig); snap.Values.String() != `{"log":["a=A","b=B"],"note":"x"}` {
			t.Errorf("values %s", snap.Values)
		}
	})
}

func interruptNewInput(t *testing.T, open opener) {
	askBothWays(t, open, askFan(asking("a"), plain("p")), func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{Note: "1"})
		old := askedStrings(t, err, "a?")
		rig.tally.want(t, "a", "p")
		_, err = rig.thread().Run(t.Context(), askState{Note: "2"})
		ps := askedStrings(t, err, "a?")
		rig.tally.want(t, "a", "p") // both, anew
		if ps[0].ID == old[0].ID {
			t.Error("the new turn asks with the old id")
		}
		if _, err := rig.thread().Resume(t.Context(), treadle.Answers{old[0].ID: "x"}); !errors.Is(err, treadle.ErrUnknownPause) {
			t.Errorf("the abandoned question takes an answer: %v", err)
		}
		out, err := rig.thread().Resume(t.Context(), "A")
		askEnded(t, out, err, "a=A", "p") // what p wrote in the abandoned step is gone with it
		if out.Note != "2" {
			t.Errorf("note %q", out.Note)
		}
	})
}

func interruptUpdateClears(t *testing.T, open opener) {
	t.Run("in the node's stead", func(t *testing.T) {
		askBothWays(t, open, askChain(plain("one"), asking("ask"), plain("two")), func(t *testing.T, rig *askRig[askState, askState]) {
			_, err := rig.thread().Run(t.Context(), askState{})
			askedStrings(t, err, "ask?")
			if _, err := rig.thread().Update(t.Context(), askSay("by hand"), treadle.AsNode("ask")); err != nil {
				t.Fatal(err)
			}
			if snap := askNext(t, rig, "two"); len(snap.Pauses) > 0 {
				t.Errorf("open questions %v", snap.Pauses)
			}
			if _, err := rig.thread().Resume(t.Context(), "x"); !errors.Is(err, treadle.ErrNothingToResume) {
				t.Errorf("%v, want ErrNothingToResume", err)
			}
			out, err := rig.thread().Continue(t.Context())
			askEnded(t, out, err, "one", "by hand", "two")
			rig.tally.want(t, "one", "ask", "two")
		})
	})
	t.Run("with what has finished", func(t *testing.T) {
		build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
			b := treadle.New[askState]("partial")
			treadle.AddNode(b, "ask", askNode(c, "ask"))
			treadle.AddNode(b, "done", askPlain(c, "done"))
			treadle.AddNode(b, "end", askPlain(c, "end"))
			b.Edge(treadle.Start, "ask")
			b.Edge(treadle.Start, "done")
			b.Edge("ask", "end")
			return b.Compile(&treadle.Options{Saver: saver})
		}
		askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
			_, err := rig.thread().Run(t.Context(), askState{})
			askedStrings(t, err, "ask?")
			snap := askNext(t, rig, "ask")
			if snap.Values.String() != `{"log":["done"]}` || snap.Tasks[1].Name != "done" || snap.Tasks[1].Result.String() != `{"log":["done"]}` {
				t.Errorf("values %s, tasks %+v", snap.Values, snap.Tasks)
			}
			if _, err := rig.thread().Update(t.Context(), askSay("edit"), treadle.AsNode("ask")); err != nil {
				t.Fatal(err)
			}
			if snap := askNext(t, rig, "end"); snap.Values.String() != `{"log":["done","edit"]}` {
				t.Errorf("values %s", snap.Values)
			}
			out, err := rig.thread().Continue(t.Context())
			askEnded(t, out, err, "done", "edit", "end")
			rig.tally.want(t, "ask", "done", "end")
		})
	})
}

func interruptHandlers(t *testing.T, open opener) {
	errBoom := errors.New("boom")
	t.Run("a question is no failure", func(t *testing.T) {
		build := askChain(doing("n", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
			c.add("n")
			a, err := treadle.Interrupt[string](ctx, "n?")
			return askSay(a), err
		}, treadle.Retry(treadle.RetryPolicy{On: func(error) bool { return true }}),
			treadle.OnError(func(context.Context, askState, *treadle.NodeError) (askLog, error) { return askSay("handled"), nil })))
		askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
			_, err := rig.thread().Run(t.Context(), askState{})
			askedStrings(t, err, "n?")
			out, err := rig.thread().Resume(t.Context(), "A")
			askEnded(t, out, err, "A")
			rig.tally.want(t, "n", "n")
		})
	})
	t.Run("the handler asks", func(t *testing.T) {
		build := askFan(doing("n", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
			c.add("n")
			a, err := treadle.Interrupt[string](ctx, "n?")
			if err != nil {
				return askLog{}, err
			}
			if _, err := treadle.Do(ctx, "try", func(context.Context) (string, error) { c.add("try"); return a, nil }); err != nil {
				return askLog{}, err
			}
			return askLog{}, errBoom
		}, treadle.OnError(func(ctx context.Context, s askState, failure *treadle.NodeError) (askLog, error) {
			if !strings.Contains(failure.Error(), "boom") || failure.Node != "n" || s.Note != "in" {
				return askLog{}, fmt.Errorf("the handler is given %v and %+v", failure, s)
			}
			undo, err := treadle.Do(ctx, "undo", func(context.Context) (string, error) { return "undone", nil })
			if err != nil {
				return askLog{}, err
			}
			one, err := treadle.Interrupt[string](ctx, "handler?")
			if err != nil {
				return askLog{}, err
			}
			two, err := treadle.Interrupt[string](ctx, "sure?")
			return askSay(undo, one, two), err
		})), plain("p"))
		askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
			_, err := rig.thread().Run(t.Context(), askState{Note: "in"})
			n := askedStrings(t, err, "n?")
			_, err = rig.thread().Resume(t.Context(), "A")
			ps := askedStrings(t, err, "handler?")
			if ps[0].ID == n[0].ID {
				t.Error("the handler's question has the id of the node's")
			}
			rig.tally.want(t, "n", "p", "n", "try")
			_, err = rig.thread().Resume(t.Context(), "yes")
			askedStrings(t, err, "sure?")
			out, err := rig.thread().Resume(t.Context(), "very")
			askEnded(t, out, err, "undone", "yes", "very", "p")
			rig.tally.want(t) // the node has failed for good and is not tried again
		})
	})
	t.Run("the handler swallows", func(t *testing.T) {
		build := askChain(doing("n", func(*askTally, context.Context, askState) (askLog, error) { return askLog{}, errBoom },
			treadle.OnError(func(ctx context.Context, _ askState, _ *treadle.NodeError) (askLog, error) {
				_, _ = treadle.Interrupt[string](ctx, "handler?") // what is tested
				return askSay("went on"), nil
			})))
		rig := &askRig[askState, askState]{t: t, saver: open(t), tally: &askTally{}, build: build}
		_, err := rig.thread().Run(t.Context(), askState{})
		swallowed, ok := errors.AsType[*treadle.SwallowedInterruptError](err)
		if !ok {
			t.Fatalf("%v, want a SwallowedInterruptError", err)
		}
		askQuestions(t, swallowed.Pauses, "handler?")
	})
	t.Run("the handler fails and is run again", func(t *testing.T) {
		broken := true
		build := askFan(doing("n", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
			c.add("n")
			return askLog{}, errBoom
		}, treadle.OnError(func(ctx context.Context, _ askState, failure *treadle.NodeError) (askLog, error) {
			if broken {
				return askLog{}, errors.New("crash")
			}
			return askSay("handled " + failure.Err.Error()), nil
		})), doing("m", func(c *askTally, _ context.Context, _ askState) (askLog, error) {
			c.add("m")
			return askLog{}, errors.New("bang")
		}, treadle.OnError(func(_ context.Context, _ askState, failure *treadle.NodeError) (askLog, error) {
			return askSay("handled " + failure.Err.Error()), nil
		})))
		askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
			broken = true
			_, err := rig.thread(treadle.MaxConcurrency(1)).Run(t.Context(), askState{})
			if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "crash") {
				t.Fatalf("%v, want both failures", err)
			}
			rig.tally.want(t, "m", "n")
			broken = false
			out, err := rig.thread().Continue(t.Context())
			askEnded(t, out, err, "handled bang", "handled boom")
			rig.tally.want(t)
		})
	})
}

func interruptRetry(t *testing.T, open opener) {
	errFlaky := errors.New("flaky")
	retry := treadle.Retry(treadle.RetryPolicy{Initial: 1, NoJitter: true, Attempts: 3, On: func(err error) bool { return errors.Is(err, errFlaky) }})
	build := askChain(doing("n", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
		attempt := treadle.RunInfo(ctx).Attempt
		c.add(fmt.Sprint("attempt ", attempt))
		one, err := treadle.Interrupt[string](ctx, "one?")
		if err != nil {
			return askLog{}, err
		}
		paid, err := treadle.Do(ctx, "pay", func(context.Context) (string, error) { c.add("pay"); return "paid", nil })
		if err != nil {
			return askLog{}, err
		}
		if attempt < 3 {
			return askLog{}, errFlaky
		}
		two, err := treadle.Interrupt[string](ctx, "two?")
		return askSay(one, paid, two), err
	}, retry))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "one?")
		rig.tally.want(t, "attempt 1")
		_, err = rig.thread().Resume(t.Context(), "1")
		askedStrings(t, err, "two?")
		rig.tally.want(t, "attempt 1", "attempt 2", "attempt 3", "pay")
		out, err := rig.thread().Resume(t.Context(), "2")
		askEnded(t, out, err, "1", "paid", "2")
		rig.tally.want(t, "attempt 1", "attempt 2", "attempt 3")
	})
}

func interruptEffects(t *testing.T, open opener) {
	errDown := errors.New("down")
	down := true
	build := askChain(doing("n", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
		var log askLog
		for i, name := range []string{"reserve", "charge", "ship"} {
			s, err := treadle.Do(ctx, name, func(ctx context.Context) (string, error) {
				c.add(name)
				if name == "ship" && down {
					return "", errDown
				}
				return name + "d", nil
			})
			if err != nil {
				return askLog{}, err
			}
			a, err := treadle.Interrupt[string](ctx, fmt.Sprint("after ", i))
			if err != nil {
				return askLog{}, err
			}
			log.Log = append(log.Log, s+a)
		}
		return log, nil
	}))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		down = true
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "after 0")
		_, err = rig.thread().Resume(t.Context(), "!")
		askedStrings(t, err, "after 1")
		rig.tally.want(t, "reserve", "charge")
		_, err = rig.thread().Resume(t.Context(), "?")
		if !errors.Is(err, errDown) {
			t.Fatalf("%v, want the effect's failure", err)
		}
		down = false
		_, err = rig.thread().Continue(t.Context())
		askedStrings(t, err, "after 2")
		rig.tally.want(t, "ship", "ship") // a failure is not recorded
		out, err := rig.thread().Resume(t.Context(), ".")
		askEnded(t, out, err, "reserved!", "charged?", "shipd.")
		rig.tally.want(t)
	})
}

func interruptIdentity(t *testing.T, open opener) {
	var seen []string // task id and idempotency key at each run
	note := func(ctx context.Context, what string) {
		info := treadle.RunInfo(ctx)
		seen = append(seen, what+" "+info.TaskID+" "+info.IdempotencyKey)
	}
	errFlaky := errors.New("flaky")
	build := askChain(doing("n", func(_ *askTally, ctx context.Context, _ askState) (askLog, error) {
		note(ctx, "node")
		if _, err := treadle.Do(ctx, "first", func(context.Context) (int, error) { return 1, nil }); err != nil {
			return askLog{}, err
		}
		_, err := treadle.Do(ctx, "effect", func(ctx context.Context) (string, error) {
			note(ctx, "effect")
			if _, err := treadle.Interrupt[string](ctx, "effect?"); err != nil {
				return "", err
			}
			return "", errFlaky
		})
		return askLog{}, err
	}, treadle.Retry(treadle.RetryPolicy{Initial: 1, NoJitter: true, Attempts: 2, On: func(err error) bool { return errors.Is(err, errFlaky) }})))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		distinct := func(what string) []string {
			var out []string
			for _, s := range seen {
				if strings.HasPrefix(s, what) && !slices.Contains(out, s) {
					out = append(out, s)
				}
			}
			return out
		}
		seen = nil
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "effect?")
		_, err = rig.thread().Continue(t.Context())
		askedStrings(t, err, "effect?")
		if _, err = rig.thread().Resume(t.Context(), "x"); !errors.Is(err, errFlaky) {
			t.Fatal(err)
		}
		if _, err = rig.thread().Continue(t.Context()); !errors.Is(err, errFlaky) {
			t.Fatal(err)
		}
		node, effect := distinct("node"), distinct("effect")
		if len(seen) != 12 || len(node) != 1 || len(effect) != 1 || node[0][5:] == effect[0][7:] {
			t.Fatalf("over resumes and retries %d runs of node %q and effect %q: want one identity each", len(seen), node, effect)
		}
		if f := strings.Fields(node[0]); f[1] == "" || f[2] == "" {
			t.Errorf("an empty identity: %q", node)
		}
		// On a fork it is another task.
		snap := askNext(t, rig, "n")
		if f := strings.Fields(node[0]); f[1] != snap.Tasks[0].ID {
			t.Errorf("the task is %s in the state and %s inside", snap.Tasks[0].ID, f[1])
		}
		fork, err := rig.thread().At(snap.Parent).Continue(t.Context())
		askedStrings(t, err, "effect?")
		if len(fork.Log) > 0 || len(distinct("node")) != 2 || len(distinct("effect")) != 2 {
			t.Errorf("on a fork the identities are %q and %q, want new ones", distinct("node"), distinct("effect"))
		}
	})
}

// A run that is cancelled while one node waits with a question keeps it.
func interruptCancelled(t *testing.T, open opener) {
	var block func(context.Context) error
	build := askFan(asking("a"), doing("b", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
		c.add("b")
		return askSay("b"), block(ctx)
	}), plain("c"))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		// One at a time, so that a has asked when b is cancelled.
		block = func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}
		_, err := rig.thread(treadle.MaxConcurrency(1)).Run(ctx, askState{})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, want a cancelled run", err)
		}
		rig.tally.want(t, "a", "b")
		askQuestions(t, askNext(t, rig, "a", "b", "c").Pauses, "a?")
		block = func(context.Context) error { return nil }
		out, err := rig.thread().Resume(t.Context(), "A")
		askEnded(t, out, err, "a=A", "b", "c")
		rig.tally.want(t, "a", "b", "c")
	})
}

// The clock is the test's own, so this is on memory; see the functional suite.
func interruptTimed(t *testing.T, _ opener) {
	build := askChain(doing("n", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
		attempt := treadle.RunInfo(ctx).Attempt
		c.add(fmt.Sprint("attempt ", attempt))
		if attempt == 1 {
			<-ctx.Done()
			// Too late: it is the next attempt that asks.
			if _, err := treadle.Interrupt[string](ctx, "late?"); !errors.As(err, new(*treadle.TimeoutError)) {
				c.add(fmt.Sprintf("asked late: %v", err))
			}
			return askLog{}, ctx.Err()
		}
		a, err := treadle.Interrupt[string](ctx, "in time?")
		return askSay(a), err
	}, treadle.Timeout(time.Minute), treadle.Retry(treadle.RetryPolicy{NoJitter: true})))
	synctest.Test(t, func(t *testing.T) {
		rig := &askRig[askState, askState]{t: t, saver: checkpoint.NewMemory(), tally: &askTally{}, build: build}
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "in time?")
		out, err := rig.thread().Resume(t.Context(), "A")
		askEnded(t, out, err, "A")
		rig.tally.want(t, "attempt 1", "attempt 2", "attempt 1", "attempt 2")
	})
}
