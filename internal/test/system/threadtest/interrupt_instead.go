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
	"github.com/treadle-go/treadle/dynamic"
)

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
		out, err := rig.thread().Resume(t.Context(), "A", treadle.WithUpdate(askNote{"new"}))
		first := askedStrings(t, err, "b?")
		if out.Note != "new" {
			t.Errorf("note %q", out.Note)
		}
		snap := askNext(t, rig, "ask")
		if snap.Tasks[0].ID != task || snap.State.String() != `{"log":[],"note":"new"}` || snap.Source != checkpoint.Update {
			t.Errorf("after the update: task %s, values %s, source %v", snap.Tasks[0].ID, snap.State, snap.Source)
		}
		// An update alone leaves the interrupt pending.
		_, err = rig.thread().Continue(t.Context(), treadle.WithUpdate(treadle.Update{"note": "newer", "log": []string{"edit"}}))
		again := askedStrings(t, err, "b?")
		if again[0].ID != first[0].ID {
			t.Error("update changed the question's id")
		}
		out, err = rig.thread().Resume(t.Context(), treadle.Answers{again[0].ID: "B"})
		askEnded(t, out, err, "edit", "newer", "A", "B")
		rig.tally.want(t, "ask old", "ask new", "ask newer", "ask newer")
	})
	t.Run("a fresh thread", func(t *testing.T) {
		rig := &askRig[askState, askState]{t: t, saver: open(t), tally: &askTally{}, build: build}
		if _, err := rig.thread().Continue(t.Context(), treadle.WithUpdate(askNote{"x"})); !errors.Is(err, treadle.ErrNothingToContinue) {
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
		treadle.AddBranch(b, "ask", func(context.Context, askState) (treadle.Goto, error) { return treadle.To(treadle.End), nil }, "extra", treadle.End)
		return b.Compile(&treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "ask?")
		out, err := rig.thread().Resume(t.Context(), "A", treadle.WithUpdate(treadle.Command[askNote]{Update: &askNote{"n"}, Goto: treadle.To("extra")}))
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
			for _, err := range dynamic.Open(rig.graph(), "t").CommandJSON(t.Context(), json.RawMessage(raw)) {
				last = err
			}
			return last
		}
		if _, err := dynamic.Open(rig.graph(), "t").RunJSON(t.Context(), json.RawMessage(`{}`)); err == nil {
			t.Fatal("no question")
		} else {
			askedStrings(t, err, "a?", "b?")
		}
		snap := askNext(t, rig, "a", "b")
		askUnchanged(t, rig.saver, "a bad command", func() {
			for _, raw := range []string{`{}`, `[]`, `{"update":{"note":"x"},"gto":"a"}`, `{"goto":[{"node":"a","inptu":{}}]}`, `{"resume":"x"}`, `{"goto":7}`, `{"resume":{"` + strings.Repeat("0", 32) + `":"x"}}`} {
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
		if snap := askNext(t, rig); snap.State.String() != `{"log":["a=A","b=B"],"note":"x"}` {
			t.Errorf("values %s", snap.State)
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
		rig.tally.want(t, "a", "p") // both run again
		if ps[0].ID == old[0].ID {
			t.Error("new turn asks with the old id")
		}
		if _, err := rig.thread().Resume(t.Context(), treadle.Answers{old[0].ID: "x"}); !errors.Is(err, treadle.ErrUnknownInterrupt) {
			t.Errorf("abandoned question takes an answer: %v", err)
		}
		out, err := rig.thread().Resume(t.Context(), "A")
		askEnded(t, out, err, "a=A", "p") // p's write in the abandoned step is lost with the step
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
			if snap.State.String() != `{"log":["done"]}` || snap.Tasks[1].Name != "done" || snap.Tasks[1].Result.String() != `{"log":["done"]}` {
				t.Errorf("values %s, tasks %+v", snap.State, snap.Tasks)
			}
			if _, err := rig.thread().Update(t.Context(), askSay("edit"), treadle.AsNode("ask")); err != nil {
				t.Fatal(err)
			}
			if snap := askNext(t, rig, "end"); snap.State.String() != `{"log":["done","edit"]}` {
				t.Errorf("values %s", snap.State)
			}
			out, err := rig.thread().Continue(t.Context())
			askEnded(t, out, err, "done", "edit", "end")
			rig.tally.want(t, "ask", "done", "end")
		})
	})
}
