package faulttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/reduce"
)

// errSaver is the error of a failing saver. Its text must not reach a model.
var errSaver = errors.New("disk full at secret-path")

// A saverFault is one way for a call of a saver to go wrong.
type saverFault struct {
	name string
	// reads: calls of Get and List can go wrong in this way, too.
	reads bool
	// lies: the saver reports success, so the caller need not report anything.
	lies bool
	err  error // error that the caller should report
	call func(ctx context.Context, store func() error) error
}

var saverFaults = []saverFault{
	{name: "fails", reads: true, err: errSaver, call: func(context.Context, func() error) error { return errSaver }},
	{name: "fails after it has stored", err: errSaver, call: func(_ context.Context, store func() error) error {
		return errors.Join(errSaver, store())
	}},
	{name: "conflict", err: checkpoint.ErrConflict, call: func(context.Context, func() error) error { return checkpoint.ErrConflict }},
	{name: "fenced", err: checkpoint.ErrFenced, call: func(context.Context, func() error) error { return checkpoint.ErrFenced }},
	{name: "stalls", reads: true, err: context.DeadlineExceeded, call: func(ctx context.Context, _ func() error) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}},
	{name: "panics", reads: true, call: func(context.Context, func() error) error { panic("in the saver") }},
	{name: "loses it and says nothing", lies: true, call: func(context.Context, func() error) error { return nil }},
}

// A faultySaver has the n-th call go wrong, and no other. It counts all.
type faultySaver struct {
	checkpoint.Saver
	fault saverFault

	mu    sync.Mutex
	n     int // 0: none
	calls []string
}

// do makes a call, well or not. fails says whether the fault was hit.
func (s *faultySaver) do(ctx context.Context, name string, store func() error) error {
	s.mu.Lock()
	s.calls = append(s.calls, name)
	hit := len(s.calls) == s.n
	s.mu.Unlock()
	if hit {
		return s.fault.call(ctx, store)
	}
	return store()
}

func (s *faultySaver) Put(ctx context.Context, p *checkpoint.Put) error {
	return s.do(ctx, "Put", func() error { return s.Saver.Put(ctx, p) })
}

func (s *faultySaver) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	return s.do(ctx, "PutWrites", func() error { return s.Saver.PutWrites(ctx, at, fence, ws) })
}

func (s *faultySaver) Get(ctx context.Context, key checkpoint.Key) (cp *checkpoint.Checkpoint, err error) {
	err = s.do(ctx, "Get", func() error { cp, err = s.Saver.Get(ctx, key); return err })
	return cp, err
}

func (s *faultySaver) List(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Checkpoint, error] {
	return func(yield func(*checkpoint.Checkpoint, error) bool) {
		if err := s.do(ctx, "List", func() error { return nil }); err != nil {
			yield(nil, err)
			return
		}
		s.Saver.List(ctx, q)(yield)
	}
}

// effects are what programs do outside: by name, with the idempotency key of
// each time.
type effects struct {
	mu   sync.Mutex
	keys map[string][]string
}

func (e *effects) do(ctx context.Context, name string) (string, error) {
	return treadle.Do(ctx, name, func(ctx context.Context) (string, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.keys[name] = append(e.keys[name], treadle.InfoFrom(ctx).IdempotencyKey)
		return "did " + name, nil
	})
}

type saverState struct {
	Items []string
	Log   reduce.List[string]
}

type saverLog struct{ Log reduce.List[string] }

func lines(text ...string) saverLog { return saverLog{reduce.List[string](text)} }

// A saverProgram is a graph whose runs store in every way there is.
type saverProgram struct {
	name  string
	build func(*treadle.Options, *effects) *treadle.Graph[saverState, saverState]
}

func acting(e *effects, name string) func(context.Context, saverState) (saverLog, error) {
	return func(ctx context.Context, _ saverState) (saverLog, error) {
		did, err := e.do(ctx, name)
		return lines(did), err
	}
}

func asking(question string) func(context.Context, saverState) (saverLog, error) {
	return func(ctx context.Context, _ saverState) (saverLog, error) {
		answer, err := treadle.Interrupt[string](ctx, question)
		return lines(question + " " + answer), err
	}
}

var saverPrograms = []saverProgram{
	{"chain", func(o *treadle.Options, e *effects) *treadle.Graph[saverState, saverState] {
		b := treadle.New[saverState]("chain")
		treadle.AddNode(b, "one", acting(e, "first"))
		treadle.AddNode(b, "two", asking("two?"))
		treadle.AddNode(b, "three", acting(e, "third"))
		b.Sequence(treadle.Start, "one", "two", "three")
		return treadle.Must(b.Compile(o))
	}},
	{"branch from Start", func(o *treadle.Options, e *effects) *treadle.Graph[saverState, saverState] {
		b := treadle.New[saverState]("start")
		treadle.AddNode(b, "one", acting(e, "first"))
		treadle.AddBranch(b, treadle.Start, func(ctx context.Context, _ saverState) (treadle.Goto, error) {
			if _, err := e.do(ctx, "choose"); err != nil {
				return nil, err
			}
			_, err := treadle.Interrupt[string](ctx, "where to?")
			return treadle.To("one"), err
		}, "one")
		return treadle.Must(b.Compile(o))
	}},
	{"fan-out", func(o *treadle.Options, e *effects) *treadle.Graph[saverState, saverState] {
		b := treadle.New[saverState]("fan")
		item := treadle.AddNode(b, "item", func(ctx context.Context, name string) (saverLog, error) {
			if name == "b" {
				time.Sleep(time.Second) //nolint:forbidigo // lets the other results be saved
			}
			did, err := e.do(ctx, "item "+name)
			return lines(did), err
		})
		treadle.AddNode(b, "ask", asking("ask?"))
		treadle.AddNode(b, "last", acting(e, "last"))
		treadle.AddBranch(b, treadle.Start, func(context.Context, saverState) (treadle.Goto, error) {
			return append(treadle.SendEach(item, []string{"a", "b", "c"}), treadle.To("ask")...), nil
		}, "item", "ask")
		b.Join([]any{"item", "ask"}, "last")
		return treadle.Must(b.Compile(o))
	}},
	{"nested", func(o *treadle.Options, e *effects) *treadle.Graph[saverState, saverState] {
		c := treadle.New[saverState]("child")
		treadle.AddNode(c, "inner", acting(e, "inner"))
		treadle.AddNode(c, "ask", asking("inside?"))
		treadle.AddNode(c, "after", acting(e, "after"))
		c.Sequence(treadle.Start, "inner", "ask", "after")
		child := treadle.Must(c.Compile(nil))
		b := treadle.New[saverState]("outer")
		treadle.AddGraph(b, "node", child)
		treadle.AddNode(b, "call", func(ctx context.Context, _ saverState) (saverLog, error) {
			out, err := child.Run(ctx, saverState{})
			return lines(out.Log...), err
		})
		treadle.AddGraph(b, "kept", child, treadle.PerThread())
		b.Sequence(treadle.Start, "node", "call", "kept")
		return treadle.Must(b.Compile(o))
	}},
	{"handlers", func(o *treadle.Options, e *effects) *treadle.Graph[saverState, saverState] {
		// A handler and a retry are for the node's own errors.
		b := treadle.New[saverState]("handlers")
		again := treadle.Retry(treadle.RetryPolicy{On: func(error) bool { return true }})
		treadle.AddNode(b, "handled", acting(e, "handled"), again, treadle.OnError(func(_ context.Context, _ saverState, err *treadle.NodeError) (saverLog, error) {
			return lines("handled " + err.Error()), nil
		}))
		treadle.AddNode(b, "careless", func(ctx context.Context, _ saverState) (saverLog, error) {
			did, err := e.do(ctx, "careless")
			if err != nil {
				return lines("never mind"), nil
			}
			return lines(did), nil
		})
		b.Sequence(treadle.Start, "handled", "careless")
		return treadle.Must(b.Compile(o))
	}},
	{"waits", func(o *treadle.Options, e *effects) *treadle.Graph[saverState, saverState] {
		b := treadle.New[saverState]("waits")
		treadle.AddNode(b, "sleep", func(ctx context.Context, _ saverState) (saverLog, error) {
			if err := treadle.Sleep(ctx, time.Second); err != nil {
				return saverLog{}, err
			}
			did, err := e.do(ctx, "woke")
			return lines(did), err
		})
		treadle.AddNode(b, "signal", func(ctx context.Context, _ saverState) (saverLog, error) {
			paid, err := treadle.WaitFor[string](ctx, "paid", nil)
			if err != nil {
				return saverLog{}, err
			}
			did, err := e.do(ctx, "sent")
			return lines(paid, did), err
		})
		treadle.AddNode(b, "late", func(ctx context.Context, _ saverState) (saverLog, error) {
			answer, err := treadle.Interrupt[string](ctx, treadle.Question{Value: "well?", Deadline: time.Now().Add(time.Second), OnTimeout: "nobody"})
			return lines(answer), err
		})
		b.Sequence(treadle.Start, "sleep", "signal", "late")
		return treadle.Must(b.Compile(o))
	}},
	{"agent", func(o *treadle.Options, e *effects) *treadle.Graph[saverState, saverState] {
		pay := llm.NewTool("pay", "pays", func(ctx context.Context, _ struct{}) (string, error) { return e.do(ctx, "pay") })
		ask := llm.NewTool("ask", "asks", func(ctx context.Context, _ struct{}) (string, error) {
			return treadle.Interrupt[string](ctx, "may I?")
		})
		a := treadle.Must(agent.New(planner, &agent.Options{Tools: []*llm.Tool{pay, ask}}))
		b := treadle.New[saverState]("agents")
		treadle.AddNode(b, "agent", func(ctx context.Context, _ saverState) (saverLog, error) {
			out, err := a.Run(ctx, agent.Ask("pay"))
			var said []string
			for _, m := range out.Messages {
				said = append(said, m.Text())
			}
			return lines(said...), err
		})
		b.Edge(treadle.Start, "agent")
		return treadle.Must(b.Compile(o))
	}},
}

// planner is a model that pays first, then asks and pays in one message, then finishes.
var planner = llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
	results := 0
	for _, m := range req.Messages {
		if m.Role == llm.RoleTool {
			results++
		}
	}
	pay, ask := llmtest.ToolCall("pay", `{}`), llmtest.ToolCall("ask", `{}`)
	switch results {
	case 0:
		return llm.Assistant("", pay), nil
	case 1:
		return llm.Assistant("", ask, pay), nil
	}
	return llm.Assistant("done"), nil
})

// advance does what is next on a thread: a run, an answer, a signal, or going on, at its
// time. It has five seconds. At the end of the thread it returns its state.
func advance(ctx context.Context, th *treadle.Thread[saverState, saverState]) (state string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errEscaped, p)
		}
	}()
	snap, err := th.State(ctx)
	switch {
	case err != nil:
		return "", err
	case snap.ID.IsZero():
		_, err = th.Run(ctx, saverState{Items: []string{"x"}})
	case len(snap.Pauses) > 0:
		err = endPause(ctx, th, snap.Pauses[0])
	case len(snap.Next) > 0:
		_, err = th.Continue(ctx)
	default:
		raw, err := json.Marshal(snap.State)
		return string(raw), err
	}
	if _, asked := errors.AsType[*treadle.InterruptError](err); asked {
		return "", nil
	}
	return "", err
}

// endPause does what a thread waits for, and goes on. A question with a deadline gets no answer.
func endPause(ctx context.Context, th *treadle.Thread[saverState, saverState], p treadle.Pause) error {
	switch {
	case p.Kind == treadle.SignalPause:
		if err := th.Signal(ctx, p.Key, "in full"); err != nil {
			return err
		}
	case p.Due.IsZero():
		_, err := th.Resume(ctx, "yes")
		return err
	default:
		if err := delay.For(ctx, time.Until(p.Due)); err != nil {
			return err
		}
	}
	_, err := th.Continue(ctx)
	return err
}

// errEscaped: a panic got out of the library.
var errEscaped = errors.New("panic escaped")

// drive advances to the end of the thread, whatever fails on the way.
func drive(ctx context.Context, th *treadle.Thread[saverState, saverState]) (state string, errs []error) {
	for range 30 {
		state, err := advance(ctx, th)
		if err != nil {
			errs = append(errs, err)
		} else if state != "" {
			return state, errs
		}
	}
	return "(the thread does not come to its end)", errs
}

// With one call of the saver gone wrong, whichever and however, a run reports it
// or is none the worse for it, and the thread can be brought to the end that it
// would have had. No recorded effect happens again, and one that does has its
// old idempotency key.
func TestTransientSaverFailureLosesNothing(t *testing.T) {
	for _, program := range saverPrograms {
		for _, d := range []treadle.Durability{treadle.Sync, treadle.Async, treadle.Exit} {
			t.Run(fmt.Sprint(program.name, " ", d), func(t *testing.T) {
				run := func(n int, fault saverFault) (state string, errs []error, e *effects, calls []string) {
					synctest.Test(t, func(t *testing.T) {
						saver := &faultySaver{Saver: checkpoint.NewMemory(), n: n, fault: fault}
						e = &effects{keys: map[string][]string{}}
						begun := time.Now()
						state, errs = drive(t.Context(), program.build(&treadle.Options{Saver: saver}, e).With(d).Thread("t"))
						if took := time.Since(begun); took > time.Minute {
							t.Errorf("call %d %s: took %v", n, fault.name, took)
						}
						calls = saver.calls
					})
					return state, errs, e, calls
				}
				want, errs, whole, calls := run(0, saverFault{})
				if len(errs) > 0 || !strings.HasPrefix(want, "{") {
					t.Fatal(want, errs)
				}
				for n := 1; n <= len(calls); n++ {
					for _, fault := range saverFaults {
						if call := calls[n-1]; !fault.reads && (call == "Get" || call == "List") {
							continue
						}
						got, errs, e, made := run(n, fault)
						where := fmt.Sprintf("%d. call of %d (%s) %s", n, len(calls), made[n-1], fault.name)
						if got != want {
							t.Errorf("%s: thread ends as\n%s, want\n%s\nerrors: %v", where, got, want, errs)
						}
						if strings.Contains(got, errSaver.Error()) {
							t.Errorf("%s: saver's text is in the state: %s", where, got)
						}
						for _, err := range errs {
							if errors.Is(err, errEscaped) || fault.err != nil && !errors.Is(err, fault.err) {
								t.Errorf("%s: reported as %v, want %v", where, err, fault.err)
							}
						}
						checkEffects(t, where, d, fault, whole, e)
					}
				}
			})
		}
	}
}

// checkEffects compares the effects of a run with a fault and a run without.
func checkEffects(t *testing.T, where string, d treadle.Durability, fault saverFault, whole, got *effects) {
	t.Helper()
	for name, keys := range whole.keys {
		again := got.keys[name]
		if len(again) < len(keys) {
			t.Errorf("%s: %s happened %d times, want %d", where, name, len(again), len(keys))
		}
		// Under Async and Exit a step that was not stored runs again as another one.
		if distinct := slices.Compact(slices.Sorted(slices.Values(again))); d == treadle.Sync && !fault.lies && len(distinct) > len(keys) {
			t.Errorf("%s: %s happened under %d keys, want %d: %q", where, name, len(distinct), len(keys), distinct)
		}
		if extra := len(again) - len(keys); d == treadle.Sync && !fault.lies && extra > 1 {
			t.Errorf("%s: %s happened %d times more than once", where, name, extra)
		}
	}
}

// What a saver could hand out instead of a checkpoint that was stored.
var saverLies = map[string]func(*checkpoint.Checkpoint) *checkpoint.Checkpoint{
	"nothing at all": func(*checkpoint.Checkpoint) *checkpoint.Checkpoint { return nil },
	"no control": func(cp *checkpoint.Checkpoint) *checkpoint.Checkpoint {
		cp.Control = nil
		return cp
	},
	"control that is cut": func(cp *checkpoint.Checkpoint) *checkpoint.Checkpoint {
		cp.Control = cp.Control[:len(cp.Control)/2]
		return cp
	},
	"values that are cut": func(cp *checkpoint.Checkpoint) *checkpoint.Checkpoint {
		for name, v := range cp.Values {
			v.Data = []byte(`{"`)
			if v.List {
				v.Items = [][]byte{v.Data}
			}
			cp.Values[name] = v
		}
		return cp
	},
	"a list that is none": func(cp *checkpoint.Checkpoint) *checkpoint.Checkpoint {
		cp.Values["Log"] = checkpoint.Value{Version: 1, Data: []byte("7")}
		return cp
	},
	"a value that is a list": func(cp *checkpoint.Checkpoint) *checkpoint.Checkpoint {
		cp.Values["Items"] = checkpoint.Value{Version: 1, List: true, Items: [][]byte{[]byte("7")}}
		return cp
	},
	"writes that are cut": func(cp *checkpoint.Checkpoint) *checkpoint.Checkpoint {
		for i := range cp.Pending {
			cp.Pending[i].Data = []byte(`{"`)
		}
		return cp
	},
	"metadata that is cut": func(cp *checkpoint.Checkpoint) *checkpoint.Checkpoint {
		cp.Metadata = []byte(`{"`)
		return cp
	},
}

// A lyingSaver hands out something else at its n-th read.
type lyingSaver struct {
	checkpoint.Saver
	lie   func(*checkpoint.Checkpoint) *checkpoint.Checkpoint
	n     int
	reads int
}

func (s *lyingSaver) Get(ctx context.Context, key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	cp, err := s.Saver.Get(ctx, key)
	if s.reads++; err == nil && s.reads == s.n {
		return s.lie(cp), nil
	}
	return cp, err
}

// A detectably corrupt checkpoint causes an error, not a panic, and does not damage
// stored data.
func TestCorruptSaverDataIsError(t *testing.T) {
	for _, program := range saverPrograms {
		t.Run(program.name, func(t *testing.T) {
			run := func(n int, lie func(*checkpoint.Checkpoint) *checkpoint.Checkpoint) (state string, errs []error, reads int) {
				synctest.Test(t, func(t *testing.T) {
					saver := &lyingSaver{Saver: checkpoint.NewMemory(), n: n, lie: lie}
					build := func() *treadle.Thread[saverState, saverState] { // each time as in a new process
						return program.build(&treadle.Options{Saver: saver}, &effects{keys: map[string][]string{}}).Thread("t")
					}
					for range 30 {
						got, err := advance(t.Context(), build())
						if err != nil {
							errs = append(errs, err)
						} else if got != "" {
							state = got
							break
						}
					}
					reads = saver.reads
				})
				return state, errs, reads
			}
			want, errs, reads := run(0, nil)
			if len(errs) > 0 || want == "" {
				t.Fatal(want, errs)
			}
			for n := 1; n <= reads; n++ {
				for name, lie := range saverLies {
					got, errs, _ := run(n, lie)
					if len(errs) > 1 || len(errs) == 1 && errors.Is(errs[0], errEscaped) {
						t.Errorf("read %d of %d, %s: %v", n, reads, name, errs)
					}
					if len(errs) == 1 && got != want {
						t.Errorf("read %d of %d, %s: after %v the thread ends as\n%s, want\n%s", n, reads, name, errs, got, want)
					}
				}
			}
		})
	}
}
