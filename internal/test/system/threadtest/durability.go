package threadtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Durability is the suite for when steps are saved, for failing savers, and for canceled
// runs. In all cases the thread can be continued and the caller gets an error.
var Durability = Suite{
	{"SameInTheEnd", sequential, durableSame},
	{"AsyncHistory", concurrent, durableAsync},
	{"ExitKeepsOneCheckpoint", sequential, durableExit},
	{"ExitAfterFailure", sequential, durableExitFailure},
	{"ExitAndNestedGraphs", sequential, durableExitNested},
	{"ExitAndFork", sequential, durableExitFork},
	{"EventsAreTheHistory", sequential, durableEvents},
	{"SaverFails", sequential, durableFaults},
	{"ReadsFail", sequential, durableReadFaults},
	{"Cancelled", concurrent, durableCancel},
	{"CancelledWhileStoring", concurrent, durableCancelPut},
	{"ReaderLeaves", concurrent, durableLeave},
}

var durabilities = []struct {
	name string
	opt  treadle.Durability
}{{"Sync", treadle.Sync}, {"Async", treadle.Async}, {"Exit", treadle.Exit}}

// durableSame checks that a thread with failures and interrupts ends in the same state
// with every durability.
func durableSame(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, d := range durabilities {
		for _, keep := range []struct {
			name string
			opts []treadle.NodeOption
		}{{"PerTask", nil}, {"PerThread", []treadle.NodeOption{treadle.PerThread()}}} {
			t.Run(d.name+keep.name, func(t *testing.T) {
				kitBothWays(t, open, nestTower(3, []string{"i", "ask?", "j"}, keep.opts...), func(t *testing.T, w *kitWorld, handle kitHandle) {
					thread := func() *kitThread { return handle(d.opt) }
					w.fail("i", errKit)
					if _, err := thread().Run(t.Context(), kitState{N: 1}); !errors.Is(err, errKit) {
						t.Fatal(err)
					}
					w.fail("i", nil)
					_, err := thread().Continue(t.Context())
					kitAsked(t, err, "ask?")
					w.fail("j", errKit)
					if _, err := thread().Resume(t.Context(), "yes"); !errors.Is(err, errKit) {
						t.Fatal(err)
					}
					w.fail("j", nil)
					kitContinue(t, thread(), "a", "b", "i#0", "ask#1=yes", "j#2", "y", "z")
					kitRan(t, w, "a", "ask", "ask", "b", "i", "i", "j", "j", "y", "z")
					if got := kitStateOf(t, thread()).State.String(); got != `{"n":1,"log":["a","b","i#0","ask#1=yes","j#2","y","z"]}` {
						t.Errorf("state %s", got)
					}
					// The next turn.
					out, err := thread().Run(t.Context(), kitState{N: 2})
					kitAsked(t, err, "ask?")
					if out.N != 2 {
						t.Errorf("n is %d, want 2", out.N)
					}
					out, err = thread().Resume(t.Context(), "no")
					count := 1
					if keep.opts != nil {
						count = 4
					}
					if want := fmt.Sprintf("a b i#%d ask#%d=no j#%d y z", count-1, count, count+1); err != nil || !strings.HasSuffix(strings.Join(out.Log, " "), want) {
						t.Errorf("second turn: %v, %v; want %s at the end", out.Log, err, want)
					}
				})
			})
		}
	}
}

func durableAsync(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, travelFan, func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRunAny(t, thread(treadle.Sync), kitState{N: 3})
		want := kitLines(kitHistory(t, thread()))
		w2 := &kitWorld{}
		g := travelFan(t, w2, open(t))
		kitRunAny(t, g.Thread("t", treadle.Async), kitState{N: 3})
		if diff := cmp.Diff(want, kitLines(kitHistory(t, g.Thread("t")))); diff != "" {
			t.Errorf("histories (-sync +async):\n%s", diff)
		}
	})
}

func durableExit(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "ask?", "b"), func(t *testing.T, w *kitWorld, handle kitHandle) {
		thread := func() *kitThread { return handle(treadle.Exit) }
		_, err := thread().Run(t.Context(), kitState{N: 1})
		kitAsked(t, err, "ask?")
		kitWantLines(t, kitHistory(t, thread()), `1 loop {"n":1,"log":["a"]} [ask]`)
		kitResume(t, thread(), "yes", "a", "ask=yes", "b")
		kitRan(t, w, "a", "ask", "ask", "b")
		_, err = thread().Run(t.Context(), kitState{N: 2})
		kitAsked(t, err, "ask?")
		kitResume(t, thread(), "no", "a", "ask=yes", "b", "a", "ask=no", "b")
		snaps := kitHistory(t, thread())
		kitWantLines(t, snaps,
			`8 loop {"n":2,"log":["a","ask=yes","b","a","ask=no","b"]} []`,
			`6 loop {"n":2,"log":["a","ask=yes","b","a"]} [ask]`,
			`3 loop {"n":1,"log":["a","ask=yes","b"]} []`,
			`1 loop {"n":1,"log":["a"]} [ask]`)
		for i, s := range snaps[:3] {
			if s.Parent != snaps[i+1].ID {
				t.Errorf("checkpoint %d follows %s, want the one of the run before", s.Step, s.Parent)
			}
		}
	})
}

func durableExitFailure(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitPair("one", "two"), func(t *testing.T, w *kitWorld, handle kitHandle) {
		thread := func() *kitThread { return handle(treadle.Exit, treadle.MaxConcurrency(1)) }
		w.fail("two", errKit)
		if _, err := thread().Run(t.Context(), kitState{N: 1}); !errors.Is(err, errKit) {
			t.Fatal(err)
		}
		kitWantLines(t, kitHistory(t, thread()), `0 loop {"n":1,"log":[]} [one two]`)
		w.fail("two", nil)
		w.ran()
		kitContinue(t, thread(), "one", "two")
		kitRan(t, w, "two")
		kitWantLines(t, kitHistory(t, thread()), `1 loop {"n":1,"log":["one","two"]} []`, `0 loop {"n":1,"log":[]} [one two]`)

		// A failure that new input abandons.
		w.fail("two", errKit)
		if _, err := thread().Run(t.Context(), kitState{}); !errors.Is(err, errKit) {
			t.Fatal(err)
		}
		w.fail("two", nil)
		kitRun(t, thread(), kitState{}, "one", "two", "one", "two")
	})
	kitBothWays(t, open, kitChain("a", "b", "c"), func(t *testing.T, w *kitWorld, handle kitHandle) {
		_, err := handle(treadle.Exit, treadle.StepLimit(1)).Run(t.Context(), kitState{})
		if _, ok := errors.AsType[*treadle.StepLimitError](err); !ok {
			t.Fatal(err)
		}
		kitContinue(t, handle(treadle.Exit), "a", "b", "c")
		kitRan(t, w, "a", "b", "c")
	})
}

// durableCount returns the number of a thread's checkpoints, in all namespaces.
func durableCount(t *testing.T, saver checkpoint.Saver, thread string) int {
	t.Helper()
	for th, err := range saver.(checkpoint.ThreadLister).Threads(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if th.Name == thread {
			return th.Checkpoints
		}
	}
	return 0
}

func durableExitNested(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	for _, c := range []struct {
		name string
		keep []treadle.NodeOption
		opts []treadle.RunOption
		want int // 5 in the root, 5 in the middle, 4 in the leaf
	}{
		{"SyncPerTask", nil, nil, 14},
		{"ExitPerTask", nil, []treadle.RunOption{treadle.Exit}, 1},
		{"AsyncPerTask", nil, []treadle.RunOption{treadle.Async}, 14},
		{"ExitPerThread", []treadle.NodeOption{treadle.PerThread()}, []treadle.RunOption{treadle.Exit}, 3},
		{"SyncNoCheckpoints", []treadle.NodeOption{treadle.NoCheckpoints()}, nil, 5},
	} {
		kitRunAny(t, nestTower(3, []string{"i", "j"}, c.keep...)(t, &kitWorld{}, saver).Thread(c.name, c.opts...), kitState{})
		if got := durableCount(t, saver, c.name); got != c.want {
			t.Errorf("%s: %d checkpoints, want %d", c.name, got, c.want)
		}
	}
}

func durableExitFork(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b", "c"), func(t *testing.T, w *kitWorld, handle kitHandle) {
		kitRun(t, handle(), kitState{N: 1}, "a", "b", "c")
		before := kitHistory(t, handle())
		w.ran()
		kitContinue(t, handle(treadle.Exit).At(kitAt(t, before, "b").ID), "a", "b", "c")
		kitRan(t, w, "b", "c")
		added := kitAppended(t, handle(), before)
		kitWantLines(t, added, `4 loop {"n":1,"log":["a","b","c"]} []`)
		if added[0].Parent != kitAt(t, before, "b").ID {
			t.Errorf("branch follows %s, want the checkpoint it began at", added[0].Parent)
		}
		kitRun(t, handle(treadle.Exit), kitState{}, "a", "b", "c", "a", "b", "c")
	})
}

// durableEvents checks that a stream's checkpoints are those of the history, in every
// namespace, even if the run starts in the middle.
func durableEvents(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	show := func(s *treadle.Snapshot) string {
		var tasks []string
		for _, task := range s.Tasks {
			tasks = append(tasks, task.ID+" "+task.Name)
		}
		return fmt.Sprintf("%s after %s: %s %v", s.ID, s.Parent, kitLine(s), tasks)
	}
	collect := func(t *testing.T, events iter.Seq2[treadle.Event, error]) map[string][]string {
		t.Helper()
		out := map[string][]string{}
		for ev, err := range events {
			if err != nil {
				t.Fatal(err)
			}
			if cp, ok := ev.(treadle.Checkpointed); ok {
				ns := strings.Join(cp.Snapshot.Namespace, "|")
				out[ns] = append([]string{show(&cp.Snapshot)}, out[ns]...)
			}
		}
		return out
	}
	watch := []treadle.StreamOption{treadle.Modes(treadle.ModeCheckpoints), treadle.Subgraphs()}
	for _, d := range durabilities[:2] {
		t.Run(d.name, func(t *testing.T) {
			kitBothWays(t, open, nestTower(3, []string{"i", "j"}), func(t *testing.T, w *kitWorld, thread kitHandle) {
				seen := collect(t, thread(d.opt).Stream(t.Context(), kitState{N: 1}, watch...))
				if len(seen) != 3 {
					t.Fatalf("%d namespaces, want 3", len(seen))
				}
				for ns, events := range seen {
					var reader kitReader = thread()
					if ns != "" {
						reader = kitNested(t, thread(), strings.Split(ns, "|")...)
					}
					var want []string
					for _, s := range kitHistory(t, reader) {
						want = append(want, show(s))
					}
					if diff := cmp.Diff(want, events); diff != "" {
						t.Errorf("namespace %q (-history +events):\n%s", ns, diff)
					}
				}
			})
		})
	}
	// After an empty edit of an older checkpoint.
	kitBothWays(t, open, kitChain("a", "b"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 1}, "a", "b")
		first := kitHistory(t, thread())
		kitUpdate(t, thread().At(kitAt(t, first, "a").ID), nil)
		seen := collect(t, thread().ContinueStream(t.Context(), watch...))
		var want []string
		for _, s := range kitAppended(t, thread(), first) {
			want = append(want, strings.Replace(show(s), " update ", " loop ", 1))
		}
		if diff := cmp.Diff(want, seen[""]); diff != "" {
			t.Errorf("(-history +events):\n%s", diff)
		}
	})
}

// durableFaults makes every single saver call fail once, with every durability: the run
// reports the failure, and the thread continues to the same end.
func durableFaults(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	t.Run("PerTask", func(t *testing.T) { durableFaultsOf(t, open) })
	t.Run("PerThread", func(t *testing.T) { durableFaultsOf(t, open, treadle.PerThread()) })
}

func durableFaultsOf(t *testing.T, open func(t *testing.T) checkpoint.Saver, keep ...treadle.NodeOption) {
	final := []string{"a", "b", "i#0", "ask#1=yes", "j#2", "y", "z"}
	for _, d := range durabilities {
		for _, kind := range []string{"get", "put", "writes"} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprint(d.name, kind, map[bool]string{true: "Stream", false: "Run"}[stream]), func(t *testing.T) {
					faulty := &kitFaulty{Saver: open(t)}
					if stream && !inMemory(faulty.Saver) {
						return
					}
					w := &kitWorld{}
					build := nestTower(3, []string{"i", "ask?", "j"}, keep...)
					for n := range 30 {
						thread := func() *kitThread { return build(t, w, faulty).Thread(fmt.Sprint("t", n), d.opt) }
						faulty.arm(kind, n, false)
						err := durableDrive(t, thread, stream)
						hit := faulty.disarm() > 0
						if hit != errors.Is(err, errKit) {
							t.Fatalf("call %d failed: %v, the run's error: %v", n, hit, err)
						}
						if !hit && err != nil {
							t.Fatalf("call %d: %v", n, err)
						}
						// Whatever was saved is consistent, and the thread continues from
						// there.
						for range 4 {
							snap := kitStateOf(t, thread())
							kitHistory(t, thread())
							if snap.ID.IsZero() {
								_, err = thread().Run(t.Context(), kitState{N: 1})
							} else if len(snap.Pauses) > 0 {
								_, err = thread().Resume(t.Context(), "yes")
							} else {
								_, err = thread().Continue(t.Context())
							}
							if err == nil {
								break
							}
							kitAsked(t, err, "ask?")
						}
						var got kitState
						if err := kitStateOf(t, thread()).Read(&got); err != nil {
							t.Fatal(err)
						}
						kitWantLog(t, fmt.Sprint("after the failure of call ", n), got, final)
						if !hit {
							return // all calls have failed once
						}
					}
					t.Fatal("run makes more calls than were tried")
				})
			}
		}
	}
}

// durableDrive runs a thread to its end, answering its interrupt, and returns the saver's
// first error.
func durableDrive(t *testing.T, thread func() *kitThread, stream bool) error {
	t.Helper()
	last := func(events iter.Seq2[treadle.Event, error]) (err error) {
		for ev, e := range events {
			if e != nil && ev != nil {
				t.Error("event came with an error")
			}
			if err != nil {
				t.Error("something came after the error")
			}
			err = e
		}
		return err
	}
	var err error
	if stream {
		err = last(thread().Stream(t.Context(), kitState{N: 1}))
	} else {
		_, err = thread().Run(t.Context(), kitState{N: 1})
	}
	if errors.Is(err, errKit) {
		return err
	}
	kitAsked(t, err, "ask?")
	if stream {
		return last(thread().ResumeStream(t.Context(), "yes"))
	}
	_, err = thread().Resume(t.Context(), "yes")
	return err
}

func durableReadFaults(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	faulty := &kitFaulty{Saver: open(t)}
	thread := kitChain("a")(t, &kitWorld{}, faulty).Thread("t")
	kitRun(t, thread, kitState{}, "a")
	faulty.arm("list", 0, true)
	n := 0
	for snap, err := range thread.History(t.Context(), nil) {
		n++
		if n > 1 || snap != nil || !errors.Is(err, errKit) {
			t.Errorf("history: %v, %v; want the saver's error alone", snap, err)
		}
	}
	faulty.arm("get", 0, true)
	if _, err := thread.State(t.Context()); !errors.Is(err, errKit) {
		t.Errorf("state: %v, want the saver's error", err)
	}
	if _, err := thread.Update(t.Context(), kitSay("x")); !errors.Is(err, errKit) {
		t.Errorf("update: %v, want the saver's error", err)
	}
	faulty.arm("put", 0, true)
	if _, err := thread.Update(t.Context(), kitSay("x")); !errors.Is(err, errKit) {
		t.Errorf("update: %v, want the saver's error", err)
	}
	faulty.disarm()
	kitRun(t, thread, kitState{}, "a", "a")
}

func durableCancel(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, d := range durabilities {
		t.Run(d.name, func(t *testing.T) {
			kitBothWays(t, open, func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
				root := treadle.New[kitState]("root")
				treadle.AddNode(root, "first", w.node("first"))
				treadle.AddGraph(root, "sub", kitPair("one", "two")(t, w, nil))
				root.Sequence(treadle.Start, "first", "sub")
				return kitCompile(t, root, saver)
			}, func(t *testing.T, w *kitWorld, handle kitHandle) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				w.on("two", func(ctx context.Context) error { // one has finished by now
					cancel(errKit)
					<-ctx.Done()
					return ctx.Err()
				})
				_, err := handle(d.opt, treadle.MaxConcurrency(1)).Run(ctx, kitState{N: 1})
				if !errors.Is(err, context.Canceled) || !errors.Is(err, errKit) {
					t.Fatalf("run: %v, want the cancellation and its cause", err)
				}
				w.on("two", nil)
				w.ran()
				snap := kitStateOf(t, handle())
				if got, want := kitLine(snap), `1 loop {"n":1,"log":["first"]} [sub]`; got != want {
					t.Errorf("state %s, want %s", got, want)
				}
				if in := snap.Tasks[0].Graph; in == nil || kitLine(in) != `0 loop {"n":1,"log":["first","one"]} [two]` {
					t.Errorf("nested graph: %v, want one to be done", in)
				}
				kitContinue(t, handle(d.opt), "first", "one", "two")
				kitRan(t, w, "two")

				// A context that is canceled before the run changes nothing.
				before := kitHistory(t, handle())
				if _, err := handle(d.opt).Run(ctx, kitState{N: 2}); !errors.Is(err, context.Canceled) {
					t.Errorf("run: %v, want the cancellation", err)
				}
				if added := kitAppended(t, handle(), before); len(added) > 0 {
					t.Errorf("it left %v", kitLines(added))
				}
			})
		})
	}
}

// durableGate is a saver whose puts wait, and that records whether their context was
// canceled in the meantime.
type durableGate struct {
	checkpoint.Saver
	during func(step int)
	errs   []error
}

func (g *durableGate) Put(ctx context.Context, p *checkpoint.Put) error {
	if g.during != nil {
		g.during(p.Step)
	}
	g.errs = append(g.errs, ctx.Err())
	return g.Saver.Put(ctx, p)
}

// durableCancelPut checks that a put in progress completes when the run is canceled.
func durableCancelPut(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, d := range durabilities[:2] {
		for _, step := range []int{-1, 0, 1, 2} {
			t.Run(fmt.Sprint(d.name, step), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				gate := &durableGate{Saver: open(t), during: func(s int) {
					if s == step {
						cancel()
					}
				}}
				w := &kitWorld{}
				thread := kitChain("a", "b")(t, w, gate).Thread("t", d.opt)
				_, err := thread.Run(ctx, kitState{})
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				for _, err := range gate.errs {
					if err != nil {
						t.Errorf("put was given a context that is over: %v", err)
					}
				}
				snap := kitStateOf(t, thread)
				if snap.Step < step {
					t.Errorf("step %d is stored, want at least %d", snap.Step, step)
				}
				gate.during = nil
				kitContinue(t, thread, "a", "b")
				if d.opt == treadle.Sync {
					kitRan(t, w, "a", "b")
				}
			})
		}
	}
}

func durableLeave(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, d := range durabilities {
		t.Run(d.name, func(t *testing.T) {
			kitBothWays(t, open, kitChain("a", "b", "c"), func(t *testing.T, w *kitWorld, handle kitHandle) {
				for ev, err := range handle(d.opt).Stream(t.Context(), kitState{}) {
					if err != nil {
						t.Fatal(err)
					}
					if ev.Where().Node == "a" {
						break
					}
				}
				// With Sync, a is saved before its event is visible.
				kitContinue(t, handle(d.opt), "a", "b", "c")
			})
		})
	}
}
