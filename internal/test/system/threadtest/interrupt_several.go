package threadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

func interruptSeveral(t *testing.T, open opener) {
	build := askChain(doing("poll", func(c *askTally, ctx context.Context, s askState) (askLog, error) {
		c.add("poll")
		if s.Note == "seen" || len(s.Log) > 0 {
			return askLog{}, fmt.Errorf("node sees unwritten %+v", s)
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
			if snap := askNext(t, rig, "poll"); len(snap.Pauses) != 1 || snap.Pauses[0].ID != p.ID || snap.State.Has("log") && snap.State.String() != `{"log":[]}` {
				t.Errorf("before the answer to %s: questions %v, values %s", q, snap.Pauses, snap.State)
			}
			if i == 2 {
				break
			}
			var answer any = q[:1]
			if i == 1 {
				answer = treadle.Answers{p.ID: q[:1]} // answering by ID is equivalent
			}
			_, err = rig.thread().Resume(t.Context(), answer)
		}
		out, err := rig.thread().Resume(t.Context(), "t")
		askEnded(t, out, err, "first=f", "second=s", "third=t")
		rig.tally.want(t, "poll")
	})
}

func interruptKeys(t *testing.T, open opener) {
	// The set and order of the questions differ between the runs of the node; each answer
	// still finds its question.
	asks := [][]string{{"name"}, {"age", "name"}, {"name", "mail", "age"}, {"mail", "age", "name"}}
	run := 0
	build := askChain(doing("form", func(_ *askTally, ctx context.Context, _ askState) (askLog, error) {
		var log askLog
		for _, q := range asks[run] {
			a, err := treadle.Interrupt[string](ctx, treadle.Question{Value: "your " + q, Key: q})
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
		if got := snap.State.String(); got != `{"log":["mail=the mail","age=the age","name=the name"]}` {
			t.Errorf("values %s", got)
		}
	})
	t.Run("a key is no place in the order", func(t *testing.T) {
		build := askChain(doing("form", func(_ *askTally, ctx context.Context, _ askState) (askLog, error) {
			a, err := treadle.Interrupt[string](ctx, "by order")
			if err != nil {
				return askLog{}, err
			}
			b, err := treadle.Interrupt[string](ctx, treadle.Question{Value: "by key", Key: "#0"})
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
		// An object is a single answer, whatever its keys; only Answers go by ID.
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
		treadle.AddBranch(b, "ask", func(_ context.Context, s askState) (treadle.Goto, error) {
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
				t.Error("round has the id of an earlier one")
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
