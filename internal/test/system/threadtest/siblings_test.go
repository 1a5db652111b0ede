package threadtest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// counted is a saver that counts the results it is given ahead of a commit.
type counted struct {
	checkpoint.Saver
	calls, results int
}

func (c *counted) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	c.calls++
	c.results += len(ws)
	return c.Saver.PutWrites(ctx, at, fence, ws)
}

// Results are stored ahead of the step's commit if it pays: not if the step is
// over in a moment, nor if the tasks took less time than storing would, nor
// under a durability that stores later by choice.
func TestResultsAreStoredAheadIfItPays(t *testing.T) {
	for _, c := range []struct {
		name           string
		opt            treadle.RunOption
		quick          int
		slow           []time.Duration // after which each of the others ends
		calls, results int
	}{
		{"over at once", treadle.Sync, 2, nil, 0, 0},
		{"over in a moment", treadle.Sync, 2, []time.Duration{500 * time.Microsecond}, 0, 0},
		{"one takes long", treadle.Sync, 2, []time.Duration{time.Hour}, 1, 2},
		{"one after the other", treadle.Sync, 1, []time.Duration{time.Minute, time.Hour, 2 * time.Hour}, 3, 3},
		{"a single task", treadle.Sync, 0, []time.Duration{time.Hour}, 0, 0},
		{"many, over before storing them would be", treadle.Sync, 1000, []time.Duration{10 * time.Millisecond}, 0, 0},
		{"many, and one takes long", treadle.Sync, 1000, []time.Duration{30 * time.Millisecond}, 1, 1000},
		{"async", treadle.Async, 2, []time.Duration{time.Hour}, 0, 0},
		{"exit", treadle.Exit, 2, []time.Duration{time.Hour}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type state struct{ N reduce.Sum[int] }
				type wrote struct{ N reduce.Sum[int] }
				type item struct{ Wait time.Duration }
				saver := &counted{Saver: checkpoint.NewMemory()}
				b := treadle.New[state]("pay")
				worker := treadle.AddNode(b, "worker", func(_ context.Context, i item) (wrote, error) {
					if i.Wait > 0 {
						<-time.After(i.Wait)
					}
					return wrote{reduce.SumOf(1)}, nil
				})
				treadle.AddNode(b, "spread", func(context.Context, state) (treadle.Goto, error) {
					var to treadle.Goto
					for range c.quick {
						to = append(to, treadle.Send(worker, item{})...)
					}
					for _, wait := range c.slow {
						to = append(to, treadle.Send(worker, item{wait})...)
					}
					return to, nil
				}, treadle.Destinations("worker"))
				b.Edge(treadle.Start, "spread")
				g, err := b.Compile(&treadle.Options{Saver: saver})
				if err != nil {
					t.Fatal(err)
				}
				out, err := g.Thread("t", c.opt).Run(t.Context(), state{})
				if want := c.quick + len(c.slow); err != nil || out.N.N != want {
					t.Fatalf("%d tasks counted, %v; want %d", out.N.N, err, want)
				}
				if saver.calls != c.calls || saver.results != c.results {
					t.Errorf("%d results were stored ahead in %d calls, want %d in %d", saver.results, saver.calls, c.results, c.calls)
				}
			})
		})
	}
}
