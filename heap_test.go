package treadle_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/reduce"
)

// liveHeap returns the bytes of reachable objects.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // the first one may only have queued finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// forgetful is a saver that keeps nothing, so that only the process can hold a state.
type forgetful struct{ _ int }

func (*forgetful) Put(context.Context, *checkpoint.Put) error { return nil }

func (*forgetful) PutWrites(context.Context, checkpoint.Key, uint64, []checkpoint.Write) error {
	return nil
}

func (*forgetful) Get(context.Context, checkpoint.Key) (*checkpoint.Checkpoint, error) {
	return nil, checkpoint.ErrNotFound
}

func (*forgetful) List(context.Context, checkpoint.Query) iter.Seq2[*checkpoint.Checkpoint, error] {
	return func(func(*checkpoint.Checkpoint, error) bool) {}
}

func (*forgetful) DeleteThread(context.Context, string) error { return nil }

type heavy struct {
	Text  string
	Lines reduce.List[string]
	N     int
}

// heavyGraph returns a graph with a node that writes the result of node.
func heavyGraph(t *testing.T, saver checkpoint.Saver, node func(heavy) treadle.Update) *treadle.Graph[heavy, heavy] {
	t.Helper()
	b := treadle.New[heavy]("heavy")
	treadle.AddNode(b, "work", func(_ context.Context, s heavy) (treadle.Update, error) { return node(s), nil })
	b.Edge(treadle.Start, "work")
	g, err := b.Compile(&treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The heads that a graph caches are limited in bytes, not only in number.
func TestCachedHeadsAreLimitedInBytes(t *testing.T) {
	g := heavyGraph(t, &forgetful{}, func(heavy) treadle.Update { return treadle.Update{"Text": strings.Repeat("x", 1<<20)} })
	before := liveHeap()
	for i := range 128 {
		if _, err := g.Thread(fmt.Sprint(i)).Run(t.Context(), heavy{N: i}); err != nil {
			t.Fatal(err)
		}
	}
	if grown := liveHeap() - before; grown > 80<<20 || grown < 20<<20 {
		t.Errorf("live heap grew by %d bytes for the heads of threads with 128 MiB", grown)
	}
	runtime.KeepAlive(g)
}

// The heads of a server's graphs are part of its budget and are dropped when they have not
// been used for a while.
func TestHostHeadsShareBudget(t *testing.T) {
	b := budget.New(8 << 20)
	heads := pregel.NewHeads(b)
	saver := &forgetful{}
	before := liveHeap()
	for _, name := range []string{"one", "two"} {
		g := heavyGraph(t, nil, func(heavy) treadle.Update { return treadle.Update{"Text": strings.Repeat(name[:1], 1<<19)} })
		for i := range 30 {
			ctx := pregel.WithMemory(t.Context(), &pregel.Memory{Heads: heads})
			if _, err := g.With(dynamic.Host{Saver: saver}.Option()).Thread(fmt.Sprint(i)).Run(ctx, heavy{N: i}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if b.Over() || b.ByKind()["heads"] < 4<<20 {
		t.Errorf("%d of %d bytes used: %v", b.Used(), b.Limit(), b.ByKind())
	}
	if grown := liveHeap() - before; grown > 10<<20 {
		t.Errorf("live heap grew by %d bytes with a budget of 8 MiB", grown)
	}
	b.Age()
	b.Age()
	if b.Used() != 0 {
		t.Errorf("%d bytes used by unused heads", b.Used())
	}
	if grown := liveHeap() - before; grown > 1<<20 {
		t.Errorf("live heap grew by %d bytes without cached heads", grown)
	}
}

// The estimate for a state built step by step equals the estimate for the same state when
// it is loaded, regardless of what was appended, dropped, replaced, or cleared.
func TestStateEstimateFollowsUpdates(t *testing.T) {
	saver := checkpoint.NewMemory()
	turns := []treadle.Update{
		{"Text": strings.Repeat("x", 100)},
		{"Lines": reduce.List[string]{"0123456789", "0123456789"}},
		{"Text": "short"},
		{"Lines": treadle.Overwrite[reduce.List[string]]{Value: reduce.List[string]{"0123456789"}}},
		{"Lines": reduce.List[string]{"0123456789"}, "N": 7},
		{"Text": strings.Repeat("x", 5000)},
		{},
	}
	var u treadle.Update
	node := func(heavy) treadle.Update { return u }
	cached := heavyGraph(t, saver, node)
	for i := range turns {
		u = turns[i]
		// A graph that was just compiled has cached nothing, so it reads its thread.
		estimate := func(g *treadle.Graph[heavy, heavy], thread string) (state, put int64) {
			m := &pregel.Memory{}
			if _, err := g.Thread(thread).Run(pregel.WithMemory(t.Context(), m), heavy{N: 1}); err != nil {
				t.Fatal(err)
			}
			return m.State.Load(), m.Put.Load()
		}
		state, put := estimate(cached, "cached")
		loaded, putToo := estimate(heavyGraph(t, saver, node), "loaded")
		if state != loaded || put != putToo {
			t.Errorf("turn %d: estimates are %d bytes, %d of them put, and %d, %d if the state is loaded", i, state, put, loaded, putToo)
		}
		if i == len(turns)-1 && (state < 5000 || state > 7000 || put > 500) {
			t.Errorf("estimate of a state with 5,000 bytes is %d, %d of them put by a turn that changes one number", state, put)
		}
	}
}
