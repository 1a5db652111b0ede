package threadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
)

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
	var seen []string // task ID and idempotency key of each run
	note := func(ctx context.Context, what string) {
		info := treadle.InfoFrom(ctx)
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
			t.Errorf("empty identity: %q", node)
		}
		// On a fork, it is a different task.
		snap := askNext(t, rig, "n")
		if f := strings.Fields(node[0]); f[1] != snap.Tasks[0].ID {
			t.Errorf("task: %s in the state and %s inside", snap.Tasks[0].ID, f[1])
		}
		fork, err := rig.thread().At(snap.Parent).Continue(t.Context())
		askedStrings(t, err, "effect?")
		if len(fork.Log) > 0 || len(distinct("node")) != 2 || len(distinct("effect")) != 2 {
			t.Errorf("on a fork the identities are %q and %q, want new ones", distinct("node"), distinct("effect"))
		}
	})
}
