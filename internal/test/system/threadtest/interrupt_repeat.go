package threadtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// dyingSaver is the saver of a process that is killed as soon as answers are saved: no
// later write arrives.
type dyingSaver struct {
	checkpoint.Saver
	dead bool
}

var errDead = errors.New("the process is gone")

func (s *dyingSaver) Put(ctx context.Context, p *checkpoint.Put) error {
	if s.dead {
		return errDead
	}
	return s.Saver.Put(ctx, p)
}

func (s *dyingSaver) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	if s.dead {
		return errDead
	}
	for _, w := range ws {
		s.dead = s.dead || w.Kind == checkpoint.Answers
	}
	return s.Saver.PutWrites(ctx, at, fence, ws)
}

// interruptRepeated checks that a client that does not know whether its answer arrived
// can send it again: if the run has not continued, the effect is the same. A different
// answer is rejected, because the first may have had effects.
func interruptRepeated(t *testing.T, open opener) {
	fan := askFan(asking("left"), asking("right"))
	nested := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		leaf := treadle.New[askState]("leaf")
		treadle.AddNode(leaf, "one", askNode(c, "one"))
		treadle.AddNode(leaf, "two", askPlain(c, "two"))
		leaf.Sequence(treadle.Start, "one", "two")
		g, err := askNest(leaf, c, 1)
		if err != nil {
			return nil, err
		}
		return askOuter(&treadle.Options{Saver: saver}, func(b *treadle.Builder[askState]) { treadle.AddGraph(b, "sub", g) })
	}
	for name, test := range map[string]struct {
		build askBuild[askState, askState]
		asks  []string
		other any // an answer that differs from the first
		give  func(ps []treadle.Pause) any
		end   []string
	}{
		"One":  {askChain(asking("one"), plain("two")), []string{"one?"}, "2", func([]treadle.Pause) any { return "1" }, []string{"one=1", "two"}},
		"ByID": {askChain(asking("one")), []string{"one?"}, "2", func(ps []treadle.Pause) any { return treadle.Answers{ps[0].ID: "1"} }, []string{"one=1"}},
		"Several": {fan, []string{"left?", "right?"}, "2", func(ps []treadle.Pause) any {
			return treadle.Answers{ps[0].ID: "1", ps[1].ID: "1"}
		}, []string{"left=1", "right=1"}},
		"Nested":      {nested, []string{"one?"}, "2", func([]treadle.Pause) any { return "1" }, []string{"pre0", "one=1", "two"}},
		"FromStart":   {askRouted(askRoutes["Branch"], treadle.Start, nil), []string{"where?"}, "a", func([]treadle.Pause) any { return "b" }, []string{"b"}},
		"NestedStart": {askRouted(askRoutes["Branch"], treadle.Start, askNestings["Nested"]), []string{"where?"}, "a", func(ps []treadle.Pause) any { return treadle.Answers{ps[0].ID: "b"} }, []string{"b"}},
	} {
		for _, d := range []treadle.Durability{treadle.Sync, treadle.Async, treadle.Exit} {
			t.Run(fmt.Sprint(name, "/", d), func(t *testing.T) {
				saver := open(t)
				on := func(saver checkpoint.Saver) *treadle.Thread[askState, askState] {
					g, err := test.build(saver, &askTally{})
					if err != nil {
						t.Fatal(err)
					}
					return g.Thread("t", d)
				}
				_, err := on(saver).Run(t.Context(), askState{})
				ps := askedStrings(t, err, test.asks...)
				answer := test.give(ps)
				if _, err := on(&dyingSaver{Saver: saver}).Resume(t.Context(), answer); !errors.Is(err, errDead) {
					t.Fatalf("process that was to die: %v", err)
				}
				other := map[string]any{}
				for _, p := range ps {
					other[p.ID] = test.other
				}
				askUnchanged(t, saver, "an answer that is refused", func() {
					if _, err := on(saver).Resume(t.Context(), test.other); !errors.Is(err, treadle.ErrNothingToResume) {
						t.Errorf("another answer: %v", err)
					}
					if _, err := on(saver).Resume(t.Context(), treadle.Answers(other)); !errors.Is(err, treadle.ErrUnknownInterrupt) {
						t.Errorf("another answer by id: %v", err)
					}
					if _, err := on(saver).Resume(t.Context(), answer, treadle.WithUpdate(askNote{"x"})); err == nil {
						t.Error("same answer with an update, which may have been made, is taken")
					}
				})
				out, err := on(saver).Resume(t.Context(), answer)
				askEnded(t, out, err, test.end...)
				if _, err := on(saver).Resume(t.Context(), answer); !errors.Is(err, treadle.ErrNothingToResume) {
					t.Errorf("same answer when all is done: %v", err)
				}
			})
		}
	}
}

// interruptRepeatedInPart checks that some answers may be repeated while others are new.
func interruptRepeatedInPart(t *testing.T, open opener) {
	saver := open(t)
	on := func(saver checkpoint.Saver) *treadle.Thread[askState, askState] {
		g, err := askFan(asking("left"), asking("right"))(saver, &askTally{})
		if err != nil {
			t.Fatal(err)
		}
		return g.Thread("t")
	}
	_, err := on(saver).Run(t.Context(), askState{})
	ps := askedStrings(t, err, "left?", "right?")
	if _, err := on(&dyingSaver{Saver: saver}).Resume(t.Context(), treadle.Answers{ps[0].ID: "1"}); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	out, err := on(saver).Resume(t.Context(), treadle.Answers{ps[0].ID: "1", ps[1].ID: "2"})
	askEnded(t, out, err, "left=1", "right=2")
}
