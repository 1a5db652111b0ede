package faulttest_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// dead is a saver behind a network that is down, once it is cut: it answers when
// its context ends.
type dead struct {
	checkpoint.Saver
	cut   atomic.Bool
	asked atomic.Int32
	slow  time.Duration // or it takes so long
}

func (d *dead) wait(ctx context.Context) error {
	if !d.cut.Load() {
		return nil
	}
	d.asked.Add(1)
	if d.slow > 0 {
		select {
		case <-time.After(d.slow):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (d *dead) Put(ctx context.Context, p *checkpoint.Put) error {
	if err := d.wait(ctx); err != nil {
		return err
	}
	return d.Saver.Put(ctx, p)
}

func (d *dead) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	if err := d.wait(ctx); err != nil {
		return err
	}
	return d.Saver.PutWrites(ctx, at, fence, ws)
}

// A run with a deadline comes back although its saver does not answer, and its
// error names both.
func TestRunComesBackFromADeadSaver(t *testing.T) {
	for _, durability := range []treadle.Durability{treadle.Sync, treadle.Async, treadle.Exit} {
		for _, kind := range []string{"put", "effect", "failed step", "nested", "update"} {
			synctest.Test(t, func(t *testing.T) {
				saver := &dead{Saver: checkpoint.NewMemory()}
				b := treadle.New[said]("g")
				node := func(ctx context.Context, s said) (said, error) {
					saver.cut.Store(true)
					switch kind {
					case "effect":
						_, err := treadle.Do(ctx, "x", func(context.Context) (int, error) { return 1, nil })
						return s, err
					case "failed step":
						return s, errPlain
					}
					return s, nil
				}
				if kind == "nested" {
					in := treadle.New[said]("in")
					treadle.AddNode(in, "n", node)
					in.Edge(treadle.Start, "n")
					treadle.AddGraph(b, "n", compiled(t, in, nil))
				} else {
					treadle.AddNode(b, "n", node)
				}
				treadle.AddNode(b, "other", func(context.Context, said) (struct{}, error) { return struct{}{}, nil })
				b.Edge(treadle.Start, "n")
				b.Edge(treadle.Start, "other")
				g := compiled(t, b, &treadle.Options{Saver: saver, PutTimeout: 3 * time.Second}).With(durability)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				start := time.Now()
				var err error
				if kind == "update" {
					saver.cut.Store(true)
					_, err = g.Thread("t").Update(ctx, said{"x"}, treadle.AsNode("n"))
				} else {
					_, err = g.Thread("t").Run(ctx, said{"x"})
				}
				if took := time.Since(start); took != 5*time.Second {
					t.Errorf("%v, %s: returned after %v", durability, kind, took)
				}
				if err == nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "saver did not respond within 3s after the run's context ended") {
					t.Errorf("%v, %s: %v", durability, kind, err)
				}
				if n := saver.asked.Load(); n > 2 {
					t.Errorf("%v, %s: dead saver was asked %d times", durability, kind, n)
				}
			})
		}
	}
}

// A saver that is slow is waited for as long as the run's context lives, and some
// time after that.
func TestSlowSaverIsWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		deadline, slow time.Duration
		fails          bool
	}{
		"without a deadline":      {0, time.Minute, false},
		"before the deadline":     {5 * time.Minute, 50 * time.Second, false},
		"a little later":          {time.Second, 9 * time.Second, true}, // canceled and saved
		"much later":              {time.Second, 12 * time.Second, true},
		"canceled, without bound": {0, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			saver := &dead{Saver: checkpoint.NewMemory(), slow: test.slow}
			b := treadle.New[said]("g")
			treadle.AddNode(b, "n", func(context.Context, said) (said, error) { return said{"done"}, nil })
			treadle.AddNode(b, "m", func(context.Context, said) (said, error) { return said{"more"}, nil })
			b.Edge(treadle.Start, "n")
			b.Edge("n", "m")
			g := compiled(t, b, &treadle.Options{Saver: saver})
			ctx := context.Background()
			if test.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.deadline)
				defer cancel()
			}
			saver.cut.Store(test.slow > 0)
			_, err := g.Thread("t").Run(ctx, said{"x"})
			if (err != nil) != test.fails {
				t.Errorf("%s: %v", name, err)
			}
			saver.cut.Store(false)
			state, stateErr := g.Thread("t").State(context.Background())
			stored := name != "much later"
			if stateErr != nil || state.ID.IsZero() == stored {
				t.Errorf("%s: checkpoint saved: %t, %v", name, !state.ID.IsZero(), stateErr)
			}
		})
	}
}

// lagging is a saver that takes its time.
type lagging struct {
	checkpoint.Saver
	crashed atomic.Bool
}

func (l *lagging) Put(ctx context.Context, p *checkpoint.Put) error {
	time.Sleep(time.Second) //nolint:forbidigo // virtual time
	if l.crashed.Load() {
		return errDisk // nothing is saved from now on
	}
	return l.Saver.Put(ctx, p)
}

// Even with Async and Exit, a checkpoint event follows its save.
func TestCheckpointedComesAfterTheStore(t *testing.T) {
	for durability, want := range map[treadle.Durability][]int{treadle.Sync: {-1, 0, 1, 2}, treadle.Async: {-1, 0, 1, 2}, treadle.Exit: {2}} {
		for _, mode := range []treadle.Mode{treadle.ModeCheckpoints, treadle.ModeCheckpoints | treadle.ModeTasks} {
			synctest.Test(t, func(t *testing.T) {
				saver := &lagging{Saver: checkpoint.NewMemory()}
				b := treadle.New[said]("g")
				for _, n := range []string{"a", "b"} {
					treadle.AddNode(b, n, func(context.Context, said) (said, error) { return said{n}, nil })
				}
				b.Sequence(treadle.Start, "a", "b")
				g := compiled(t, b, &treadle.Options{Saver: saver}).With(durability)
				var steps []int
				for ev, err := range g.Thread("t").Stream(t.Context(), said{"x"}, treadle.Modes(mode)) {
					if err != nil {
						t.Fatal(err)
					}
					c, ok := ev.(treadle.Checkpointed)
					if !ok {
						continue
					}
					steps = append(steps, c.Snapshot.Step)
					if _, err := saver.Get(t.Context(), checkpoint.Key{Thread: "t", ID: c.Snapshot.ID}); err != nil {
						t.Errorf("%v: step %d was reported, but: %v", durability, c.Snapshot.Step, err)
					}
				}
				if len(steps) != len(want) || steps[0] != want[0] || steps[len(steps)-1] != want[len(want)-1] {
					t.Errorf("%v: told of steps %v, want %v", durability, steps, want)
				}
			})
		}
	}
}

// With Async an effect begins when the checkpoint is stored that its key is made
// of, so that the key is the same after a crash.
func TestAsyncEffectKeepsKeyAfterCrash(t *testing.T) {
	for _, nested := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			saver := &lagging{Saver: checkpoint.NewMemory()}
			var keys []string
			crash := true
			effectful := func(b *treadle.Builder[said]) {
				treadle.AddNode(b, "a", func(context.Context, said) (said, error) { return said{"a"}, nil })
				treadle.AddNode(b, "b", func(ctx context.Context, s said) (said, error) {
					_, err := treadle.Do(ctx, "pay", func(ctx context.Context) (int, error) {
						keys = append(keys, treadle.InfoFrom(ctx).IdempotencyKey)
						if crash {
							saver.crashed.Store(true)
							return 0, errPlain
						}
						return 1, nil
					})
					return s, err
				})
				b.Sequence(treadle.Start, "a", "b")
			}
			b := treadle.New[said]("g")
			if nested {
				in := treadle.New[said]("in")
				effectful(in)
				treadle.AddGraph(b, "sub", compiled(t, in, nil))
				b.Edge(treadle.Start, "sub")
			} else {
				effectful(b)
			}
			g := compiled(t, b, &treadle.Options{Saver: saver})
			if _, err := g.With(treadle.Async).Thread("t").Run(t.Context(), said{"x"}); !errors.Is(err, errPlain) {
				t.Fatal(err)
			}
			saver.crashed.Store(false)
			crash = false
			if _, err := g.Thread("t").Continue(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(keys) != 2 || keys[0] != keys[1] {
				t.Errorf("nested %t: the keys are %v", nested, keys)
			}
		})
	}
}
