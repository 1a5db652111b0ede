package treadle_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/reduce"
)

// counting returns a node that writes the number of its calls and the topic.
func counting(calls *int) func(context.Context, diary) (page, error) {
	return func(_ context.Context, s diary) (page, error) {
		*calls++
		return did(fmt.Sprintf("%s %d", s.Topic, *calls)), nil
	}
}

func TestCacheReusesResultForSameInput(t *testing.T) {
	calls := 0
	g := single(t, counting(&calls), treadle.Cache(0))
	wantLog(t, g, diary{Topic: "owls"}, "owls 1")
	wantLog(t, g, diary{Topic: "owls"}, "owls 1")
	wantLog(t, g, diary{Topic: "cats"}, "cats 2")
	wantLog(t, g, diary{Topic: "owls", Log: reduce.List[string]{"in"}}, "in", "owls 3")
	wantLog(t, g, diary{Topic: "cats"}, "cats 2")
	same(t, "calls", 3, calls)
}

// A node that takes less is answered for more: the key is its own input.
func TestCacheKeyIsNodeInput(t *testing.T) {
	type topic struct{ Topic string }
	calls := 0
	b := treadle.New[diary]("narrow")
	treadle.AddNode(b, "node", func(_ context.Context, s topic) (page, error) {
		calls++
		return did(s.Topic), nil
	}, treadle.Cache(0))
	b.Edge(treadle.Start, "node")
	g := weave(t, b, nil)
	wantLog(t, g, diary{Topic: "owls", Log: reduce.List[string]{"a"}}, "a", "owls")
	wantLog(t, g, diary{Topic: "owls", Log: reduce.List[string]{"b"}}, "b", "owls")
	same(t, "calls", 1, calls)
}

func TestCacheByChoosesKey(t *testing.T) {
	calls := 0
	g := single(t, counting(&calls), treadle.CacheBy(0, func(s diary) string { return strings.ToLower(s.Topic) }))
	wantLog(t, g, diary{Topic: "Owls"}, "Owls 1")
	wantLog(t, g, diary{Topic: "owls", Log: reduce.List[string]{"in"}}, "in", "Owls 1")
	wantLog(t, g, diary{Topic: "cats"}, "cats 2")
}

func TestCacheByRejectsOtherInputType(t *testing.T) {
	b := treadle.New[diary]("wrong")
	treadle.AddNode(b, "node", does("x"), treadle.CacheBy(0, func(int) string { return "" }))
	b.Edge(treadle.Start, "node")
	_, err := b.Compile(nil)
	problem, ok := errors.AsType[*treadle.BuildError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	same(t, "problem", treadle.BuildError{Graph: "wrong", Node: "node", Msg: "cache key function takes int, but the node takes treadle_test.diary"}, *problem)
}

func TestCachedResultExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		g := single(t, counting(&calls), treadle.Cache(time.Minute))
		wantLog(t, g, diary{Topic: "owls"}, "owls 1")
		<-time.After(59 * time.Second)
		wantLog(t, g, diary{Topic: "owls"}, "owls 1")
		<-time.After(time.Second)
		wantLog(t, g, diary{Topic: "owls"}, "owls 2")
	})
}

// A cached result is marked as such, and a task that did not run has no end.
//
// Parity: 32.
func TestCachedResultsInStreams(t *testing.T) {
	calls := 0
	b := treadle.New[diary]("cached")
	treadle.AddNode(b, "slow", counting(&calls), treadle.Cache(0))
	treadle.AddNode(b, "after", does("after"))
	b.Edge(treadle.Start, "slow")
	b.Edge("slow", "after")
	g := weave(t, b, nil)
	watch := func() []string {
		var got []string
		for ev, err := range g.Stream(t.Context(), diary{Topic: "owls"}, treadle.Modes(treadle.ModeUpdates, treadle.ModeTasks)) {
			if err != nil {
				t.Fatal(err)
			}
			switch ev := ev.(type) {
			case treadle.TaskStarted:
				got = append(got, "start "+ev.Node)
			case treadle.TaskFinished:
				got = append(got, "end "+ev.Node)
			case treadle.Updated:
				raw, err := dynamic.Wire{}.Encode(ev)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%v %s", ev.Cached, raw))
			}
		}
		return got
	}
	same(t, "first", []string{
		"start slow", `false {"slow":{"log":["owls 1"]}}`, "end slow",
		"start after", `false {"after":{"log":["after"]}}`, "end after",
	}, watch())
	same(t, "second", []string{
		"start slow", `true {"__metadata__":{"cached":true},"slow":{"log":["owls 1"]}}`,
		"start after", `false {"after":{"log":["after"]}}`, "end after",
	}, watch())
}

// A loop through a join, with a cached node in it: the second round of the
// second run is answered too, and clearing makes the nodes run again.
//
// Parity: 32.
func TestCacheInLoopWithJoin(t *testing.T) {
	type round struct {
		Query string              `json:"query"`
		Docs  reduce.List[string] `json:"docs"`
	}
	type query struct{ Query string }
	type docs struct{ Docs reduce.List[string] }
	calls := &tally{}
	b := treadle.New[round]("loop")
	treadle.AddNode(b, "rewrite", func(_ context.Context, s query) (query, error) {
		calls.note("rewrite")
		return query{"query: " + s.Query}, nil
	}, treadle.Cache(0))
	for _, n := range []string{"one", "two"} {
		treadle.AddNode(b, n, func(_ context.Context, s query) (docs, error) {
			calls.note(n)
			return docs{reduce.List[string]{n + " " + s.Query}}, nil
		})
	}
	treadle.AddNode(b, "decide", func(context.Context, round) (struct{}, error) { return struct{}{}, nil })
	treadle.AddNode(b, "qa", func(_ context.Context, s round) (query, error) { return query{strings.Join(s.Docs, ",")}, nil })
	b.Edge(treadle.Start, "rewrite")
	b.Edge("rewrite", "one")
	b.Edge("rewrite", "two")
	b.Join([]any{"one", "two"}, "decide")
	treadle.AddBranch(b, "decide", func(_ context.Context, s round) (treadle.Goto, error) {
		if len(s.Docs) < 4 {
			return treadle.To("rewrite"), nil
		}
		return treadle.To("qa"), nil
	}, "rewrite", "qa")
	g := weave(t, b, nil)
	want := "one query: x,two query: x,one query: query: x,two query: query: x"
	run := func() {
		t.Helper()
		out, err := g.Run(t.Context(), round{Query: "x"})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "answer", want, out.Query)
	}
	run()
	run()
	same(t, "calls", map[string]int{"rewrite": 2, "one": 4, "two": 4}, calls.counts)
	if err := g.ClearCache(t.Context(), "rewrite"); err != nil {
		t.Fatal(err)
	}
	run()
	same(t, "calls", 4, calls.counts["rewrite"])
	if err := g.ClearCache(t.Context()); err != nil {
		t.Fatal(err)
	}
	run()
	same(t, "calls", 6, calls.counts["rewrite"])
	if err := g.ClearCache(t.Context(), "nobody"); err == nil || !strings.Contains(err.Error(), `unknown node "nobody"`) {
		t.Errorf("got %v", err)
	}
}

// A failure is never remembered, neither the failed attempts of a node that
// succeeds nor what its handler made of it.
func TestNothingIsCachedOnFailure(t *testing.T) {
	t.Run("failure", func(t *testing.T) {
		g := single(t, failing(1, passing{"boom"}), treadle.Cache(0))
		if _, err := g.Run(t.Context(), diary{}); !errors.Is(err, passing{"boom"}) {
			t.Errorf("got %v", err)
		}
		wantLog(t, g, diary{}, "call 2")
		wantLog(t, g, diary{}, "call 2")
	})
	t.Run("retry", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := single(t, failing(1, passing{"boom"}), treadle.Cache(0), treadle.Retry(treadle.RetryPolicy{NoJitter: true}))
			wantLog(t, g, diary{}, "call 2")
			same(t, "slept", time.Duration(0), timed(func() { wantLog(t, g, diary{}, "call 2") }))
		})
	})
	t.Run("handler", func(t *testing.T) {
		g := single(t, failing(1, passing{"boom"}), treadle.Cache(0), treadle.OnError(recovers))
		wantLog(t, g, diary{}, `recovered node of "": boom`)
		wantLog(t, g, diary{}, "call 2")
	})
}

// Where control went is part of the result.
func TestCachedResultHasItsGotosAndSends(t *testing.T) {
	type sent struct{ Word string }
	calls := 0
	b := treadle.New[diary]("control")
	work := treadle.AddNode(b, "work", func(_ context.Context, s sent) (page, error) { return did("work " + s.Word), nil })
	treadle.AddNode(b, "other", does("other"))
	treadle.AddNode(b, "plan", func(context.Context, diary) (told, error) {
		calls++
		return told{did("plan").Log, append(treadle.To("other"), append(treadle.Send(work, sent{"a"}), treadle.Send(work, sent{"b"})...)...)}, nil
	}, treadle.Cache(0), treadle.Destinations("work", "other"))
	b.Edge(treadle.Start, "plan")
	g := weave(t, b, nil)
	for range 2 {
		wantLog(t, g, diary{}, "plan", "other", "work a", "work b")
	}
	same(t, "calls", 1, calls)
}

// A cached subgraph does not run; its key is the state that it would inherit.
func TestCachedSubgraph(t *testing.T) {
	calls := 0
	cb := treadle.New[diary]("child")
	treadle.AddNode(cb, "c", counting(&calls))
	cb.Edge(treadle.Start, "c")
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil), treadle.Cache(0))
	b.Edge(treadle.Start, "sub")
	g := weave(t, b, nil)
	wantLog(t, g, diary{Topic: "owls"}, "owls 1")
	wantLog(t, g, diary{Topic: "owls"}, "owls 1")
	wantLog(t, g, diary{Topic: "cats"}, "cats 2")
}

// The same applies to a subgraph with a dynamic or single-value state.
func TestCachedSubgraphOfOtherStates(t *testing.T) {
	calls := 0
	cb := treadle.New[treadle.Update]("child")
	treadle.AddField[string](cb, "topic")
	treadle.AddField[reduce.List[string]](cb, "log")
	treadle.AddNode(cb, "c", func(_ context.Context, s treadle.Update) (treadle.Update, error) {
		calls++
		return treadle.Update{"log": reduce.List[string]{fmt.Sprint(s["topic"], " ", calls)}}, nil
	})
	cb.Edge(treadle.Start, "c")
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil), treadle.Cache(0))
	b.Edge(treadle.Start, "sub")
	g := weave(t, b, nil)
	wantLog(t, g, diary{Topic: "owls"}, "owls 1")
	wantLog(t, g, diary{Topic: "owls"}, "owls 1")
	wantLog(t, g, diary{Topic: "cats"}, "cats 2")

	type words = reduce.List[string]
	calls = 0
	wb := treadle.New[words]("child")
	treadle.AddNode(wb, "c", func(_ context.Context, w words) (words, error) {
		calls++
		return words{fmt.Sprint(len(w), " ", calls)}, nil
	})
	wb.Edge(treadle.Start, "c")
	pb := treadle.New[words]("parent")
	treadle.AddGraph(pb, "sub", weave(t, wb, nil), treadle.Cache(0))
	pb.Edge(treadle.Start, "sub")
	wg := weave(t, pb, nil)
	for _, tt := range []struct{ in, want words }{{words{"a"}, words{"a", "1 1"}}, {words{"a"}, words{"a", "1 1"}}, {words{"b"}, words{"b", "1 2"}}} {
		out, err := wg.Run(t.Context(), tt.in)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "words", tt.want, out)
	}
}

// Without Options.Cache the saver's is used, so two graphs with one saver, one
// name and one function share results; without a saver every graph has its own.
func TestWhereResultsAreCached(t *testing.T) {
	calls := 0
	count := counting(&calls)
	build := func(o *treadle.Options) *treadle.Graph[diary, diary] {
		b := treadle.New[diary]("shared")
		treadle.AddNode(b, "node", count, treadle.Cache(0))
		b.Edge(treadle.Start, "node")
		return weave(t, b, o)
	}
	wantLog(t, build(nil), diary{}, " 1")
	wantLog(t, build(nil), diary{}, " 2")
	saver := checkpoint.NewMemory()
	wantLog(t, build(&treadle.Options{Saver: saver}), diary{}, " 3")
	wantLog(t, build(&treadle.Options{Saver: saver}), diary{}, " 3")
	cache := checkpoint.NewMemoryCache()
	wantLog(t, build(&treadle.Options{Cache: cache, Saver: saver}), diary{}, " 4")
	wantLog(t, build(&treadle.Options{Cache: cache}), diary{}, " 4")
}

// Two functions never share results, regardless of the names of their graphs and nodes and
// of the order in which they run.
func TestFunctionsDoNotShareCachedResults(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	says := func(word string) func(context.Context, diary) (page, error) {
		return func(context.Context, diary) (page, error) { return did(word), nil }
	}
	graph := func(c checkpoint.Cache, fn func(context.Context, diary) (page, error), opts ...treadle.NodeOption) *treadle.Graph[diary, diary] {
		b := treadle.New[diary]("agent")
		treadle.AddNode(b, "node", fn, append(opts, treadle.Cache(0))...)
		b.Edge(treadle.Start, "node")
		return weave(t, b, &treadle.Options{Cache: c, Logger: quiet})
	}
	t.Run("closures of one literal", func(t *testing.T) {
		c := checkpoint.NewMemoryCache()
		a, b := graph(c, says("a")), graph(c, says("b"))
		for range 2 {
			wantLog(t, a, diary{}, "a")
			wantLog(t, b, diary{}, "b")
		}
	})
	t.Run("they are cached all the same", func(t *testing.T) {
		c, graphs := checkpoint.NewMemoryCache(), [2]*treadle.Graph[diary, diary]{}
		for i := range graphs {
			graphs[i] = graph(c, counting(new(int)))
		}
		a, b := graphs[0], graphs[1]
		wantLog(t, a, diary{}, " 1")
		wantLog(t, b, diary{}, " 1")
		wantLog(t, b, diary{}, " 1")
		wantLog(t, a, diary{}, " 2") // its earlier results were dropped when the other function appeared
		wantLog(t, a, diary{}, " 2")
		if err := a.ClearCache(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantLog(t, a, diary{}, " 3")
		wantLog(t, b, diary{}, " 1")
	})
	t.Run("functions", func(t *testing.T) {
		c := checkpoint.NewMemoryCache()
		first := func(context.Context, diary) (page, error) { return did("first"), nil }
		second := func(context.Context, diary) (page, error) { return did("second"), nil }
		for range 2 {
			wantLog(t, graph(c, first), diary{}, "first")
			wantLog(t, graph(c, second), diary{}, "second")
		}
	})
	t.Run("nested graphs", func(t *testing.T) {
		c := checkpoint.NewMemoryCache()
		around := func(word string) *treadle.Graph[diary, diary] {
			cb := treadle.New[diary]("child")
			treadle.AddNode(cb, "c", says(word))
			cb.Edge(treadle.Start, "c")
			b := treadle.New[diary]("parent")
			treadle.AddGraph(b, "sub", weave(t, cb, nil), treadle.Cache(0))
			b.Edge(treadle.Start, "sub")
			return weave(t, b, &treadle.Options{Cache: c, Logger: quiet})
		}
		wantLog(t, around("a"), diary{}, "a")
		wantLog(t, around("b"), diary{}, "b")
	})
	t.Run("workflows", func(t *testing.T) {
		c := checkpoint.NewMemoryCache()
		flow := func(word string) *treadle.Graph[int, string] {
			return treadle.Must(treadle.NewWorkflow("flow", func(context.Context, int) (string, error) { return word, nil },
				&treadle.Options{Cache: c, Logger: quiet}, treadle.Cache(0)))
		}
		for _, word := range []string{"a", "b"} {
			out, err := flow(word).Run(t.Context(), 1)
			if out != word || err != nil {
				t.Errorf("got %q, %v, want %q", out, err, word)
			}
		}
	})
	t.Run("custom key is trusted", func(t *testing.T) {
		c, calls, others := checkpoint.NewMemoryCache(), 0, 0
		key := treadle.CacheBy(0, func(s diary) string { return s.Topic })
		build := func(fn func(context.Context, diary) (page, error)) *treadle.Graph[diary, diary] {
			b := treadle.New[diary]("agent")
			treadle.AddNode(b, "node", fn, key)
			b.Edge(treadle.Start, "node")
			return weave(t, b, &treadle.Options{Cache: c})
		}
		wantLog(t, build(counting(&calls)), diary{Topic: "owls"}, "owls 1")
		wantLog(t, build(counting(&others)), diary{Topic: "owls"}, "owls 1")
		same(t, "calls", 1, calls+others)
	})
}

// Concurrent tasks of one run with the same input cause one call, even in subgraphs: the
// number of calls does not depend on timing.
func TestConcurrentEqualTasksShareCall(t *testing.T) {
	type in struct{ K int }
	fan := func(b *treadle.Builder[diary], w treadle.Node[in]) {
		treadle.AddBranch(b, treadle.Start, func(context.Context, diary) (treadle.Goto, error) {
			return slices.Concat(treadle.Send(w, in{1}), treadle.Send(w, in{1}), treadle.Send(w, in{2}), treadle.Send(w, in{1})), nil
		}, w.Name())
	}
	for range 50 {
		var calls atomic.Int32
		b := treadle.New[diary]("sends")
		fan(b, treadle.AddNode(b, "w", func(_ context.Context, k in) (page, error) {
			calls.Add(1)
			return did(fmt.Sprint(k.K)), nil
		}, treadle.Cache(0)))
		wantLog(t, weave(t, b, nil), diary{}, "1", "1", "2", "1")
		same(t, "calls", int32(2), calls.Load())
	}
	for range 50 {
		var calls atomic.Int32
		type part struct {
			K   int
			Log reduce.List[string]
		}
		cb := treadle.New[part]("child")
		treadle.AddNode(cb, "w", func(_ context.Context, k in) (page, error) {
			calls.Add(1)
			return did(fmt.Sprint(k.K)), nil
		}, treadle.Cache(0))
		cb.Edge(treadle.Start, "w")
		child := weave(t, cb, nil)
		b := treadle.New[diary]("nested")
		fan(b, treadle.AddNode(b, "sub", func(ctx context.Context, k in) (page, error) {
			out, err := child.Run(ctx, part{K: k.K})
			return page{out.Log}, err
		}))
		wantLog(t, weave(t, b, nil), diary{}, "1", "1", "2", "1")
		same(t, "calls", int32(2), calls.Load())
	}
}

// If that call fails, another task calls the function.
func TestEqualTaskRunsAfterFailure(t *testing.T) {
	type in struct{ K int }
	var calls atomic.Int32
	b := treadle.New[diary]("sends")
	w := treadle.AddNode(b, "w", func(_ context.Context, k in) (page, error) {
		if calls.Add(1) == 1 {
			return page{}, errors.New("boom")
		}
		return did("done"), nil
	}, treadle.Cache(0), treadle.OnError(func(_ context.Context, _ in, err *treadle.NodeError) (page, error) { return did("handled"), nil }))
	treadle.AddBranch(b, treadle.Start, func(context.Context, diary) (treadle.Goto, error) {
		return slices.Concat(treadle.Send(w, in{1}), treadle.Send(w, in{1}), treadle.Send(w, in{1})), nil
	}, "w")
	out, err := weave(t, b, nil).Run(t.Context(), diary{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "log", []string{"done", "done", "handled"}, slices.Sorted(slices.Values(out.Log)))
	same(t, "calls", int32(2), calls.Load())
}

// If a cached node calls its own graph with the same input, the inner run does not wait
// for the outer one.
func TestCachedNodeInsideItself(t *testing.T) {
	var g *treadle.Graph[diary, diary]
	depth := 0
	b := treadle.New[diary]("self")
	treadle.AddNode(b, "node", func(ctx context.Context, s diary) (page, error) {
		if depth++; depth < 3 {
			out, err := g.Run(ctx, s)
			return page{out.Log}, err
		}
		return did(fmt.Sprint("depth ", depth)), nil
	}, treadle.Cache(0))
	b.Edge(treadle.Start, "node")
	g = weave(t, b, nil)
	wantLog(t, g, diary{}, "depth 3")
}

// brokenCache fails, or records whether the context it received was alive.
type brokenCache struct {
	get, set error
	dead     error
}

func (c *brokenCache) Get(context.Context, string, string) ([]byte, bool, error) {
	return nil, false, c.get
}

func (c *brokenCache) Set(ctx context.Context, _, _ string, _ []byte, _ time.Duration) error {
	c.dead = ctx.Err()
	return c.set
}

func (c *brokenCache) Clear(context.Context, ...string) error { return nil }

// A cache that fails fails the node that asks it: a silent miss would hide it.
func TestCacheErrorsSurface(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]*brokenCache{"get": {get: broken}, "set": {set: broken}} {
		t.Run(name, func(t *testing.T) {
			b := treadle.New[diary]("broken")
			treadle.AddNode(b, "node", does("x"), treadle.Cache(0))
			b.Edge(treadle.Start, "node")
			if _, err := weave(t, b, &treadle.Options{Cache: c}).Run(t.Context(), diary{}); !errors.Is(err, broken) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The clock that watched the node does not watch the storing of its result.
func TestCacheGetsLiveContext(t *testing.T) {
	c := &brokenCache{}
	b := treadle.New[diary]("timed")
	treadle.AddNode(b, "node", does("x"), treadle.Cache(0), treadle.Timeout(time.Hour))
	b.Edge(treadle.Start, "node")
	wantLog(t, weave(t, b, &treadle.Options{Cache: c}), diary{}, "x")
	if c.dead != nil {
		t.Errorf("the result was cached with a context that is %v", c.dead)
	}
}

// A result of an older version of the graph is not used.
func TestUnreadableCachedResultIsMiss(t *testing.T) {
	cache := checkpoint.NewMemoryCache()
	type old struct {
		Topic string              `json:"topic"`
		Notes reduce.List[string] `json:"notes"`
	}
	type note struct{ Notes reduce.List[string] }
	ob := treadle.New[old]("versioned")
	treadle.AddNode(ob, "node", func(context.Context, old) (note, error) { return note{reduce.List[string]{"old"}}, nil },
		treadle.CacheBy(0, func(old) string { return "key" }))
	ob.Edge(treadle.Start, "node")
	if _, err := weave(t, ob, &treadle.Options{Cache: cache}).Run(t.Context(), old{}); err != nil {
		t.Fatal(err)
	}
	b := treadle.New[diary]("versioned")
	treadle.AddNode(b, "node", does("new"), treadle.CacheBy(0, func(diary) string { return "key" }))
	b.Edge(treadle.Start, "node")
	wantLog(t, weave(t, b, &treadle.Options{Cache: cache}), diary{}, "new")
}
