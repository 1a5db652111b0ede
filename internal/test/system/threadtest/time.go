package threadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/delay"
)

// Time is the suite for sleeps, deadlines, and signals. Databases do not support virtual
// time, so a test either waits for an hour and checks how it waits, or waits for a few
// milliseconds and checks only what follows.
var Time = Suite{
	{"SleepStopsTheRunUntilItsTime", concurrent, timeSleeps},
	{"SleepEnds", sequential, timeSleepEnds},
	{"SleepInNestedGraphsTasksAndBranches", sequential, timeSleepInside},
	{"SleepNeedsSaverThreadAndSense", sequential, timeSleepNeeds},
	{"SleepersAndQuestionsOfOneStep", sequential, timeSleepBeside},
	{"AFailedSleeperIsUnfinishedAndASleeperIsNot", sequential, timeUnfinished},
	{"DeadlineGivesTheDefault", sequential, timeDeadlineDefault},
	{"DeadlineWithoutADefaultIsAnError", sequential, timeDeadlineError},
	{"AnAnswerBeforeTheDeadlineCounts", sequential, timeDeadlineAnswered},
	{"DeadlinesThatMakeNoSense", sequential, timeDeadlineNeeds},
	{"ASignalThatComesEarlyWaits", concurrent, timeSignalEarly},
	{"ASignalThatIsWaitedForIsTaken", sequential, timeSignalLate},
	{"SignalsAreTakenOnceAndInOrder", concurrent, timeSignalOnce},
	{"ARepeatedNodeGetsTheSameSignal", sequential, timeSignalAgain},
	{"SignalsThatMakeNoSense", sequential, timeSignalNeeds},
	{"ASignalThatFitsNobodyIsDropped", sequential, timeSignalMisfit},
	{"SignalsHaveDeadlines", sequential, timeSignalDeadline},
	{"SignalsUnderEveryDurability", sequential, timeSignalDurability},
	{"ARunThatIsRolledBackReturnsItsSignals", sequential, timeSignalRollback},
	{"UntakenSignalsAreListed", concurrent, timeSignalList},
	{"AThreadOfAnotherGraphIsAGraphError", sequential, timeGraphs},
}

// timeChain returns a graph whose nodes run in sequence and append to the log.
func timeChain(t *testing.T, name string, saver checkpoint.Saver, nodes ...func(ctx context.Context) (string, error)) *treadle.Graph[askState, askState] {
	t.Helper()
	b := treadle.New[askState](name)
	last := treadle.Start
	for i, node := range nodes {
		n := fmt.Sprintf("n%d", i)
		treadle.AddNode(b, n, func(ctx context.Context, _ askState) (askLog, error) {
			said, err := node(ctx)
			return askSay(said), err
		})
		b.Edge(last, n)
		last = n
	}
	g, err := b.Compile(&treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// timePauses returns the pauses that a run waits for.
func timePauses(t *testing.T, err error) []treadle.Pause {
	t.Helper()
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok {
		t.Fatalf("run ended with %v, want it to wait", err)
	}
	return stop.Pauses
}

// timePass continues a thread whenever it is due, until it has finished.
func timePass(t *testing.T, th *treadle.Thread[askState, askState], out askState, err error) (askState, error) {
	t.Helper()
	for {
		stop, ok := errors.AsType[*treadle.InterruptError](err)
		if !ok {
			return out, err
		}
		due := slices.MinFunc(stop.Pauses, func(a, b treadle.Pause) int { return a.Due.Compare(b.Due) }).Due
		if due.IsZero() {
			t.Fatalf("run waits forever: %v", err)
		}
		if err := delay.For(t.Context(), time.Until(due)); err != nil {
			t.Fatal(err)
		}
		out, err = th.Continue(t.Context())
	}
}

const timeShort = 15 * time.Millisecond

func timeSleeps(t *testing.T, open opener) {
	saver, tally := open(t), &askTally{}
	node := func(ctx context.Context) (string, error) {
		if _, err := treadle.Do(ctx, "charge", func(context.Context) (int, error) { tally.add("charge"); return 1, nil }); err != nil {
			return "", err
		}
		tally.add("node")
		return "slept", treadle.Sleep(ctx, time.Hour)
	}
	before := time.Now()
	_, err := timeChain(t, "sleepers", saver, node).Thread("t").Run(t.Context(), askState{})
	ps := timePauses(t, err)
	after := time.Now()
	if len(ps) != 1 || ps[0].Kind != treadle.SleepPause || ps[0].Node != "n0" {
		t.Fatalf("waits for %+v", ps)
	}
	due := ps[0].Due
	if due.Before(before.Add(time.Hour).Truncate(0)) || due.After(after.Add(time.Hour)) {
		t.Errorf("sleeps until %v", due)
	}
	if want := `graph "sleepers": interrupted: node "n0" sleeps until ` + due.Format(time.RFC3339); err.Error() != want {
		t.Errorf("error: %q, want %q", err, want)
	}
	th := timeChain(t, "sleepers", saver, node).Thread("t") // another process
	snap, err := th.State(t.Context())
	if err != nil || len(snap.Pauses) != 1 || !snap.Pauses[0].Due.Equal(due) || !slices.Equal(snap.Next, []string{"n0"}) {
		t.Errorf("state waits for %+v, next %v: %v", snap.Pauses, snap.Next, err)
	}
	_, err = th.Continue(t.Context())
	if ps := timePauses(t, err); len(ps) != 1 || !ps[0].Due.Equal(due) {
		t.Errorf("continued too early it sleeps until %v, want %v", ps[0].Due, due)
	}
	askUnchanged(t, saver, "answering a sleep", func() {
		if _, err := th.Resume(t.Context(), "wake up"); !errors.Is(err, treadle.ErrNothingToResume) {
			t.Errorf("%v, want ErrNothingToResume", err)
		}
	})
	tally.want(t, "charge", "node", "node")
	// A fork from the checkpoint sleeps again.
	_, err = th.At(snap.Parent).Continue(t.Context())
	if ps := timePauses(t, err); !ps[0].Due.After(due) {
		t.Errorf("branch sleeps until %v, want later than %v", ps[0].Due, due)
	}
}

func timeSleepEnds(t *testing.T, open opener) {
	saver, tally := open(t), &askTally{}
	began := time.Now()
	g := timeChain(t, "sleepers", saver,
		func(ctx context.Context) (string, error) {
			for i := range 2 { // two sleeps with an effect between them
				if err := treadle.Sleep(ctx, timeShort); err != nil {
					return "", err
				}
				if _, err := treadle.Do(ctx, "tick", func(context.Context) (int, error) { tally.add("tick"); return i, nil }); err != nil {
					return "", err
				}
			}
			return "slept twice", nil
		},
		func(ctx context.Context) (string, error) { return "until", treadle.Until(ctx, began) },
		func(ctx context.Context) (string, error) { return "none", treadle.Sleep(ctx, 0) },
	)
	out, err := g.Thread("t").Run(t.Context(), askState{})
	out, err = timePass(t, g.Thread("t"), out, err)
	askEnded(t, out, err, "slept twice", "until", "none")
	if took := time.Since(began); took < 2*timeShort {
		t.Errorf("it took %v, want at least %v", took, 2*timeShort)
	}
	tally.want(t, "tick", "tick")
}

func timeSleepInside(t *testing.T, open opener) {
	saver, tally := open(t), &askTally{}
	inner := timeChain(t, "inner", nil,
		func(context.Context) (string, error) { tally.add("first"); return "first", nil },
		func(ctx context.Context) (string, error) { return "inner", treadle.Sleep(ctx, timeShort) })
	nap := treadle.NewTask("nap", func(ctx context.Context, n int) (int, error) {
		err := treadle.Sleep(ctx, timeShort)
		if err == nil {
			tally.add("nap")
		}
		return n, err
	})
	b := treadle.New[askState]("outer")
	treadle.AddGraph(b, "inner", inner)
	treadle.AddNode(b, "naps", func(ctx context.Context, _ askState) (askLog, error) {
		one, two := nap.Go(ctx, 1), nap.Go(ctx, 2)
		n, err := one.Wait()
		m, err2 := two.Wait()
		return askSay(fmt.Sprint(n + m)), errors.Join(err, err2)
	})
	treadle.AddNode(b, "route", func(context.Context, askState) (askLog, error) { return askSay("route"), nil })
	treadle.AddNode(b, "last", func(context.Context, askState) (askLog, error) { return askSay("last"), nil })
	b.Edge(treadle.Start, "inner")
	b.Edge("inner", "naps")
	b.Edge("naps", "route")
	treadle.AddBranch(b, "route", func(ctx context.Context, _ askState) (treadle.Goto, error) {
		return treadle.To("last"), treadle.Sleep(ctx, timeShort)
	}, "last")
	g, err := b.Compile(&treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Thread("t").Run(t.Context(), askState{})
	out, err = timePass(t, g.Thread("t"), out, err)
	askEnded(t, out, err, "first", "inner", "3", "route", "last")
	tally.want(t, "first", "nap", "nap")
}

func timeSleepNeeds(t *testing.T, open opener) {
	saver := open(t)
	sleep := func(ctx context.Context) (string, error) { return "", treadle.Sleep(ctx, time.Hour) }
	if err := treadle.Sleep(t.Context(), time.Hour); !errors.Is(err, treadle.ErrOutsideRun) {
		t.Errorf("outside a run: %v, want ErrOutsideRun", err)
	}
	if _, err := timeChain(t, "g", nil, sleep).Run(t.Context(), askState{}); !errors.Is(err, treadle.ErrNoSaver) {
		t.Errorf("without a saver: %v, want ErrNoSaver", err)
	}
	if _, err := timeChain(t, "g", saver, sleep).Run(t.Context(), askState{}); !errors.Is(err, treadle.ErrNoThread) {
		t.Errorf("without a thread: %v, want ErrNoThread", err)
	}
	for want, node := range map[string]func(ctx context.Context) (string, error){
		"negative duration -1s": func(ctx context.Context) (string, error) { return "", treadle.Sleep(ctx, -time.Second) },
		"zero time":             func(ctx context.Context) (string, error) { return "", treadle.Until(ctx, time.Time{}) },
		"year 20000 is": func(ctx context.Context) (string, error) {
			return "", treadle.Until(ctx, time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC))
		},
		"did not sleep until": func(ctx context.Context) (string, error) { _ = treadle.Sleep(ctx, time.Hour); return "", nil },
	} {
		_, err := timeChain(t, "g", saver, node).Thread(want).Run(t.Context(), askState{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	// A node that sleeps where it previously did something else gets an error.
	asleep := false
	odd := timeChain(t, "odd", saver, func(ctx context.Context) (string, error) {
		if !asleep {
			if _, err := treadle.Do(ctx, "work", func(context.Context) (int, error) { return 1, nil }); err != nil {
				return "", err
			}
			return "", errors.New("broken")
		}
		return "", treadle.Sleep(ctx, time.Hour)
	}).Thread("odd")
	_, _ = odd.Run(t.Context(), askState{})
	asleep = true
	_, err := odd.Continue(t.Context())
	if e, ok := errors.AsType[*treadle.OrderError](err); !ok || e.Recorded != "work" || e.Made != "sleep" {
		t.Errorf("%v, want an OrderError", err)
	}
}

// timeSleepBeside checks that an interrupt can be answered while another node of the step
// sleeps, and that the sleeper does not wake earlier because of it.
func timeSleepBeside(t *testing.T, open opener) {
	b := treadle.New[askState]("beside")
	treadle.AddNode(b, "ask", func(ctx context.Context, _ askState) (askLog, error) {
		said, err := treadle.Interrupt[string](ctx, "well?")
		return askSay(said), err
	})
	treadle.AddNode(b, "sleep", func(ctx context.Context, _ askState) (askLog, error) {
		return askSay("slept"), treadle.Sleep(ctx, time.Hour)
	})
	b.Edge(treadle.Start, "ask")
	b.Edge(treadle.Start, "sleep")
	g, err := b.Compile(&treadle.Options{Saver: open(t)})
	if err != nil {
		t.Fatal(err)
	}
	th := g.Thread("t")
	_, err = th.Run(t.Context(), askState{})
	ps := timePauses(t, err)
	if len(ps) != 2 {
		t.Fatalf("waits for %v", ps)
	}
	sleep := slices.IndexFunc(ps, func(p treadle.Pause) bool { return p.Kind == treadle.SleepPause })
	if _, err := th.Resume(t.Context(), treadle.Answers{ps[sleep].ID: true}); !errors.Is(err, treadle.ErrUnknownInterrupt) {
		t.Errorf("answer to the sleep: %v, want ErrUnknownInterrupt", err)
	}
	_, err = th.Resume(t.Context(), "yes") // the only question
	left := timePauses(t, err)
	if len(left) != 1 || !left[0].Due.Equal(ps[sleep].Due) {
		t.Errorf("waits for %v, want the sleep as before: %v", left, ps[sleep])
	}
}

func timeUnfinished(t *testing.T, open opener) {
	saver, broken, slow := open(t), true, false
	other := timeChain(t, "other", saver, func(context.Context) (string, error) { return "", errors.New("broken") })
	_, _ = other.Thread("of another graph").Run(t.Context(), askState{})
	g := timeChain(t, "g", saver, func(ctx context.Context) (string, error) {
		switch thread := treadle.InfoFrom(ctx).Thread; {
		case thread == "sleeps", thread == "failed" && slow:
			return "", treadle.Sleep(ctx, time.Hour)
		case thread == "asks":
			_, err := treadle.Interrupt[string](ctx, "?")
			return "", err
		case broken && thread != "done":
			return "", errors.New("broken")
		}
		return "fine", nil
	})
	for _, name := range []string{"asks", "done", "failed", "sleeps"} {
		_, _ = g.Thread(name).Run(t.Context(), askState{})
	}
	if _, err := g.Thread("drained", treadle.Drain(closed())).Run(t.Context(), askState{}); !errors.Is(err, treadle.ErrDrained) {
		t.Fatal(err)
	}
	names := func() (out []string) {
		for th, err := range g.Unfinished(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, th.ID())
		}
		return out
	}
	if got, want := names(), []string{"drained", "failed"}; !slices.Equal(got, want) {
		t.Errorf("unfinished are %q, want %q", got, want)
	}
	slow = true // it continues, and sleeps where it failed before
	_, err := g.Thread("failed").Continue(t.Context())
	timePauses(t, err)
	if got, want := names(), []string{"drained"}; !slices.Equal(got, want) {
		t.Errorf("unfinished are %q, want %q", got, want)
	}
	snap, err := g.Thread("failed").State(t.Context())
	if err != nil || snap.Tasks[0].Error != "" {
		t.Errorf("task that sleeps has the error %q: %v", snap.Tasks[0].Error, err)
	}
	broken = false
	for th, err := range g.Unfinished(t.Context()) {
		if err == nil {
			_, err = th.Continue(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
	}
	if got := names(); len(got) > 0 {
		t.Errorf("unfinished are %q", got)
	}
	for _, err := range timeChain(t, "g", nil, func(context.Context) (string, error) { return "", nil }).Unfinished(t.Context()) {
		if !errors.Is(err, treadle.ErrNoSaver) {
			t.Errorf("without a saver: %v", err)
		}
	}
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// timeAsk returns a node that asks with a deadline and returns the answer.
func timeAsk(d time.Duration, onTimeout any) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return treadle.Interrupt[string](ctx, treadle.Question{Value: "well?", Deadline: time.Now().Add(d), OnTimeout: onTimeout})
	}
}

func timeDeadlineDefault(t *testing.T, open opener) {
	saver := open(t)
	more := func(ctx context.Context) (string, error) {
		first, err := timeAsk(timeShort, "no answer")(ctx)
		if err != nil {
			return "", err
		}
		second, err := treadle.Interrupt[string](ctx, "and now?") // the node runs again when this is answered
		return first + ", " + second, err
	}
	g := timeChain(t, "g", saver, more)
	_, err := g.Thread("t").Run(t.Context(), askState{})
	for {
		ps := timePauses(t, err)
		if string(ps[0].Value) == `"and now?"` {
			break
		}
		if string(ps[0].Default) != `"no answer"` || ps[0].Due.IsZero() {
			t.Errorf("question: %+v", ps[0])
		}
		if err := delay.For(t.Context(), time.Until(ps[0].Due)); err != nil {
			t.Fatal(err)
		}
		_, err = timeChain(t, "g", saver, more).Thread("t").Continue(t.Context())
	}
	out, err := g.Thread("t").Resume(t.Context(), "fine")
	askEnded(t, out, err, "no answer, fine")
}

func timeDeadlineError(t *testing.T, open opener) {
	tally := &askTally{}
	g := timeChain(t, "g", open(t), func(ctx context.Context) (string, error) {
		said, err := timeAsk(timeShort, nil)(ctx)
		if e, ok := errors.AsType[*treadle.DeadlineError](err); ok {
			tally.add(string(e.Pause.Value))
			if e.Pause.Due.IsZero() || e.Error() != `"well?" not answered by `+e.Pause.Due.Format(time.RFC3339) {
				t.Errorf("the error is %v, due %v", err, e.Pause.Due)
			}
			return "gave up", nil
		}
		return said, err
	})
	out, err := g.Thread("t").Run(t.Context(), askState{})
	out, err = timePass(t, g.Thread("t"), out, err)
	askEnded(t, out, err, "gave up")
	tally.want(t, `"well?"`)
}

func timeDeadlineAnswered(t *testing.T, open opener) {
	saver := open(t)
	g := timeChain(t, "g", saver, timeAsk(time.Hour, "no answer"))
	_, err := g.Thread("early").Run(t.Context(), askState{})
	due := timePauses(t, err)[0].Due
	_, err = g.Thread("early").Continue(t.Context())
	if ps := timePauses(t, err); !ps[0].Due.Equal(due) {
		t.Errorf("asked again, the deadline is %v, want %v", ps[0].Due, due)
	}
	out, err := g.Thread("early").Resume(t.Context(), "yes")
	askEnded(t, out, err, "yes")
	// The deadline has passed, but the thread has not been continued yet.
	g = timeChain(t, "late", saver, timeAsk(timeShort, "no answer"))
	for i := 0; ; i++ { // until it waits at all, on a slow machine
		th := g.Thread(fmt.Sprint("late ", i))
		_, err = th.Run(t.Context(), askState{})
		if err == nil {
			continue
		}
		if err := delay.For(t.Context(), time.Until(timePauses(t, err)[0].Due)); err != nil {
			t.Fatal(err)
		}
		out, err = th.Resume(t.Context(), "yes")
		askEnded(t, out, err, "yes")
		return
	}
}

func timeDeadlineNeeds(t *testing.T, open opener) {
	saver := open(t)
	out, err := timeChain(t, "g", saver, timeAsk(-time.Hour, "too late")).Thread("past").Run(t.Context(), askState{})
	askEnded(t, out, err, "too late")
	_, err = timeChain(t, "g", saver, timeAsk(-time.Hour, nil)).Thread("past 2").Run(t.Context(), askState{})
	if _, ok := errors.AsType[*treadle.DeadlineError](err); !ok {
		t.Errorf("%v, want a DeadlineError", err)
	}
	for want, o := range map[string]treadle.WaitOptions{
		"OnTimeout without Deadline":            {OnTimeout: "x"},
		"deadline: invalid OnTimeout 5":         {Deadline: time.Now().Add(time.Hour), OnTimeout: 5},
		"deadline: cannot encode OnTimeout":     {Deadline: time.Now().Add(time.Hour), OnTimeout: func() {}},
		"deadline: year 20000 is after 9999, t": {Deadline: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC), OnTimeout: "x"},
	} {
		for _, waits := range []func(ctx context.Context) (string, error){
			func(ctx context.Context) (string, error) {
				return treadle.Interrupt[string](ctx, treadle.Question{Value: "?", Deadline: o.Deadline, OnTimeout: o.OnTimeout})
			},
			func(ctx context.Context) (string, error) { return treadle.WaitFor[string](ctx, "s", &o) },
		} {
			_, err := timeChain(t, "g", saver, waits).Thread(want).Run(t.Context(), askState{})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want an error with %q", err, want)
			}
		}
	}
	verdicts := &jsonschema.Schema{Type: "string", Enum: []any{"yes", "no"}}
	for onTimeout, want := range map[string]string{"no": "", "perhaps": `invalid OnTimeout "perhaps"`} {
		_, err := timeChain(t, "g", saver, func(ctx context.Context) (string, error) {
			return treadle.Interrupt[string](ctx, treadle.Question{Value: "?", Schema: verdicts, Deadline: time.Now().Add(-time.Hour), OnTimeout: onTimeout})
		}).Thread("schema "+onTimeout).Run(t.Context(), askState{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("question with a schema and the default %q: %v, want %q", onTimeout, err, want)
		}
	}
}

type payment struct {
	Amount int    `json:"amount"`
	From   string `json:"from,omitempty"`
}

func timePaid(ctx context.Context) (string, error) {
	p, err := treadle.WaitFor[payment](ctx, "payment", nil)
	return fmt.Sprint("paid ", p.Amount), err
}

func timeSignalEarly(t *testing.T, open opener) {
	saver := open(t)
	g := timeChain(t, "g", saver, func(ctx context.Context) (string, error) { return treadle.Interrupt[string](ctx, "go on?") }, timePaid)
	th := g.Thread("t")
	_, err := th.Run(t.Context(), askState{})
	timePauses(t, err)
	if err := timeChain(t, "g", saver, nil, nil).Thread("t").Signal(t.Context(), "payment", payment{Amount: 7}); err != nil {
		t.Fatal(err)
	}
	out, err := th.Resume(t.Context(), "yes")
	askEnded(t, out, err, "yes", "paid 7")
	// The signal is consumed: the next run of the thread waits for another one.
	_, err = th.Run(t.Context(), askState{})
	timePauses(t, err)
	_, err = th.Resume(t.Context(), "yes")
	if ps := timePauses(t, err); ps[0].Kind != treadle.SignalPause || ps[0].Key != "payment" {
		t.Errorf("waits for %+v", ps)
	}
	if want := `graph "g": interrupted: node "n1" waits for signal "payment"`; err.Error() != want {
		t.Errorf("the error is %q, want %q", err, want)
	}
}

func timeSignalLate(t *testing.T, open opener) {
	saver := open(t)
	th := timeChain(t, "g", saver, timePaid, timePaid).Thread("t")
	_, err := th.Run(t.Context(), askState{})
	timePauses(t, err)
	_, err = th.Continue(t.Context()) // without a signal, it keeps waiting
	timePauses(t, err)
	if err := th.Signal(t.Context(), "other", 1); err != nil {
		t.Fatal(err)
	}
	_, err = th.Continue(t.Context())
	timePauses(t, err)
	for i := range 2 {
		if err := th.Signal(t.Context(), "payment", payment{Amount: i}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := th.Continue(t.Context())
	askEnded(t, out, err, "paid 0", "paid 1")
}

// timeSignalOnce checks a step in which many nodes wait for signals with the same name
// from many senders.
func timeSignalOnce(t *testing.T, open opener) {
	const n = 12
	b := treadle.New[askState]("many")
	one := treadle.AddNode(b, "one", func(ctx context.Context, _ int) (askLog, error) {
		p, err := treadle.WaitFor[payment](ctx, "payment", nil)
		return askSay(fmt.Sprint(p.Amount)), err
	})
	treadle.AddNode(b, "all", func(context.Context, askState) (treadle.Goto, error) {
		var out treadle.Goto
		for i := range n {
			out = append(out, treadle.Send(one, i)...)
		}
		return out, nil
	}, treadle.Destinations("one"))
	b.Edge(treadle.Start, "all")
	g, err := b.Compile(&treadle.Options{Saver: open(t)})
	if err != nil {
		t.Fatal(err)
	}
	th := g.Thread("t")
	_, err = th.Run(t.Context(), askState{})
	if ps := timePauses(t, err); len(ps) != n {
		t.Fatalf("%d wait, want %d", len(ps), n)
	}
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- g.Thread("t").Signal(t.Context(), "payment", payment{Amount: i}) }()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	out, err := th.Continue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Clone([]string(out.Log))
	slices.SortFunc(got, func(a, b string) int { return strings.Compare(fmt.Sprintf("%3s", a), fmt.Sprintf("%3s", b)) })
	for i := range n {
		if len(got) != n || got[i] != fmt.Sprint(i) {
			t.Fatalf("nodes got %q, want each signal once", got)
		}
	}
}

func timeSignalAgain(t *testing.T, open opener) {
	saver, fail := open(t), true
	g := timeChain(t, "g", saver, func(ctx context.Context) (string, error) {
		said, err := timePaid(ctx)
		if err != nil {
			return "", err
		}
		if fail {
			return "", errors.New("broken")
		}
		more, err := timePaid(ctx)
		return said + " and " + more, err
	})
	th := g.Thread("t")
	_, err := th.Run(t.Context(), askState{})
	timePauses(t, err)
	for i := range 2 {
		if err := th.Signal(t.Context(), "payment", payment{Amount: i}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := th.Continue(t.Context()); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Fatalf("%v, want the node's error", err)
		}
	}
	fail = false
	out, err := th.Continue(t.Context())
	askEnded(t, out, err, "paid 0 and paid 1")
}

func timeSignalNeeds(t *testing.T, open opener) {
	saver := open(t)
	g := timeChain(t, "g", saver, timePaid)
	ctx := t.Context()
	if _, err := treadle.WaitFor[int](ctx, "x", nil); !errors.Is(err, treadle.ErrOutsideRun) {
		t.Errorf("outside a run: %v, want ErrOutsideRun", err)
	}
	if _, err := timeChain(t, "g", nil, timePaid).Run(ctx, askState{}); !errors.Is(err, treadle.ErrNoSaver) {
		t.Errorf("without a saver: %v, want ErrNoSaver", err)
	}
	err := g.Thread("nobody").Signal(ctx, "payment", 1)
	if !errors.Is(err, checkpoint.ErrNotFound) || !strings.Contains(err.Error(), `thread "nobody": signal "payment": thread does not exist`) {
		t.Errorf("a thread that does not exist: %v", err)
	}
	if err := g.Thread("").Signal(ctx, "payment", 1); !errors.Is(err, treadle.ErrNoThread) {
		t.Errorf("thread without a name: %v", err)
	}
	_, err = g.Thread("t").Run(ctx, askState{})
	timePauses(t, err)
	askUnchanged(t, saver, "signals that make no sense", func() {
		for want, send := range map[string]func() error{
			"missing name":        func() error { return g.Thread("t").Signal(ctx, "", 1) },
			"cannot encode value": func() error { return g.Thread("t").Signal(ctx, "payment", func() {}) },
			"invalid value":       func() error { return g.Thread("t").Signal(ctx, "payment", "a lot") },
			`thread "t" belongs to graph "g"`: func() error {
				return timeChain(t, "h", saver, timePaid).Thread("t").Signal(ctx, "payment", payment{})
			},
		} {
			if err := send(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want an error with %q", err, want)
			}
		}
	})
	nameless := timeChain(t, "g", saver, func(ctx context.Context) (string, error) { return treadle.WaitFor[string](ctx, "", nil) })
	if _, err := nameless.Thread("nameless").Run(ctx, askState{}); err == nil || !strings.Contains(err.Error(), "missing name") {
		t.Errorf("a signal without a name: %v", err)
	}
}

func timeSignalMisfit(t *testing.T, open opener) {
	th := timeChain(t, "g", open(t), func(ctx context.Context) (string, error) { return treadle.Interrupt[string](ctx, "go on?") }, timePaid).Thread("t")
	_, err := th.Run(t.Context(), askState{})
	timePauses(t, err)
	for _, v := range []any{"a lot", payment{Amount: 3}} { // the first arrives before its type can be checked
		if err := th.Signal(t.Context(), "payment", v); err != nil {
			t.Fatal(err)
		}
	}
	_, err = th.Resume(t.Context(), "yes")
	if e, ok := errors.AsType[*treadle.AnswerError](err); !ok || string(e.Answer) != `"a lot"` {
		t.Fatalf("%v, want an AnswerError", err)
	}
	out, err := th.Continue(t.Context())
	askEnded(t, out, err, "yes", "paid 3")
}

func timeSignalDeadline(t *testing.T, open opener) {
	saver := open(t)
	waits := func(d time.Duration, onTimeout any) func(ctx context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			p, err := treadle.WaitFor[payment](ctx, "payment", &treadle.WaitOptions{Deadline: time.Now().Add(d), OnTimeout: onTimeout})
			if e, ok := errors.AsType[*treadle.DeadlineError](err); ok {
				return e.Pause.Key + " missed", nil
			}
			return fmt.Sprint("paid ", p.Amount), err
		}
	}
	g := timeChain(t, "g", saver, waits(timeShort, nil), waits(timeShort, payment{Amount: -1}), waits(time.Hour, nil))
	out, err := g.Thread("t").Run(t.Context(), askState{})
	for len(out.Log) < 2 {
		ps := timePauses(t, err)
		if err := delay.For(t.Context(), time.Until(ps[0].Due)); err != nil {
			t.Fatal(err)
		}
		out, err = g.Thread("t").Continue(t.Context())
	}
	due := timePauses(t, err)[0].Due
	if time.Until(due) < time.Minute {
		t.Errorf("deadline of the last: %v", due)
	}
	if err := g.Thread("t").Signal(t.Context(), "payment", payment{Amount: 5}); err != nil {
		t.Fatal(err)
	}
	out, err = g.Thread("t").Continue(t.Context())
	askEnded(t, out, err, "payment missed", "paid -1", "paid 5")
}

func timeSignalDurability(t *testing.T, open opener) {
	for _, d := range []treadle.Durability{treadle.Sync, treadle.Async, treadle.Exit} {
		th := timeChain(t, fmt.Sprint("g", d), open(t), func(context.Context) (string, error) { return "first", nil }, timePaid, timePaid).Thread("t", d)
		_, err := th.Run(t.Context(), askState{})
		timePauses(t, err)
		for i := range 2 {
			if err := th.Signal(t.Context(), "payment", payment{Amount: i}); err != nil {
				t.Fatal(err)
			}
		}
		out, err := th.Continue(t.Context())
		for range 2 { // with Exit, a run receives signals only at saved checkpoints
			if _, ok := errors.AsType[*treadle.InterruptError](err); ok && d == treadle.Exit {
				out, err = th.Continue(t.Context())
			}
		}
		askEnded(t, out, err, "first", "paid 0", "paid 1")
	}
}

func timeSignalRollback(t *testing.T, open opener) {
	saver := open(t)
	g := timeChain(t, "g", saver, timePaid, func(ctx context.Context) (string, error) { return treadle.Interrupt[string](ctx, "keep it?") })
	_, err := g.Thread("t", treadle.RunID("one")).Run(t.Context(), askState{})
	timePauses(t, err)
	if err := g.Thread("t").Signal(t.Context(), "payment", payment{Amount: 9}); err != nil {
		t.Fatal(err)
	}
	_, err = g.Thread("t", treadle.RunID("two")).Continue(t.Context())
	if ps := timePauses(t, err); string(ps[0].Value) != `"keep it?"` {
		t.Fatalf("waits for %v", ps)
	}
	if _, err := saver.(checkpoint.RunDeleter).DeleteRuns(t.Context(), "t", []string{"two"}); err != nil {
		t.Fatal(err)
	}
	_, err = g.Thread("t", treadle.RunID("three")).Continue(t.Context())
	timePauses(t, err)
	out, err := g.Thread("t").Resume(t.Context(), "yes")
	askEnded(t, out, err, "paid 9", "yes")
}

// timeSignalList checks the list of signals before, while, and after nodes take them.
func timeSignalList(t *testing.T, open opener) {
	saver := open(t)
	g := timeChain(t, "g", saver, timePaid, func(ctx context.Context) (string, error) { return treadle.Interrupt[string](ctx, "keep it?") }, timePaid)
	th := g.Thread("t", treadle.RunID("run"))
	listed := func(want ...string) {
		t.Helper()
		signals, err := th.Signals(t.Context())
		var got []string
		for _, s := range signals {
			got = append(got, s.Name+" "+string(s.Value))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("signals: %q, %v, want %q", got, err, want)
		}
	}
	send := func(name string, value any) {
		t.Helper()
		if err := th.Signal(t.Context(), name, value); err != nil {
			t.Fatal(err)
		}
	}
	listed() // the thread does not exist
	_, err := th.Run(t.Context(), askState{})
	timePauses(t, err)
	listed()
	send("payment", payment{Amount: 1})
	send("refund", 7)
	send("payment", payment{Amount: 2})
	send("order", "x")
	listed(`order "x"`, `payment {"amount":1}`, `payment {"amount":2}`, `refund 7`)
	_, err = g.Thread("t", treadle.RunID("next")).Continue(t.Context())
	timePauses(t, err)
	listed(`order "x"`, `payment {"amount":2}`, `refund 7`)
	if _, err := saver.(checkpoint.RunDeleter).DeleteRuns(t.Context(), "t", []string{"next"}); err != nil {
		t.Fatal(err)
	}
	listed(`order "x"`, `payment {"amount":1}`, `payment {"amount":2}`, `refund 7`)
	_, err = th.Continue(t.Context())
	timePauses(t, err)
	out, err := th.Resume(t.Context(), "yes")
	askEnded(t, out, err, "paid 1", "yes", "paid 2")
	listed(`order "x"`, `refund 7`)

	_, err = timeChain(t, "other", saver, timePaid).Thread("t").Signals(t.Context())
	if _, ok := errors.AsType[*treadle.GraphError](err); !ok {
		t.Errorf("signals of another graph's thread: %v, want a GraphError", err)
	}
	if _, err := g.Thread("").Signals(t.Context()); !errors.Is(err, treadle.ErrNoThread) {
		t.Errorf("signals without a thread: %v", err)
	}
}

func timeGraphs(t *testing.T, open opener) {
	saver := open(t)
	node := func(context.Context) (string, error) { return "x", nil }
	if _, err := timeChain(t, "first", saver, node).Thread("t").Run(t.Context(), askState{}); err != nil {
		t.Fatal(err)
	}
	second := timeChain(t, "second", saver, node)
	_, err := second.Thread("t").Continue(t.Context())
	e, ok := errors.AsType[*treadle.GraphError](err)
	if !ok || e.Graph != "second" || e.Of != "first" || e.Thread != "t" || e.Namespace != "" {
		t.Errorf("%v, want a GraphError", err)
	}
}
