package faulttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/reduce"
	"github.com/treadle-go/treadle/store"
)

// A bomb fails a user's function while it is armed.
type bomb struct {
	armed atomic.Bool
	hits  atomic.Int32
	off   func()
}

func (b *bomb) touch() {
	if b != nil && b.armed.Load() {
		b.hits.Add(1)
		b.off()
	}
}

var errBoom = errors.New("boom of the user's code")

// blasts lists the ways in which a function can fail to return.
var blasts = []struct {
	name string
	off  func()
	text string // in the error
	// value: it differs from the first in the value of the panic only.
	value bool
}{
	{"string", func() { panic("boom of the user's code") }, "panic: boom of the user's code", false},
	{"error", func() { panic(errBoom) }, "panic: boom of the user's code", true},
	{"nil", func() { panic(nil) }, "panic: panic called with nil argument", true},
	{"runtime", func() { var m map[string]int; m["x"] = 1 }, "panic: assignment to entry in nil map", true}, //nolint:staticcheck // it panics
	{"exit", runtime.Goexit, "runtime.Goexit ended the goroutine", false},
}

// fields whose methods are the user's code.
type (
	unwritable struct {
		B *bomb `json:"-"`
	}
	unreadable struct{}
	merging    struct {
		B *bomb `json:"-"`
		N int
	}
	checked struct {
		B *bomb `json:"-"`
		N int
	}
	frail   struct{ b *bomb } // an error
	frailAs struct{ b *bomb } //nolint:errname // named after the method that fails
)

func (u unwritable) MarshalJSON() ([]byte, error) { u.B.touch(); return []byte("{}"), nil }
func (u *unwritable) UnmarshalJSON([]byte) error  { return nil }

// live is the bomb of the running test, for values created by decoding.
var live atomic.Pointer[bomb]

func (u unreadable) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }
func (u *unreadable) UnmarshalJSON([]byte) error  { live.Load().touch(); return nil }

func (m merging) Reduce(u merging) merging { u.B.touch(); return merging{} }
func (c checked) Validate() error          { c.B.touch(); return nil }

func (f frail) Error() string { f.b.touch(); return "frail" }

func (f frailAs) Error() string { return "frail" }
func (f frailAs) As(any) bool   { f.b.touch(); return false }

type world struct {
	Log   reduce.List[string]
	Wrote unwritable
	Merge merging
	Check checked
}

type logged struct{ Log reduce.List[string] }

// A callback is a function that a user gives to a graph. add makes the node "bad",
// which calls it.
type callback struct {
	name   string
	stored bool   // it is called for storing only
	place  string // place named in the error, if not "bad"
	own    bool   // the text of the error is not the bomb's, see want
	want   string
	opts   func(o *treadle.Options, b *bomb)
	add    func(g *treadle.Builder[world], b *bomb)
}

// node adds a node that does f and logs.
func node(g *treadle.Builder[world], f func(context.Context) error, opts ...treadle.NodeOption) {
	treadle.AddNode(g, "bad", func(ctx context.Context, _ world) (logged, error) {
		return logged{reduce.List[string]{"bad"}}, f(ctx)
	}, opts...)
}

var errPlain = errors.New("plain failure")

// codec is a user's codec.
type codec struct{ b *bomb }

func (codec) Name() string { return "own" }

func (c codec) Marshal(v any) ([]byte, error) { c.b.touch(); return json.Marshal(v) }

func (c codec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// saver is a user's saver.
type saver struct {
	checkpoint.Saver
	put, writes *bomb
}

func (s saver) Put(ctx context.Context, p *checkpoint.Put) error {
	if len(p.Changes) > 0 { // not the input, which is the first
		s.put.touch()
	}
	return s.Saver.Put(ctx, p)
}

func (s saver) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	s.writes.touch()
	return s.Saver.PutWrites(ctx, at, fence, ws)
}

// cache is a user's cache.
type cache struct {
	checkpoint.Cache
	get, set *bomb
}

func (c cache) Get(ctx context.Context, space, key string) ([]byte, bool, error) {
	c.get.touch()
	return nil, false, nil
}

func (c cache) Set(context.Context, string, string, []byte, time.Duration) error {
	c.set.touch()
	return nil
}

// embedder is a user's embedder.
type embedder struct{ b *bomb }

func (embedder) Model() string  { return "own" }
func (embedder) Dimension() int { return 1 }
func (e embedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	e.b.touch()
	out := make([][]float32, len(texts))
	for i := range out {
		out[i] = []float32{1}
	}
	return out, nil
}

// talker is a user's model.
type talker struct{ b *bomb }

func (m talker) Stream(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		m.b.touch()
		yield(llm.Chunk{Content: "well"}, nil)
	}
}

// withAgent adds an agent as the node's own run.
func withAgent(g *treadle.Builder[world], m llm.Model, tools []*llm.Tool, with ...*agent.Middleware) {
	a, err := agent.New(m, &agent.Options{Tools: tools, Middleware: with, ToolOptions: agent.ToolOptions{OnToolError: agent.RaiseToolErrors}})
	if err != nil {
		panic(err)
	}
	node(g, func(ctx context.Context) error { _, err := a.Run(ctx, agent.Ask("do")); return err })
}

// caller returns a model that calls the tool n times in one message and then finishes.
func caller(n int) llm.Model {
	return llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
		if req.Messages[len(req.Messages)-1].Role != llm.RoleHuman {
			return llm.Assistant("done"), nil
		}
		return llm.Assistant("", slices.Repeat([]llm.ToolCall{llmtest.ToolCall("t", "{}")}, n)...), nil
	})
}

func toolOf(b *bomb) []*llm.Tool {
	return []*llm.Tool{llm.NewTool("t", "d", func(context.Context, struct{}) (string, error) { b.touch(); return "x", nil })}
}

var callbacks = []callback{
	{name: "node", add: func(g *treadle.Builder[world], b *bomb) {
		node(g, func(context.Context) error { b.touch(); return nil })
	}},
	{name: "node with a timeout", add: func(g *treadle.Builder[world], b *bomb) {
		node(g, func(context.Context) error { b.touch(); return nil }, treadle.Timeout(time.Minute))
	}},
	{name: "node that has started tasks", add: func(g *treadle.Builder[world], b *bomb) {
		task := treadle.NewTask("task", func(ctx context.Context, _ int) (int, error) {
			if b.armed.Load() {
				<-ctx.Done() // canceled with the node
			}
			return 1, nil
		})
		node(g, func(ctx context.Context) error { f := task.Go(ctx, 1); b.touch(); _, err := f.Wait(); return err })
	}},
	{name: "branch", add: func(g *treadle.Builder[world], b *bomb) {
		node(g, func(context.Context) error { return nil })
		treadle.AddBranch(g, "bad", func(context.Context, world) (treadle.Goto, error) { b.touch(); return treadle.To(treadle.End), nil })
	}},
	{name: "error handler", add: func(g *treadle.Builder[world], b *bomb) {
		node(g, func(context.Context) error { return errPlain },
			treadle.OnError(func(context.Context, world, *treadle.NodeError) (logged, error) { b.touch(); return logged{}, nil }))
	}},
	{name: "retry policy", add: func(g *treadle.Builder[world], b *bomb) {
		node(g, func(context.Context) error {
			if b.armed.Load() {
				return errPlain
			}
			return nil
		}, treadle.Retry(treadle.RetryPolicy{Initial: 1, NoJitter: true, On: func(error) bool { b.touch(); return true }}))
	}},
	{name: "key of the cache", add: func(g *treadle.Builder[world], b *bomb) {
		node(g, func(context.Context) error { return nil }, treadle.CacheBy(0, func(world) string { b.touch(); return "k" }))
	}},
	{name: "effect", add: func(g *treadle.Builder[world], b *bomb) {
		node(g, func(ctx context.Context) error {
			_, err := treadle.Do(ctx, "x", func(context.Context) (int, error) { b.touch(); return 1, nil })
			return err
		})
	}},
	{name: "task with a timeout", add: func(g *treadle.Builder[world], b *bomb) {
		task := treadle.NewTask("x", func(context.Context, int) (int, error) { b.touch(); return 1, nil }, treadle.Timeout(time.Minute))
		node(g, func(ctx context.Context) error { _, err := task.Run(ctx, 1); return err })
	}},
	{name: "retry policy of a task", add: func(g *treadle.Builder[world], b *bomb) {
		task := treadle.NewTask("x", func(context.Context, int) (int, error) {
			if b.armed.Load() {
				return 0, errPlain
			}
			return 1, nil
		}, treadle.Retry(treadle.RetryPolicy{Initial: 1, NoJitter: true, On: func(error) bool { b.touch(); return true }}))
		node(g, func(ctx context.Context) error { _, err := task.Run(ctx, 1); return err })
	}},
	{name: "key of a task's cache", add: func(g *treadle.Builder[world], b *bomb) {
		task := treadle.NewTask("x", func(context.Context, int) (int, error) { return 1, nil }, treadle.CacheBy(0, func(int) string { b.touch(); return "k" }))
		node(g, func(ctx context.Context) error { _, err := task.Run(ctx, 1); return err })
	}},
	{name: "MarshalJSON of a task's result", add: func(g *treadle.Builder[world], b *bomb) {
		node(g, func(ctx context.Context) error {
			_, err := treadle.Do(ctx, "x", func(context.Context) (unwritable, error) { return unwritable{b}, nil })
			return err
		})
	}},
	{name: "UnmarshalJSON of a task's result", add: func(g *treadle.Builder[world], b *bomb) {
		node(g, func(ctx context.Context) error {
			_, err := treadle.Do(ctx, "x", func(context.Context) (unreadable, error) { return unreadable{}, nil })
			return err
		})
	}},
	{name: "MarshalJSON of a field", stored: true, add: func(g *treadle.Builder[world], b *bomb) {
		treadle.AddNode(g, "bad", func(context.Context, struct{}) (struct{ Wrote unwritable }, error) {
			return struct{ Wrote unwritable }{unwritable{b}}, nil
		})
	}},
	{name: "MarshalJSON of a send", stored: true, add: func(g *treadle.Builder[world], b *bomb) {
		type parcel struct{ What unwritable }
		treadle.AddNode(g, "to", func(context.Context, parcel) (logged, error) { return logged{}, nil })
		treadle.AddNode(g, "bad", func(context.Context, struct{}) (treadle.Goto, error) {
			return treadle.Send("to", parcel{unwritable{b}}), nil
		}, treadle.Destinations("to"))
	}, place: "graph"},
	{name: "MarshalJSON for the cache", add: func(g *treadle.Builder[world], b *bomb) {
		treadle.AddNode(g, "bad", func(context.Context, struct{}) (struct{ Wrote unwritable }, error) {
			return struct{ Wrote unwritable }{unwritable{b}}, nil
		}, treadle.Cache(0))
	}},
	{name: "Reduce", add: func(g *treadle.Builder[world], b *bomb) {
		treadle.AddNode(g, "bad", func(context.Context, struct{}) (struct{ Merge merging }, error) {
			return struct{ Merge merging }{merging{B: b}}, nil
		})
	}},
	{name: "Validate", add: func(g *treadle.Builder[world], b *bomb) {
		treadle.AddNode(g, "bad", func(context.Context, struct{}) (struct{ Check checked }, error) {
			return struct{ Check checked }{checked{B: b}}, nil
		})
	}, place: "graph"},
	{name: "Error of an error", stored: true, own: true, want: "frail", add: func(g *treadle.Builder[world], b *bomb) {
		node(g, func(context.Context) error {
			if b.armed.Load() {
				return frail{b}
			}
			return nil
		})
	}},
	{name: "As of an error", add: func(g *treadle.Builder[world], b *bomb) {
		node(g, func(context.Context) error {
			if b.armed.Load() {
				return frailAs{b}
			}
			return nil
		})
	}},
	{name: "codec", stored: true, opts: func(o *treadle.Options, b *bomb) { o.Codecs = []checkpoint.Codec{codec{b}} }, place: "graph",
		add: func(g *treadle.Builder[world], _ *bomb) { node(g, func(context.Context) error { return nil }) }},
	{name: "Put of a saver", stored: true, opts: func(o *treadle.Options, b *bomb) { o.Saver = saver{Saver: o.Saver, put: b} }, place: "graph",
		add: func(g *treadle.Builder[world], _ *bomb) { node(g, func(context.Context) error { return nil }) }},
	{name: "PutWrites of a saver", stored: true, opts: func(o *treadle.Options, b *bomb) { o.Saver = saver{Saver: o.Saver, writes: b} }, place: "graph",
		add: func(g *treadle.Builder[world], _ *bomb) {
			node(g, func(ctx context.Context) error {
				_, err := treadle.Do(ctx, "x", func(context.Context) (int, error) { return 1, nil })
				return err
			})
		}},
	{name: "Get of a cache", opts: func(o *treadle.Options, b *bomb) { o.Cache = cache{get: b} },
		add: func(g *treadle.Builder[world], _ *bomb) {
			node(g, func(context.Context) error { return nil }, treadle.Cache(0))
		}},
	{name: "Set of a cache", opts: func(o *treadle.Options, b *bomb) { o.Cache = cache{set: b} },
		add: func(g *treadle.Builder[world], _ *bomb) {
			node(g, func(context.Context) error { return nil }, treadle.Cache(0))
		}},
	{name: "embedder", add: func(g *treadle.Builder[world], b *bomb) {
		s, err := store.NewMemory(&store.Options{Embedder: embedder{b}})
		if err != nil {
			panic(err)
		}
		n := 0
		node(g, func(ctx context.Context) error {
			n++
			return s.Put(ctx, store.Namespace{"n"}, "k", map[string]any{"text": fmt.Sprint("x", n)}, nil)
		})
	}},
	{name: "model", add: func(g *treadle.Builder[world], b *bomb) { withAgent(g, talker{b}, nil) }},
	{name: "wrapped model", add: func(g *treadle.Builder[world], b *bomb) {
		withAgent(g, llm.Fallback(llm.Retry(talker{b}, nil), talker{b}), nil)
	}},
	{name: "tool", add: func(g *treadle.Builder[world], b *bomb) { withAgent(g, caller(1), toolOf(b)) }},
	{name: "two calls of a tool", add: func(g *treadle.Builder[world], b *bomb) { withAgent(g, caller(2), toolOf(b)) }},
	{name: "tool middleware", add: func(g *treadle.Builder[world], b *bomb) {
		withAgent(g, caller(1), toolOf(nil), &agent.Middleware{Name: "m",
			WrapTool: func(ctx context.Context, c agent.ToolCall, next agent.ToolFunc) (any, error) {
				b.touch()
				return next(ctx, c)
			}})
	}},
	{name: "model middleware", add: func(g *treadle.Builder[world], b *bomb) {
		withAgent(g, caller(1), toolOf(nil), &agent.Middleware{Name: "m",
			WrapModel: func(ctx context.Context, c agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
				b.touch()
				return next(ctx, c)
			}})
	}},
}

// The places in a graph where the node with the callback runs.
var shapes = []string{"alone", "beside", "nested", "sent"}

// build compiles the graph.
func (c *callback) build(t *testing.T, shape string, b *bomb, o *treadle.Options) *treadle.Graph[world, world] {
	t.Helper()
	g := treadle.New[world]("g")
	other := func(g *treadle.Builder[world]) {
		treadle.AddNode(g, "other", func(ctx context.Context, _ world) (logged, error) {
			return logged{reduce.List[string]{"other"}}, nil
		})
	}
	if c.opts != nil {
		c.opts(o, b)
	}
	o.Strict = false
	switch shape {
	case "alone":
		c.add(g, b)
		g.Edge(treadle.Start, "bad")
	case "beside":
		c.add(g, b)
		other(g)
		g.Edge(treadle.Start, "bad")
		g.Edge(treadle.Start, "other")
	case "sent":
		c.add(g, b)
		other(g)
		treadle.AddBranch(g, treadle.Start, func(context.Context, world) (treadle.Goto, error) {
			return append(treadle.To("bad"), treadle.Send("other", world{})...), nil
		}, "bad", "other")
	case "nested":
		in := treadle.New[world]("inner")
		c.add(in, b)
		in.Edge(treadle.Start, "bad")
		inner := compiled(t, in, &treadle.Options{})
		treadle.AddGraph(g, "sub", inner)
		other(g)
		g.Edge(treadle.Start, "sub")
		g.Edge(treadle.Start, "other")
	}
	return compiled(t, g, o)
}

// A panic or the end of a goroutine in any function of the user's is an error
// that says where, with the stack. Nothing hangs, no goroutine is left, and the
// same graph runs again.
func TestBlockedCallbacks(t *testing.T) {
	for _, c := range callbacks {
		t.Run(c.name, func(t *testing.T) {
			for _, shape := range shapes {
				for _, durability := range []string{"none", "sync", "async"} {
					if c.stored && durability == "none" {
						continue
					}
					for _, blast := range blasts {
						if blast.value && shape != "beside" {
							continue // what a panic is called with does not depend on the shape
						}
						name := fmt.Sprintf("%s, saver %s, %s", shape, durability, blast.name)
						b := &bomb{off: blast.off}
						live.Store(b)
						o := &treadle.Options{Check: new(false)}
						if durability != "none" {
							o.Saver = checkpoint.NewMemory()
						}
						g := c.build(t, shape, b, o)
						if durability == "async" {
							g = g.With(treadle.Async)
						}
						b.armed.Store(true)
						err := streamed(t, name, g, durability)
						b.armed.Store(false)
						c.check(t, name, blast.name, blast.text, b, err)
						// On the caller's own goroutine it may end that one, and nothing else.
						b.armed.Store(true)
						err, back := called(t, name, g, durability)
						b.armed.Store(false)
						if back {
							c.check(t, name+", called", blast.name, blast.text, b, err)
						} else if blast.name != "exit" {
							t.Errorf("%s: caller was ended by a panic", name)
						}
						if err := streamed(t, name, g, durability); err != nil {
							t.Errorf("%s: afterwards the graph fails: %v", name, err)
						}
					}
				}
			}
		})
	}
}

// check looks at the error.
func (c *callback) check(t *testing.T, name, blast, text string, b *bomb, err error) {
	t.Helper()
	switch {
	case b.hits.Load() == 0:
		t.Errorf("%s: function was not called", name)
		return
	case err == nil:
		t.Errorf("%s: run succeeded", name)
		return
	}
	msg, place := err.Error(), c.place
	switch {
	case c.stored && blast == "exit":
		place = "graph" // saves on a separate goroutine; the function is named
	case place == "":
		place = `node "bad"`
	}
	if c.own && blast != "exit" {
		if !strings.Contains(msg, c.want) || !strings.Contains(msg, `node "bad"`) {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	if !strings.Contains(msg, place) || !strings.Contains(msg, text) || !strings.Contains(msg, "callback_test.go:") {
		t.Errorf("%s: error lacks the cause or the place: %v", name, err)
	}
	if blast == "error" && !errors.Is(err, errBoom) {
		t.Errorf("%s: error of the panic is not in %v", name, err)
	}
	stack := false
	for _, e := range all(err) {
		if failure, ok := e.(*treadle.NodeError); ok && strings.Contains(string(failure.Stack), "callback_test.go") { //nolint:errorlint // all are looked at
			stack = true
		}
		if failure, ok := e.(*llm.ToolError); ok && strings.Contains(string(failure.Stack), "callback_test.go") { //nolint:errorlint // all are looked at
			stack = true
		}
	}
	if !stack {
		t.Errorf("%s: no stack in %v", name, err)
	}
}

// all returns the errors that err wraps.
func all(err error) []error {
	switch e := err.(type) { //nolint:errorlint // it unwraps
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		out := []error{err}
		for _, inner := range e.Unwrap() {
			out = append(out, all(inner)...)
		}
		return out
	case interface{ Unwrap() error }:
		return append([]error{err}, all(e.Unwrap())...)
	}
	return []error{err}
}

// patience is the timeout on a slow machine.
const patience = 30 * time.Second

// streamed runs the graph on a separate goroutine.
func streamed(t *testing.T, name string, g *treadle.Graph[world, world], durability string) error {
	t.Helper()
	done := make(chan struct{})
	var got error
	go func() {
		defer close(done)
		events := g.Stream(t.Context(), world{}, treadle.Modes(treadle.ModeUpdates, treadle.ModeTasks, treadle.ModeCheckpoints))
		if durability != "none" {
			events = g.Thread("t").Stream(t.Context(), world{})
		}
		for _, e := range events {
			got = e
		}
	}()
	await(t, name, done)
	return got
}

// called runs the graph on its caller's goroutine, and reports whether that one
// came back.
func called(t *testing.T, name string, g *treadle.Graph[world, world], durability string) (err error, back bool) { //nolint:revive // the error is not of this function
	t.Helper()
	done := make(chan struct{})
	var got error
	var returned bool
	go func() {
		defer close(done)
		if durability != "none" {
			_, got = g.Thread("t").Run(t.Context(), world{})
		} else {
			_, got = g.Run(t.Context(), world{})
		}
		returned = true
	}()
	await(t, name, done)
	return got, returned
}

func await(t *testing.T, name string, done chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s: hangs\n%s", name, buf[:runtime.Stack(buf, true)])
	}
}
