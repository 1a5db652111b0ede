package threadtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// Races is the suite for threads that several handles use at the same time, and for
// graphs whose cached thread is out of date.
var Races = Suite{
	{"LoserIsTold", concurrent, raceLoser},
	{"EveryInputCountsOnce", concurrent, raceMany},
	{"MemoryIsCheckedAgainstThread", concurrent, raceInterleaved},
}

func raceLoser(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, d := range durabilities {
		if d.opt == treadle.Async {
			continue // either may lose: the run's own puts may come after the rival's
		}
		for _, rival := range []string{"run", "update", "fork"} {
			t.Run(d.name+rival, func(t *testing.T) {
				w, w2, saver := &kitWorld{}, &kitWorld{}, open(t)
				mine, theirs := kitChain("a", "b")(t, w, saver), kitChain("a", "b")(t, w2, saver)
				kitRun(t, mine.Thread("t"), kitState{}, "a", "b")
				start := kitHistory(t, mine.Thread("t"))
				var want []string // the thread as the rival leaves it
				w.on("a", func(context.Context) error {
					w.on("a", nil)
					th := theirs.Thread("t")
					switch rival {
					case "run":
						if _, err := th.Run(t.Context(), kitState{N: 2}); err != nil {
							t.Errorf("rival: %v", err)
						}
					case "update":
						if _, err := th.Update(t.Context(), kitSay("edit"), treadle.AsNode("b")); err != nil {
							t.Errorf("rival: %v", err)
						}
					case "fork":
						if _, err := th.At(kitAt(t, start, "b").ID).Continue(t.Context()); err != nil {
							t.Errorf("rival: %v", err)
						}
					}
					want = kitLines(kitHistory(t, th))
					return nil
				})
				_, err := mine.Thread("t", d.opt).Run(t.Context(), kitState{N: 3})
				if !errors.Is(err, checkpoint.ErrConflict) {
					t.Fatalf("run: %v, want ErrConflict", err)
				}
				if diff := cmp.Diff(want, kitLines(kitHistory(t, mine.Thread("t")))); diff != "" {
					t.Errorf("thread has changed after the rival (-rival's +now):\n%s", diff)
				}
				if _, err := mine.Thread("t", d.opt).Run(t.Context(), kitState{N: 3}); err != nil {
					t.Errorf("second try: %v", err)
				}
				var got kitState
				if err := kitStateOf(t, mine.Thread("t")).Read(&got); err != nil || got.N != 3 {
					t.Errorf("after the second try n is %d, %v; want 3", got.N, err)
				}
			})
		}
	}
}

func raceMany(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	const writers = 8
	saver := open(t)
	w := &kitWorld{}
	var wg sync.WaitGroup
	for i := range writers {
		g := kitChain("a")(t, w, saver)
		wg.Go(func() {
			for range 1000 {
				_, err := g.Thread("t").Run(t.Context(), kitState{Log: reduce.List[string]{fmt.Sprint("in ", i)}})
				if err == nil {
					return
				}
				if !errors.Is(err, checkpoint.ErrConflict) {
					t.Errorf("writer %d: %v", i, err)
					return
				}
				// An input that was saved before the race was lost still counts.
				if snap, err := g.Thread("t").State(t.Context()); err != nil || strings.Contains(snap.State.String(), fmt.Sprintf("%q", fmt.Sprint("in ", i))) {
					return
				}
			}
			t.Errorf("writer %d never won", i)
		})
	}
	wg.Wait()
	g := kitChain("a")(t, w, saver)
	snaps := kitHistory(t, g.Thread("t"))
	for i, s := range snaps[:len(snaps)-1] {
		if s.Parent != snaps[i+1].ID {
			t.Fatalf("history is not one line at %s", kitLine(s))
		}
	}
	if _, err := g.Thread("t").Continue(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got kitState
	if err := kitStateOf(t, g.Thread("t")).Read(&got); err != nil {
		t.Fatal(err)
	}
	for i := range writers {
		word, n := fmt.Sprint("in ", i), 0
		for _, l := range got.Log {
			if l == word {
				n++
			}
		}
		if n != 1 {
			t.Errorf("input %q is there %d times, want once: %v", word, n, got.Log)
		}
	}
}

// raceInterleaved uses a thread alternately with two graphs, each of which caches what it
// last saw, and another thread with a new graph each time: they must always agree.
func raceInterleaved(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver, plain := open(t), open(t)
	w := &kitWorld{}
	build := nestLoop([]string{"i"}, treadle.PerThread())
	two := []*kitGraph{build(t, w, saver), build(t, w, saver)}
	seeds := uint64(12)
	if !inMemory(saver) {
		seeds = 4
	}
	for seed := range seeds {
		id := fmt.Sprint("t", seed)
		rng := rand.New(rand.NewPCG(seed, 7))
		var done []string
		for range 14 {
			op := rng.IntN(10)
			at := rng.IntN(1000)
			n := 1 + rng.IntN(2)
			g := two[rng.IntN(2)]
			name := ""
			do := func(g *kitGraph, s checkpoint.Saver) error {
				th := g.Thread(id)
				old := func() *kitThread {
					snaps := kitHistory(t, g.Thread(id))
					if len(snaps) == 0 {
						return th
					}
					return th.At(snaps[at%len(snaps)].ID)
				}
				var err error
				switch op {
				case 0, 1, 2, 3:
					name = "run"
					_, err = th.Run(t.Context(), kitState{N: n})
				case 4:
					name = "failing run"
					w.fail("i", errKit)
					_, err = th.Run(t.Context(), kitState{N: n})
					w.fail("i", nil)
				case 5:
					name = "update"
					_, err = th.Update(t.Context(), kitSay("edit"), treadle.AsNode("again"))
				case 6:
					name = "continue"
					_, err = th.Continue(t.Context())
				case 7:
					name = "fork"
					_, err = old().Continue(t.Context())
				case 8:
					name = "run of old"
					_, err = old().Run(t.Context(), kitState{N: n})
				case 9:
					name = "delete"
					if at%3 == 0 {
						err = s.DeleteThread(t.Context(), id)
					} else {
						name = "edit of old"
						_, err = old().Update(t.Context(), kitSay("old edit"), treadle.AsNode("sub"))
					}
				}
				return err
			}
			err, want := do(g, saver), do(build(t, w, plain), plain)
			done = append(done, fmt.Sprintf("%s by %d", name, slices.Index(two, g)))
			if fmt.Sprint(err != nil) != fmt.Sprint(want != nil) {
				t.Fatalf("seed %d: %v: %v, with a new graph %v", seed, done, err, want)
			}
			fresh := build(t, w, plain).Thread(id)
			if diff := cmp.Diff(kitLines(kitHistory(t, fresh)), kitLines(kitHistory(t, g.Thread(id)))); diff != "" {
				t.Fatalf("seed %d: %v (-new graph each time +two graphs):\n%s", seed, done, diff)
			}
			if a, b := kitLine(kitStateOf(t, fresh)), kitLine(kitStateOf(t, g.Thread(id))); a != b {
				t.Fatalf("seed %d: %v: state %s, with a new graph %s", seed, done, b, a)
			}
		}
	}
}
