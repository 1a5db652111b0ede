package threadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
)

func functionalPrevious(t *testing.T, open opener) {
	build := workflow(func(_ *askTally, ctx context.Context, in string) (string, error) {
		prev, ok := treadle.PreviousFrom[string](ctx)
		if _, other := treadle.PreviousFrom[int](ctx); other {
			return "", errors.New("a string is given as an int")
		}
		if in == "ask" {
			if _, err := treadle.Interrupt[string](ctx, "q"); err != nil {
				return "", err
			}
		}
		if in == "fail" {
			return "", errors.New("failed")
		}
		return fmt.Sprintf("%s after %q %v", in, prev, ok), nil
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[string, string]) {
		out, err := rig.thread().Run(t.Context(), "one")
		gave(t, out, err, `one after "" false`)
		out, err = rig.thread().Run(t.Context(), "two")
		gave(t, out, err, `two after "one after \"\" false" true`)
		// Neither a failed nor an abandoned run saves anything.
		if _, err := rig.thread().Run(t.Context(), "fail"); err == nil {
			t.Fatal("no failure")
		}
		_, err = rig.thread().Run(t.Context(), "ask")
		askedStrings(t, err, "q")
		out, err = rig.thread().Resume(t.Context(), "x")
		gave(t, out, err, `ask after "two after \"one after \\\"\\\" false\" true" true`)
		out, err = rig.graph().Thread("another").Run(t.Context(), "one")
		gave(t, out, err, `one after "" false`)
		for range 2 { // without a thread, there is no previous result
			out, err = rig.graph().Run(t.Context(), "one")
			gave(t, out, err, `one after "" false`)
		}
	})
}

func functionalPreviousUpdate(t *testing.T, open opener) {
	build := workflow(func(_ *askTally, ctx context.Context, in int) (int, error) {
		prev, _ := treadle.PreviousFrom[int](ctx)
		return prev + in, nil
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, int]) {
		out, err := rig.thread().Run(t.Context(), 5)
		gave(t, out, err, 5)
		if _, err := dynamic.Open(rig.graph(), "t").UpdateJSON(t.Context(), json.RawMessage(`100`)); err != nil {
			t.Fatal(err)
		}
		if snap := askNext(t, rig); snap.State.String() != "100" {
			t.Errorf("values %s", snap.State)
		}
		out, err = rig.thread().Run(t.Context(), 1)
		gave(t, out, err, 101)
		if _, err := rig.thread().Update(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		out, err = rig.thread().Run(t.Context(), 1)
		gave(t, out, err, 8)
		askUnchanged(t, rig.saver, "an edit of another type", func() {
			if _, err := dynamic.Open(rig.graph(), "t").UpdateJSON(t.Context(), json.RawMessage(`"seven"`)); err == nil {
				t.Error("workflow of numbers takes a string")
			} else if _, ok := errors.AsType[*treadle.UpdateError](err); !ok {
				t.Errorf("%v, want an UpdateError", err)
			}
		})
	})
}

func functionalFinal(t *testing.T, open opener) {
	type saved struct {
		Sum int `json:"sum"`
	}
	build := func(saver checkpoint.Saver, _ *askTally) (*treadle.Graph[int, string], error) {
		return treadle.NewFinalWorkflow("flow", func(ctx context.Context, in int) (treadle.Final[string, *saved], error) {
			prev, ok := treadle.PreviousFrom[*saved](ctx)
			if !ok || prev == nil {
				prev = &saved{}
			}
			out := treadle.Final[string, *saved]{Value: fmt.Sprint("was ", prev.Sum), Save: &saved{prev.Sum + in}}
			if in == 0 {
				out = treadle.Final[string, *saved]{} // neither a value nor a saved result
			}
			return out, nil
		}, &treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, string]) {
		for _, c := range []struct {
			in   int
			want string
		}{{3, "was 0"}, {4, "was 3"}, {0, ""}, {1, "was 0"}} {
			out, err := rig.thread().Run(t.Context(), c.in)
			gave(t, out, err, c.want)
		}
		if snap := askNext(t, rig); snap.State.String() != `"was 0"` {
			t.Errorf("values %s, want what was returned", snap.State)
		}
	})
}
