package faulttest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// errDisk is what a saver or cache fails with. Its text is nobody's business but
// the caller's.
var errDisk = errors.New("disk full: password=hunter2")

// writesFail is a saver that fails to store the first result of a call.
type writesFail struct {
	checkpoint.Saver
	left atomic.Int32
	err  error
}

func failing(err error) *writesFail {
	s := &writesFail{Saver: checkpoint.NewMemory(), err: err}
	s.left.Store(1)
	return s
}

func (s *writesFail) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	// The results of siblings, which may be stored while the effect runs, are not meant.
	if bytes.Contains(ws[0].Data, []byte(`"call":`)) && s.left.Add(-1) >= 0 {
		return s.err
	}
	return s.Saver.PutWrites(ctx, at, fence, ws)
}

// nestedFail is a saver that cannot store the checkpoints of nested graphs.
type nestedFail struct{ checkpoint.Saver }

func (s nestedFail) Put(ctx context.Context, p *checkpoint.Put) error {
	if p.Namespace != "" {
		return errDisk
	}
	return s.Saver.Put(ctx, p)
}

// cacheFails is a cache that cannot be read, or not written.
type cacheFails struct {
	checkpoint.Cache
	set bool
}

func (c cacheFails) Get(ctx context.Context, space, key string) ([]byte, bool, error) {
	if c.set {
		return nil, false, nil
	}
	return nil, false, errDisk
}

func (c cacheFails) Set(context.Context, string, string, []byte, time.Duration) error { return errDisk }

type said struct{ Text string }

// always is a policy that tries everything again.
var always = treadle.Retry(treadle.RetryPolicy{Initial: time.Nanosecond, NoJitter: true, On: func(error) bool { return true }})

// answered returns an error handler that handles every error.
func answered(asked *atomic.Int32) treadle.NodeOption {
	return treadle.OnError(func(context.Context, said, *treadle.NodeError) (said, error) {
		asked.Add(1)
		return said{"handled"}, nil
	})
}

func effect(ctx context.Context, runs *atomic.Int32) error {
	_, err := treadle.Do(ctx, "effect", func(context.Context) (int, error) { return int(runs.Add(1)), nil })
	return err
}

// What the engine itself fails with ends the run, whatever the node makes of the
// error: it is not tried again, not handled and not forgotten.
func TestSaverFailureEndsRun(t *testing.T) {
	inner := func(t *testing.T) *treadle.Graph[said, said] {
		b := treadle.New[said]("inner")
		treadle.AddNode(b, "in", func(_ context.Context, s said) (said, error) { return s, nil })
		b.Edge(treadle.Start, "in")
		return compiled(t, b, nil)
	}
	for _, test := range []struct {
		name  string
		saver func() checkpoint.Saver
		cache *cacheFails
		opts  []treadle.NodeOption
		node  func(t *testing.T, runs *atomic.Int32) func(context.Context) error
		runs  int32 // of the effect
	}{
		{"recording an effect", func() checkpoint.Saver { return failing(errDisk) }, nil, nil,
			func(_ *testing.T, runs *atomic.Int32) func(context.Context) error {
				return func(ctx context.Context) error { return effect(ctx, runs) }
			}, 1},
		{"a second effect", func() checkpoint.Saver { return failing(errDisk) }, nil, nil,
			func(_ *testing.T, runs *atomic.Int32) func(context.Context) error {
				return func(ctx context.Context) error { return errors.Join(effect(ctx, runs), effect(ctx, runs)) }
			}, 1},
		{"an effect of a task", func() checkpoint.Saver { return failing(errDisk) }, nil, nil,
			func(_ *testing.T, runs *atomic.Int32) func(context.Context) error {
				task := treadle.NewTask("task", func(ctx context.Context, _ int) (int, error) { _ = effect(ctx, runs); return 1, nil }, always)
				return func(ctx context.Context) error { _, err := task.Run(ctx, 1); return err }
			}, 1},
		{"a nested run", func() checkpoint.Saver { return nestedFail{checkpoint.NewMemory()} }, nil, nil,
			func(t *testing.T, _ *atomic.Int32) func(context.Context) error {
				g := inner(t)
				return func(ctx context.Context) error { _, err := g.Run(ctx, said{"x"}); return err }
			}, 0},
		{"an effect in a nested run", func() checkpoint.Saver { return failing(errDisk) }, nil, nil,
			func(t *testing.T, runs *atomic.Int32) func(context.Context) error {
				b := treadle.New[said]("inner")
				treadle.AddNode(b, "in", func(ctx context.Context, s said) (said, error) { _ = effect(ctx, runs); return s, nil }, always)
				b.Edge(treadle.Start, "in")
				g := compiled(t, b, nil)
				return func(ctx context.Context) error { _, err := g.Run(ctx, said{"x"}); return err }
			}, 1},
		{"reading the cache of a task", nil, &cacheFails{}, nil,
			func(_ *testing.T, runs *atomic.Int32) func(context.Context) error {
				task := treadle.NewTask("task", func(context.Context, int) (int, error) { return int(runs.Add(1)), nil }, always, treadle.Cache(0))
				return func(ctx context.Context) error { _, err := task.Run(ctx, 1); return err }
			}, 0},
		{"filling the cache of a task", nil, &cacheFails{set: true}, nil,
			func(_ *testing.T, runs *atomic.Int32) func(context.Context) error {
				task := treadle.NewTask("task", func(context.Context, int) (int, error) { return int(runs.Add(1)), nil }, always, treadle.Cache(0))
				return func(ctx context.Context) error { _, err := task.Run(ctx, 1); return err }
			}, 1},
		{"reading the cache", nil, &cacheFails{}, []treadle.NodeOption{treadle.Cache(0)},
			func(_ *testing.T, runs *atomic.Int32) func(context.Context) error {
				return func(context.Context) error { runs.Add(1); return nil }
			}, 0},
		{"filling the cache", nil, &cacheFails{set: true}, []treadle.NodeOption{treadle.Cache(0)},
			func(_ *testing.T, runs *atomic.Int32) func(context.Context) error {
				return func(context.Context) error { runs.Add(1); return nil }
			}, 1},
	} {
		for _, made := range []string{"nothing", "another error", "the error"} {
			for _, beside := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, node returns %s, beside another %t", test.name, made, beside), func(t *testing.T) {
					var runs, calls, asked atomic.Int32
					do := test.node(t, &runs)
					b := treadle.New[said]("g")
					treadle.AddNode(b, "pay", func(ctx context.Context, _ said) (said, error) {
						calls.Add(1)
						err := do(ctx)
						switch {
						case made == "another error" && err != nil:
							err = errors.New("payment failed")
						case made == "nothing":
							err = nil
						}
						return said{"paid"}, err
					}, append(test.opts, always, answered(&asked))...)
					b.Edge(treadle.Start, "pay")
					if beside {
						treadle.AddNode(b, "other", func(context.Context, said) (struct{}, error) { return struct{}{}, nil })
						b.Edge(treadle.Start, "other")
					}
					o := &treadle.Options{Saver: checkpoint.NewMemory()}
					if test.cache != nil {
						fresh := *test.cache // a separate cache, which no other case has used
						o.Cache = &fresh
					}
					if test.saver != nil {
						o.Saver = test.saver()
					}
					out, err := compiled(t, b, o).Thread("t").Run(t.Context(), said{"x"})
					wantFault(t, out, err, errDisk)
					if asked.Load() != 0 || calls.Load() > 1 || runs.Load() != test.runs {
						t.Errorf("node ran %d times, the effect %d (want %d), the handler %d", calls.Load(), runs.Load(), test.runs, asked.Load())
					}
				})
			}
		}
	}
}

func wantFault(t *testing.T, out said, err, want error) {
	t.Helper()
	failure, ok := errors.AsType[*treadle.NodeError](err)
	if !errors.Is(err, want) || !ok || failure.Node != "pay" || failure.Attempt != 1 {
		t.Errorf("run ended with %v", err)
	}
	if out.Text != "x" {
		t.Errorf("failed step has written %q", out.Text)
	}
}

// An error handler and a branch cannot get round a failure of the machinery
// either: they are tasks, too.
func TestSaverFailureInHandlersAndBranches(t *testing.T) {
	for _, beside := range []bool{false, true} {
		for _, kind := range []string{"handler", "branch"} {
			var runs atomic.Int32
			b := treadle.New[said]("g")
			fails := errors.New("fails")
			saver := failing(checkpoint.ErrFenced)
			if kind == "handler" {
				treadle.AddNode(b, "pay", func(context.Context, said) (said, error) { return said{}, fails },
					treadle.OnError(func(ctx context.Context, _ said, _ *treadle.NodeError) (said, error) {
						saver.left.Store(1) // the failure itself was stored
						_ = effect(ctx, &runs)
						return said{"handled"}, nil
					}))
				saver.left.Store(0)
			} else {
				treadle.AddNode(b, "pay", func(context.Context, said) (said, error) { return said{"paid"}, nil })
				treadle.AddBranch(b, "pay", func(ctx context.Context, _ said) (treadle.Goto, error) {
					_ = effect(ctx, &runs)
					return treadle.To(treadle.End), nil
				})
			}
			b.Edge(treadle.Start, "pay")
			if beside {
				treadle.AddNode(b, "other", func(context.Context, said) (struct{}, error) { return struct{}{}, nil })
				b.Edge(treadle.Start, "other")
			}
			out, err := compiled(t, b, &treadle.Options{Saver: saver}).Thread("t").Run(t.Context(), said{"x"})
			wantFault(t, out, err, checkpoint.ErrFenced)
			if runs.Load() != 1 {
				t.Errorf("%s: effect happened %d times", kind, runs.Load())
			}
		}
	}
}

// Without a saver, an interrupt fails; a node that ignored the error would continue
// without an answer.
func TestSwallowedInterruptWithoutSaver(t *testing.T) {
	for _, want := range []error{treadle.ErrNoSaver, treadle.ErrNoThread} {
		var asked atomic.Int32
		b := treadle.New[said]("g")
		treadle.AddNode(b, "pay", func(ctx context.Context, s said) (said, error) {
			if ok, err := treadle.Interrupt[bool](ctx, "sure?"); err == nil && !ok {
				return s, nil
			}
			return said{"paid"}, nil
		}, always, answered(&asked))
		b.Edge(treadle.Start, "pay")
		o := &treadle.Options{}
		if errors.Is(want, treadle.ErrNoThread) {
			o.Saver = checkpoint.NewMemory()
		}
		out, err := compiled(t, b, o).Run(t.Context(), said{"x"})
		wantFault(t, out, err, want)
		if asked.Load() != 0 {
			t.Error("handler was called")
		}
	}
}

// A saver's failure inside a tool is not the tool's mistake: the model is not
// told, nothing is called again, and the run ends with it.
func TestSaverFailureInsideTool(t *testing.T) {
	for _, test := range []struct {
		name  string
		calls int
		tool  func(ctx context.Context, runs *atomic.Int32) (string, error)
		with  []*agent.Middleware
	}{
		{"returned", 1, func(ctx context.Context, runs *atomic.Int32) (string, error) { return "paid", effect(ctx, runs) }, nil},
		{"made another error", 1, func(ctx context.Context, runs *atomic.Int32) (string, error) {
			return "", fmt.Errorf("failed: %v", effect(ctx, runs)) //nolint:errorlint // on purpose
		}, nil},
		{"swallowed", 1, func(ctx context.Context, runs *atomic.Int32) (string, error) {
			_ = effect(ctx, runs)
			return "paid", nil
		}, nil},
		{"two calls", 2, func(ctx context.Context, runs *atomic.Int32) (string, error) { return "paid", effect(ctx, runs) }, nil},
		{"retried", 1, func(ctx context.Context, runs *atomic.Int32) (string, error) {
			return "", fmt.Errorf("failed: %v", effect(ctx, runs)) //nolint:errorlint // on purpose
		}, []*agent.Middleware{agent.RetryTools(&treadle.RetryPolicy{Initial: time.Nanosecond, NoJitter: true, On: func(error) bool { return true }})}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var runs, ran atomic.Int32
			pay := llm.NewTool("pay", "pays", func(ctx context.Context, _ struct{}) (string, error) {
				ran.Add(1)
				return test.tool(ctx, &runs)
			})
			var calls []llm.ToolCall
			for range test.calls {
				calls = append(calls, llmtest.ToolCall("pay", "{}"))
			}
			model := llmtest.NewScript(llmtest.Ask(calls...), llmtest.Say("done"))
			a, err := agent.New(model, &agent.Options{Tools: []*llm.Tool{pay}, Middleware: test.with,
				Graph: treadle.Options{Saver: failing(errDisk)}})
			if err != nil {
				t.Fatal(err)
			}
			out, err := a.Thread("t").Run(t.Context(), agent.Ask("pay"))
			if !errors.Is(err, errDisk) {
				t.Errorf("run ended with %v", err)
			}
			if int(ran.Load()) > test.calls || int(runs.Load()) > test.calls {
				t.Errorf("tool ran %d times and the effect %d", ran.Load(), runs.Load())
			}
			for _, m := range out.Messages {
				if strings.Contains(m.Text(), "hunter2") {
					t.Errorf("model reads %q", m.Text())
				}
			}
		})
	}
}

// model is a model that records an effect.
type model struct {
	runs *atomic.Int32
	err  error
}

func (m model) Stream(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if err := effect(ctx, m.runs); err != nil {
			yield(llm.Chunk{}, errors.Join(m.err, errors.New("overloaded")))
			return
		}
		yield(llm.Chunk{Content: "well"}, nil)
	}
}

type passing struct{ error }

func (passing) Temporary() bool { return true }

// Neither another attempt nor another model can help a run that has failed.
func TestSaverFailureInsideModel(t *testing.T) {
	for name, wrap := range map[string]func(m model) llm.Model{
		"fallback": func(m model) llm.Model { return llm.Fallback(m, llmtest.NewScript(llmtest.Say("well"))) },
		"retry": func(m model) llm.Model {
			return llm.Retry(m, &treadle.RetryPolicy{Initial: time.Nanosecond, NoJitter: true})
		},
	} {
		var runs atomic.Int32
		m := wrap(model{&runs, passing{errors.New("passing")}})
		b := treadle.New[said]("g")
		treadle.AddNode(b, "pay", func(ctx context.Context, _ said) (said, error) {
			msg, err := llm.Generate(ctx, m, llm.User("hello"))
			return said{msg.Text()}, err
		})
		b.Edge(treadle.Start, "pay")
		out, err := compiled(t, b, &treadle.Options{Saver: failing(errDisk)}).Thread("t").Run(t.Context(), said{"x"})
		wantFault(t, out, err, errDisk)
		if runs.Load() != 1 {
			t.Errorf("%s: model was called %d times", name, runs.Load())
		}
	}
}

func compiled[S any](t *testing.T, b *treadle.Builder[S], o *treadle.Options) *treadle.Graph[S, S] {
	t.Helper()
	g, err := b.Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
