package threadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Interrupts is the suite for interrupts and breakpoints.
var Interrupts = Suite{
	{"AskAndAnswer", concurrent, interruptAsk},
	{"AnswersAreCheckedBeforeAnythingRuns", sequential, interruptChecked},
	{"QuestionsSayWhatTheyAccept", sequential, interruptAccepts},
	{"TagsSayWhichAnswersFit", sequential, interruptTags},
	{"NeedsSaverAndThread", sequential, interruptNeeds},
	{"SeveralByOrder", sequential, interruptSeveral},
	{"SeveralByKey", sequential, interruptKeys},
	{"NullIsAnAnswer", sequential, interruptNull},
	{"UntilTheAnswerIsValid", sequential, interruptLoopInNode},
	{"InALoop", sequential, interruptLoop},
	{"Parallel", concurrent, interruptParallel},
	{"ParallelTwiceEach", sequential, interruptParallelDouble},
	{"SiblingIsNotCancelled", sequential, interruptSibling},
	{"SiblingFails", concurrent, interruptSiblingFails},
	{"NodesBefore", sequential, interruptNodesBefore},
	{"InsideCalls", sequential, interruptCalls},
	{"ThreeLevelsDown", sequential, interruptDeep},
	{"TwiceInACalledGraph", sequential, interruptCalledGraph},
	{"SentToGraphs", concurrent, interruptSends},
	{"SendsThatFinishedAreKept", sequential, interruptSendDedupe},
	{"Swallowed", sequential, interruptSwallowed},
	{"QuestionChanged", sequential, interruptChanged},
	{"Events", sequential, interruptEvents},
	{"ResumeWithUpdate", sequential, interruptAlso},
	{"ResumeWithGoto", sequential, interruptGoto},
	{"ResumeWithABareGoto", sequential, interruptBareGoto},
	{"StreamsGoOnWithAnUpdate", sequential, interruptAlsoStream},
	{"NestedValuesCarryTheQuestion", sequential, interruptNestedValues},
	{"CommandsInJSON", sequential, interruptCommandJSON},
	{"CommandBeginsAThread", sequential, commandFirst},
	{"NewInputAbandons", sequential, interruptNewInput},
	{"UpdateClears", sequential, interruptUpdateClears},
	{"ErrorHandlers", sequential, interruptHandlers},
	{"Retry", sequential, interruptRetry},
	{"EffectsRunOnce", sequential, interruptEffects},
	{"Cancelled", concurrent, interruptCancelled},
	{"TimedNodes", sequential, interruptTimed},
	{"Identity", sequential, interruptIdentity},
	{"AnswersAreRepeated", sequential, interruptRepeated},
	{"AnswersAreRepeatedInPart", sequential, interruptRepeatedInPart},
	{"InABranch", sequential, interruptInBranch},
	{"InABranchFromStartIsShown", sequential, interruptInBranchShown},
	{"InABranchFromStartThenABreakpoint", sequential, interruptInBranchBreakpoint},
	{"InABranchSwallowed", sequential, interruptInBranchSwallowed},
	{"InABranchOfATimedNode", sequential, interruptInBranchOfTimed},
	{"InABranchOfAnEdit", sequential, interruptInBranchOfEdit},
}

type opener = func(t *testing.T) checkpoint.Saver

// askChain returns a graph whose nodes run in sequence.
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

// askFan returns a graph whose nodes run in parallel.
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
			t.Fatalf("run ended with %v, want one question", err)
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
			t.Errorf("state's questions (-error +state):\n%s", diff)
		}
		if len(snap.Tasks) != 1 || !cmp.Equal(snap.Tasks[0].Pauses, snap.Pauses) {
			t.Errorf("tasks %+v", snap.Tasks)
		}

		// Continuing without an answer asks the same question again.
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
		for snap, err := range rig.thread().History(t.Context(), nil) {
			if err != nil || len(snap.Pauses) > 0 {
				t.Errorf("step %d has open questions %v, %v", snap.Step, snap.Pauses, err)
			}
		}

		// An interrupt in the next turn is a different one.
		_, err = rig.thread().Run(t.Context(), askState{})
		next, ok := errors.AsType[*treadle.InterruptError](err)
		if !ok || len(next.Pauses) != 1 || next.Pauses[0].ID == pause.ID {
			t.Errorf("second turn asks %v, want an id of its own", err)
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
			{"an unknown id", treadle.Answers{unknown: good}, treadle.ErrUnknownInterrupt},
			{"an unknown id beside a known one", treadle.Answers{ps[0].ID: good, unknown: good}, treadle.ErrUnknownInterrupt},
			{"another type", treadle.Answers{ps[0].ID: "yes"}, nil},
			{"null", treadle.Answers{ps[0].ID: nil}, nil},
			{"a field of another type", treadle.Answers{ps[0].ID: map[string]any{"yes": true, "count": "two"}}, nil},
			{"a missing field", treadle.Answers{ps[0].ID: map[string]any{"yes": true}}, nil},
			{"an unknown field", treadle.Answers{ps[0].ID: map[string]any{"yes": true, "count": 1, "why": "x"}}, nil},
			{"one good, one bad", treadle.Answers{ps[0].ID: good, ps[1].ID: 3}, nil},
			{"no JSON", treadle.Answers{ps[0].ID: func() {}}, new(json.UnsupportedTypeError)},
		} {
			askUnchanged(t, rig.saver, c.name, func() {
				_, err := rig.thread().Resume(t.Context(), c.answer, treadle.WithUpdate(askNote{"no"}))
				switch want := c.want.(type) { //nolint:errorlint // the table's own, which nothing wraps
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
					t.Errorf("%s: stream shows %T of a run that may not begin", c.name, ev)
				}
			}
		}
		// An invalid update is rejected together with valid answers.
		askUnchanged(t, rig.saver, "a bad update", func() {
			if _, err := rig.thread().Resume(t.Context(), treadle.Answers{ps[0].ID: good}, treadle.WithUpdate(treadle.Update{"nope": 1})); err == nil {
				t.Error("update of an unknown field is accepted")
			} else if u, ok := errors.AsType[*treadle.UpdateError](err); !ok || u.Field != "nope" {
				t.Errorf("%v, want an UpdateError of nope", err)
			}
			_, err := rig.thread().Resume(t.Context(), treadle.Answers{ps[0].ID: good}, treadle.WithUpdate(treadle.Command[askNote]{Goto: treadle.To("nowhere")}))
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

// interruptAccepts checks that a question can restrict its answers further than their
// type does.
func interruptAccepts(t *testing.T, open opener) {
	pick := doing("pick", func(_ *askTally, ctx context.Context, _ askState) (askLog, error) {
		two := 2
		picked, err := treadle.Interrupt[[]string](ctx, treadle.Question{Value: "pick two", Schema: &jsonschema.Schema{
			Type: "array", MinItems: &two, MaxItems: &two, Items: &jsonschema.Schema{Enum: []any{"a", "b", "c"}}}})
		if err != nil {
			return askLog{}, err
		}
		return askSay(picked...), nil
	})
	askBothWays(t, open, askChain(pick), func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "pick two")
		for _, bad := range []any{[]string{"a"}, []string{"a", "x"}, "a", nil} {
			askUnchanged(t, rig.saver, fmt.Sprint(bad), func() {
				_, err := rig.thread().Resume(t.Context(), bad)
				if _, ok := errors.AsType[*treadle.AnswerError](err); !ok {
					t.Errorf("answer %v: %v, want an AnswerError", bad, err)
				}
			})
		}
		out, err := rig.thread().Resume(t.Context(), []string{"c", "a"})
		askEnded(t, out, err, "c", "a")
	})
	broken := doing("broken", func(_ *askTally, ctx context.Context, _ askState) (askLog, error) {
		_, err := treadle.Interrupt[string](ctx, treadle.Question{Value: "?", Schema: &jsonschema.Schema{Pattern: "("}})
		return askLog{}, err
	})
	askBothWays(t, open, askChain(broken), func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		if err == nil || !strings.Contains(err.Error(), "question schema") {
			t.Errorf("a schema that is none: %v", err)
		}
	})
}

// interruptTags checks that the tags of an answer's type apply as they do to a tool's
// arguments.
func interruptTags(t *testing.T, open opener) {
	type order struct {
		Size  string  `json:"size" enum:"small,large"`
		Count int     `json:"count" default:"2"`
		Note  *string `json:"note"`
	}
	ask := doing("ask", func(_ *askTally, ctx context.Context, _ askState) (askLog, error) {
		o, err := treadle.Interrupt[order](ctx, "what?")
		if err != nil {
			return askLog{}, err
		}
		return askSay(fmt.Sprintf("%d %s %v", o.Count, o.Size, o.Note == nil)), nil
	})
	askBothWays(t, open, askChain(ask), func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "what?")
		for _, bad := range []string{`{"size":"huge"}`, `{"count":1}`, `{"size":"small","count":null}`} {
			askUnchanged(t, rig.saver, bad, func() {
				_, err := rig.thread().Resume(t.Context(), json.RawMessage(bad))
				if _, ok := errors.AsType[*treadle.AnswerError](err); !ok {
					t.Errorf("answer %s: %v, want an AnswerError", bad, err)
				}
			})
		}
		out, err := rig.thread().Resume(t.Context(), json.RawMessage(`{"size":"large"}`))
		askEnded(t, out, err, "2 large true")
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
	c.want(t, "a", "a") // the two runs that failed when they asked
	if _, err := treadle.Interrupt[string](ctx, "hello?"); !errors.Is(err, treadle.ErrOutsideRun) {
		t.Errorf("asked outside a run: %v, want ErrOutsideRun", err)
	}
	if d := askDump(t, saver); d != "" {
		t.Errorf("something was stored: %s", d)
	}
	// A subgraph without checkpoints cannot be interrupted.
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
