package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/memory/prompts"
	"github.com/treadle-go/treadle/store"
)

// What is nil and may not be is an error where one can be returned, and found
// when the thing is made.
func TestNilIsError(t *testing.T) {
	var none context.Context
	fn := func(_ context.Context, s said) (said, error) { return s, nil }
	build := func(add func(b *treadle.Builder[said])) error {
		b := treadle.New[said]("g")
		treadle.AddNode(b, "n", fn)
		b.Edge(treadle.Start, "n")
		add(b)
		_, err := b.Compile(nil)
		return err
	}
	with := func(o treadle.Options) error {
		b := treadle.New[said]("g")
		treadle.AddNode(b, "n", fn)
		b.Edge(treadle.Start, "n")
		_, err := b.Compile(&o)
		return err
	}
	b := treadle.New[said]("g")
	treadle.AddNode(b, "n", fn)
	b.Edge(treadle.Start, "n")
	g := compiled(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	th := g.Thread("t")
	inside := func(f func(ctx context.Context) error) error {
		b := treadle.New[said]("g")
		treadle.AddNode(b, "n", func(ctx context.Context, s said) (said, error) { return s, f(ctx) })
		b.Edge(treadle.Start, "n")
		_, err := compiled(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("t").Run(t.Context(), said{})
		return err
	}
	last := func(events func(func(treadle.Event, error) bool)) (err error) {
		for _, e := range events {
			err = e
		}
		return err
	}
	lastOf := func(snaps func(func(*treadle.Snapshot, error) bool)) (err error) {
		for _, e := range snaps {
			err = e
		}
		return err
	}
	memStore, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	var nilGraph *treadle.Graph[said, said]
	const noContext = "nil context"
	for name, test := range map[string]struct {
		do   func() error
		want string
	}{
		"node option": {func() error {
			return build(func(b *treadle.Builder[said]) { treadle.AddNode(b, "m", fn, treadle.Defer(), nil) })
		}, `node "m": option 2 of 2 is nil`},
		"defaults": {func() error { return build(func(b *treadle.Builder[said]) { b.Defaults(nil) }) }, "Defaults: option 1 of 1 is nil"},
		"option of a graph": {func() error {
			return build(func(b *treadle.Builder[said]) { treadle.AddGraph(b, "m", g, nil) })
		}, `node "m": option 1 of 1 is nil`},
		"function": {func() error {
			return build(func(b *treadle.Builder[said]) {
				treadle.AddNode[said, said, said](b, "m", nil)
			})
		}, `node "m": nil function`},
		"graph": {func() error { return build(func(b *treadle.Builder[said]) { treadle.AddGraph(b, "m", nilGraph) }) }, `node "m": graph is nil`},
		"no graph": {func() error {
			return build(func(b *treadle.Builder[said]) { treadle.AddGraph(b, "m", &treadle.Graph[said, said]{}) })
		}, `was not created by Compile`},
		"no node": {func() error { return build(func(b *treadle.Builder[said]) { b.Add(treadle.AnyNode{}) }) }, `Add: node 1 of 1 is empty`},
		"uses": {func() error {
			return build(func(b *treadle.Builder[said]) { treadle.AddNode(b, "m", fn, treadle.Uses(nil)) })
		}, `Uses: graph 1 of 1 is nil`},
		"uses a nil graph": {func() error {
			return build(func(b *treadle.Builder[said]) { treadle.AddNode(b, "m", fn, treadle.Uses(g, nilGraph)) })
		}, `Uses: graph 2 of 2 is nil`},
		"branch": {func() error {
			return build(func(b *treadle.Builder[said]) { treadle.AddBranch[said, said](b, "n", nil) })
		}, `nil branch function`},
		"handler": {func() error {
			return build(func(b *treadle.Builder[said]) {
				treadle.AddNode(b, "m", fn, treadle.OnError[said, said](nil))
			})
		}, `nil error handler`},
		"key": {func() error {
			return build(func(b *treadle.Builder[said]) { treadle.AddNode(b, "m", fn, treadle.CacheBy[said](0, nil)) })
		}, `nil cache key function`},
		"reducer": {func() error {
			return build(func(b *treadle.Builder[said]) { treadle.Reduce[said, string, string](b, "Text", nil) })
		}, `Reduce: nil function`},
		"name that is not UTF-8": {func() error { return build(func(b *treadle.Builder[said]) { treadle.AddNode(b, "m\xff", fn) }) }, `name must be valid UTF-8`},
		"graph's name":           {func() error { _, err := treadle.New[said]("g\xff").Compile(nil); return err }, `name must be valid UTF-8`},
		"saver":                  {func() error { return with(treadle.Options{Saver: (*checkpoint.Memory)(nil)}) }, `saver is a nil *checkpoint.Memory`},
		"cache":                  {func() error { return with(treadle.Options{Cache: (*checkpoint.MemoryCache)(nil)}) }, `cache is a nil *checkpoint.MemoryCache`},
		"put timeout":            {func() error { return with(treadle.Options{PutTimeout: -time.Second}) }, `invalid Options.PutTimeout -1s: want more than 0, or 0 for the default`},
		"workflow": {func() error {
			_, err := treadle.NewWorkflow[int, int]("w", nil, nil)
			return err
		}, `nil function`},
		"option of a workflow": {func() error {
			_, err := treadle.NewWorkflow("w", func(_ context.Context, n int) (int, error) { return n, nil }, nil, nil)
			return err
		}, `option 1 of 1 is nil`},

		"run":             {func() error { _, err := g.Run(none, said{}); return err }, noContext},
		"stream":          {func() error { return last(g.Stream(none, said{})) }, noContext},
		"RunAll":          {func() error { _, err := g.RunAll(none, []said{{}}); return err }, noContext},
		"RunAll of none":  {func() error { _, err := nilGraph.RunAll(t.Context(), []said{{}}); return err }, "nil graph"},
		"thread":          {func() error { _, err := th.Run(none, said{}); return err }, noContext},
		"continue":        {func() error { _, err := th.Continue(none); return err }, noContext},
		"resume":          {func() error { _, err := th.Resume(none, 1); return err }, noContext},
		"thread's stream": {func() error { return last(th.Stream(none, said{})) }, noContext},
		"state":           {func() error { _, err := th.State(none); return err }, noContext},
		"history":         {func() error { return lastOf(th.History(none, nil)) }, noContext},
		"update":          {func() error { _, err := th.Update(none, said{}); return err }, noContext},
		"bulk update":     {func() error { _, err := th.BulkUpdate(none); return err }, noContext},
		"JSON":            {func() error { _, err := dynamic.Open(g, "t").RunJSON(none, []byte("{}")); return err }, noContext},
		"JSON, no thread": {func() error { _, err := dynamic.Open(g, "").RunJSON(none, []byte("{}")); return err }, noContext},
		"JSON stream":     {func() error { return last(dynamic.Open(g, "").StreamJSON(none, []byte("{}"))) }, noContext},
		"command":         {func() error { return last(dynamic.Open(g, "t").CommandJSON(none, []byte(`{"resume":1}`))) }, noContext},
		"update of JSON":  {func() error { _, err := dynamic.Open(g, "t").UpdateJSON(none, []byte("{}")); return err }, noContext},
		"clear cache":     {func() error { return g.ClearCache(none) }, noContext},
		"interrupt":       {func() error { _, err := treadle.Interrupt[int](none, 1); return err }, "outside a run"},
		"effect": {func() error {
			_, err := treadle.Do(none, "x", func(context.Context) (int, error) { return 1, nil })
			return err
		}, "outside a run"},
		"effect without a function": {func() error {
			return inside(func(ctx context.Context) error { _, err := treadle.Do[int](ctx, "x", nil); return err })
		}, "missing name or function"},
		"option of a task": {func() error {
			return inside(func(ctx context.Context) error {
				_, err := treadle.NewTask("x", func(context.Context, int) (int, error) { return 1, nil }, nil).Run(ctx, 1)
				return err
			})
		}, `task "x": option 1 of 1 is nil`},
		"option of a stream":  {func() error { return last(g.Stream(t.Context(), said{}, nil)) }, "stream: option 1 of 1 is nil"},
		"option of an update": {func() error { _, err := th.Update(t.Context(), said{}, nil); return err }, "update: option 1 of 1 is nil"},
		"option of continue":  {func() error { _, err := th.Continue(t.Context(), nil); return err }, "continue: option 1 of 1 is nil"},
		"option of resume":    {func() error { _, err := th.Resume(t.Context(), 1, nil); return err }, "continue: option 1 of 1 is nil"},

		"encrypted": {func() error {
			_, err := checkpoint.Encrypted(nil, checkpoint.EncryptionKey{Secret: make([]byte, 32)})
			return err
		}, "requires a saver"},
		"store":             {func() error { _, err := store.New(nil, nil); return err }, "backend"},
		"store's get":       {func() error { _, err := memStore.Get(none, store.Namespace{"n"}, "k", nil); return err }, "context"},
		"store's put":       {func() error { return memStore.Put(none, store.Namespace{"n"}, "k", map[string]any{}, nil) }, "context"},
		"store's search":    {func() error { _, err := memStore.Search(none, store.Namespace{"n"}, nil); return err }, "context"},
		"store's history":   {func() error { _, err := memStore.History(none, store.Namespace{"n"}, "k"); return err }, "context"},
		"store's sweep":     {func() error { _, err := memStore.Sweep(none); return err }, "context"},
		"store's reindex":   {func() error { _, err := memStore.Reindex(none); return err }, "context"},
		"store's operation": {func() error { _, err := memStore.Batch(t.Context(), nil); return err }, "operation"},
		"store's watch": {func() (err error) {
			for _, e := range memStore.Watch(none, store.Namespace{"n"}, 0) {
				err = e
			}
			return err
		}, "context"},
		"reflector":     {func() error { _, err := memory.NewReflector[int, int](nil, nil); return err }, "nil function"},
		"manager":       {func() error { _, err := memory.NewManager(nil, nil); return err }, "model"},
		"store manager": {func() error { _, err := memory.NewStoreManager(nil, nil); return err }, "model"},
		"optimizer":     {func() error { _, err := prompts.NewOptimizer(nil, prompts.Gradient, nil); return err }, "model"},
		"extract": {func() error {
			_, err := memory.Extract(t.Context(), nil, []llm.Message{llm.User("x")}, nil, nil)
			return err
		}, "model"},
	} {
		err := errors.New("panicked")
		func() {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("panicked: %v", p)
				}
			}()
			err = test.do()
		}()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// Where no error can be returned, the panic names the nil value.
func TestNilRunOptionPanics(t *testing.T) {
	b := treadle.New[said]("g")
	treadle.AddNode(b, "n", func(_ context.Context, s said) (said, error) { return s, nil })
	b.Edge(treadle.Start, "n")
	g := compiled(t, b, nil)
	for name, do := range map[string]func(){
		"With":   func() { g.With(treadle.StepLimit(3), nil) },
		"Thread": func() { g.Thread("t", treadle.StepLimit(3), nil) },
		"Open":   func() { dynamic.Open(g, "t", treadle.StepLimit(3), nil) },
	} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.HasPrefix(p, `treadle: graph "g": option 2 of `) {
					t.Errorf("%s panics with %s", name, p)
				}
			}()
			do()
		}()
	}
}
