package chaostest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/reduce"
	"github.com/treadle-go/treadle/wait"
)

// steps are how many steps with an effect a run has.
const steps = 6

type state struct {
	Log   reduce.List[string] `json:"log"`
	Step  int                 `json:"step"`
	Kind  string              `json:"kind"`
	Reply string              `json:"reply"`
	Delay int                 `json:"delay"` // of an effect, in milliseconds; 0 means 30
}

// newGraph is a graph that does one of several things, each with effects outside:
//
//	plain   steps one after the other
//	sends   each step sends three tasks
//	asks    asks a question in the middle
//	sleeps  sleeps in the middle, until a server wakes it up
func newGraph(pool *pgxpool.Pool) (treadle.AnyGraph, error) {
	b := treadle.New[state]("chaos")
	treadle.AddNode(b, "work", func(ctx context.Context, s state) (treadle.Update, error) {
		done, err := effect(ctx, pool, s.Step, "", s.Delay)
		if err != nil {
			return nil, err
		}
		if s.Kind == "asks" && s.Step == steps/2 {
			reply, err := treadle.Interrupt[string](ctx, "go on?")
			if err != nil {
				return nil, err
			}
			return treadle.Update{"log": reduce.List[string]{done}, "step": s.Step + 1, "reply": reply}, nil
		}
		if s.Kind == "sleeps" && s.Step == steps/2 {
			if err := wait.Sleep(ctx, 500*time.Millisecond); err != nil {
				return nil, err
			}
		}
		return treadle.Update{"log": reduce.List[string]{done}, "step": s.Step + 1}, nil
	})
	treadle.AddNode(b, "part", func(ctx context.Context, p part) (treadle.Update, error) {
		done, err := effect(ctx, pool, p.Step, p.Name, 0)
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
		case s.Step >= steps:
			return treadle.To(treadle.End), nil
		case s.Kind == "sends":
			return slices.Concat(treadle.Send("part", part{s.Step, "a"}), treadle.Send("part", part{s.Step, "b"}), treadle.Send("part", part{s.Step, "c"})), nil
		default:
			return treadle.To("work"), nil
		}
	}
	b.Branch(treadle.Start, next, "work", "part", treadle.End)
	b.Branch("work", next, "work", "part", treadle.End)
	b.Edge("part", "join")
	b.Branch("join", next, "work", "part", treadle.End)
	return b.Compile(nil)
}

type part struct {
	Step int    `json:"step"`
	Name string `json:"name"`
}

// effect does something outside: it inserts a row. The row says which step of which
// thread it is of.
func effect(ctx context.Context, pool *pgxpool.Pool, step int, name string, ms int) (string, error) {
	return treadle.Do(ctx, "effect", func(ctx context.Context) (string, error) {
		if err := delay.For(ctx, time.Duration(cmp.Or(ms, 30))*time.Millisecond); err != nil {
			return "", err
		}
		info := treadle.InfoFrom(ctx)
		done := fmt.Sprintf("%d%s", step, name)
		for {
			_, err := pool.Exec(ctx, "INSERT INTO chaos_effects (thread, step, name, key, pid) VALUES ($1, $2, $3, $4, $5)", info.Thread, step, name, info.IdempotencyKey, os.Getpid())
			if err == nil {
				return done, nil
			}
			// The database is that of the server, and may be down too.
			if delay.For(ctx, 100*time.Millisecond) != nil {
				return "", err
			}
		}
	})
}

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

// newTalk is a graph without effects whose steps send events, for measurements.
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
	b.Branch("say", func(_ context.Context, s talking) (treadle.Goto, error) {
		if s.Steps > 0 {
			return treadle.To("say"), nil
		}
		return treadle.To(treadle.End), nil
	}, "say", treadle.End)
	return b.Compile(nil)
}
