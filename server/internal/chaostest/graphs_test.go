package chaostest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/reduce"
)

// steps is the default number of steps of a turn.
const steps = 6

type state struct {
	Log   reduce.List[string] `json:"log"`
	Step  int                 `json:"step"`
	Steps int                 `json:"steps"` // of a turn; 0 means the default
	Turn  int                 `json:"turn"`
	Kind  string              `json:"kind"`
	Reply string              `json:"reply"`
	Delay int                 `json:"delay"` // of an effect, in milliseconds; 0 means 30
	Sleep int                 `json:"sleep"` // in milliseconds; 0 means 500
}

// last returns the number of steps of the turn.
func (s *state) last() int { return cmp.Or(s.Steps, steps) }

// newGraph returns a graph whose turns do one of several things, each with effects
// outside:
//
//	plain    takes steps one after the other
//	sends    sends three tasks in each step
//	asks     interrupts in the middle
//	sleeps   sleeps in the middle, until a server wakes the thread up
//	signals  waits for a signal in the middle
//	ticks    is plain, and names the run, since all runs of a cron have the same input
func newGraph(sink *sinkClient) (treadle.AnyGraph, error) {
	b := treadle.New[state]("chaos")
	treadle.AddNode(b, "work", func(ctx context.Context, s state) (treadle.Update, error) {
		name := ""
		if s.Kind == "ticks" {
			name = " of " + treadle.InfoFrom(ctx).RunID
		}
		done, err := do(ctx, sink, s.Turn, s.Step, name, s.Delay)
		if err != nil {
			return nil, err
		}
		update := treadle.Update{"log": reduce.List[string]{done}, "step": s.Step + 1}
		if s.Step == s.last()/2 {
			switch s.Kind {
			case "asks":
				update["reply"], err = treadle.Interrupt[string](ctx, "go on?")
			case "sleeps":
				err = treadle.Sleep(ctx, time.Duration(cmp.Or(s.Sleep, 500))*time.Millisecond)
			case "signals":
				update["reply"], err = treadle.WaitFor[string](ctx, "go", nil)
			}
			if err != nil {
				return nil, err
			}
		}
		return update, nil
	})
	treadle.AddNode(b, "part", func(ctx context.Context, p part) (treadle.Update, error) {
		done, err := do(ctx, sink, p.Turn, p.Step, p.Name, p.Delay)
		if err != nil {
			return nil, err
		}
		return treadle.Update{"log": reduce.List[string]{done}}, nil
	})
	treadle.AddNode(b, "join", func(_ context.Context, s state) (treadle.Update, error) {
		return treadle.Update{"step": s.Step + 1}, nil
	})
	next := func(_ context.Context, s state) (treadle.Goto, error) {
		switch {
		case s.Step >= s.last():
			return treadle.To(treadle.End), nil
		case s.Kind == "sends":
			return slices.Concat(treadle.Send("part", part{s.Turn, s.Step, s.Delay, "a"}), treadle.Send("part", part{s.Turn, s.Step, s.Delay, "b"}),
				treadle.Send("part", part{s.Turn, s.Step, s.Delay, "c"})), nil
		default:
			return treadle.To("work"), nil
		}
	}
	treadle.AddBranch(b, treadle.Start, next, "work", "part", treadle.End)
	treadle.AddBranch(b, "work", next, "work", "part", treadle.End)
	b.Edge("part", "join")
	treadle.AddBranch(b, "join", next, "work", "part", treadle.End)
	return b.Compile(nil)
}

type part struct {
	Turn  int    `json:"turn"`
	Step  int    `json:"step"`
	Delay int    `json:"delay"`
	Name  string `json:"name"`
}

// do reports to the sink when an effect starts, when it has happened, and when it is
// recorded.
func do(ctx context.Context, sink *sinkClient, turn, step int, name string, ms int) (string, error) {
	done, err := treadle.Do(ctx, "effect", func(ctx context.Context) (string, error) {
		if err := sink.post(ctx, "begin", turn, step, name); err != nil {
			return "", err
		}
		if err := delay.For(ctx, time.Duration(cmp.Or(ms, 30))*time.Millisecond); err != nil {
			return "", err
		}
		if err := sink.post(ctx, "done", turn, step, name); err != nil {
			return "", err
		}
		return logged(turn, step, name), nil
	})
	if err != nil {
		return "", err
	}
	return done, sink.post(ctx, "recorded", turn, step, name)
}

// logged returns the log entry of an effect.
func logged(turn, step int, name string) string { return fmt.Sprintf("%d.%d%s", turn, step, name) }

// talking is the state of the graph talk.
type talking struct {
	Steps  int `json:"steps"`  // how many more there are
	Events int `json:"events"` // of each step
	Every  int `json:"every"`  // milliseconds between them
}

// said is an event of the graph talk.
type said struct {
	At int64 `json:"at"` // nanoseconds since 1970
}

// newTalk returns a graph without effects whose steps send events, for measurements.
func newTalk() (treadle.AnyGraph, error) {
	b := treadle.New[talking]("talk")
	treadle.AddNode(b, "say", func(ctx context.Context, s talking) (treadle.Update, error) {
		for range s.Events {
			if err := delay.For(ctx, time.Duration(s.Every)*time.Millisecond); err != nil {
				return nil, err
			}
			treadle.Emit(ctx, said{time.Now().UnixNano()})
		}
		return treadle.Update{"steps": s.Steps - 1}, nil
	})
	b.Edge(treadle.Start, "say")
	treadle.AddBranch(b, "say", func(_ context.Context, s talking) (treadle.Goto, error) {
		if s.Steps > 0 {
			return treadle.To("say"), nil
		}
		return treadle.To(treadle.End), nil
	}, "say", treadle.End)
	return b.Compile(nil)
}
