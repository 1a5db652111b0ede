package deep_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

func begin(what string) llm.ToolCall {
	return llmtest.ToolCall("start_async_task", args{"subagent_type": "worker", "description": what})
}

// scene is a parent with a background agent. A new scene on the same savers is a new process.
type scene struct {
	parent *treadle.Graph[deep.State, deep.State]
	local  *deep.Local
	thread thread
}

func newScene(t *testing.T, saver checkpoint.Saver, parent, worker llm.Model) scene {
	t.Helper()
	child, err := deep.New(worker, &deep.Options{Name: "child", Tools: []*llm.Tool{asking}})
	if err != nil {
		t.Fatal(err)
	}
	local, err := deep.NewLocal("tasks", child, &treadle.Options{Saver: saver, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	g, err := deep.New(parent, &deep.Options{Name: "parent", Graph: treadle.Options{Saver: saver, Logger: slog.New(slog.DiscardHandler)},
		Background: []deep.BackgroundAgent{{Name: "worker", Description: "works", Runner: local}}})
	if err != nil {
		t.Fatal(err)
	}
	return scene{g, local, g.Thread("p")}
}

var asking = llm.NewTool("ask", "Asks the user.", func(ctx context.Context, _ struct{}) (string, error) {
	return treadle.Interrupt[string](ctx, "which color?")
})

// serve serves the tasks until nothing more happens.
func (s scene) serve(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.local.Serve(ctx, s.parent) }()
	synctest.Wait()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// messages returns the texts of the thread's messages.
func (s scene) messages(t *testing.T) string {
	t.Helper()
	snap, err := s.thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var state deep.State
	if err := snap.Read(&state); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, m := range state.Messages {
		b.WriteString(m.Text() + "\n")
	}
	return b.String()
}

func (s scene) sleeps(t *testing.T, err error) {
	t.Helper()
	if p := asked(t, err, 1)[0]; p.Kind != treadle.SignalPause || p.Key != deep.BackgroundSignal {
		t.Errorf("parent waits for %+v", p)
	}
}

// reply returns a model that answers each task once.
func reply(calls *atomic.Int32) llm.Model {
	return llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		calls.Add(1)
		return llm.Assistant("report on " + r.Messages[len(r.Messages)-1].Text()), nil
	})
}

// The parent sleeps until its tasks end, and hears each result once. Between the calls
// there may be any number of processes.
func TestParentSleepsUntilTasksEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := checkpoint.NewMemory()
		var calls atomic.Int32
		model := llmtest.Scripted(t, llmtest.Ask(begin("owls"), begin("bees")), llmtest.Say("I wait."), llmtest.Say("one is done"), llmtest.Say("both are done"))
		s := newScene(t, saver, model, reply(&calls))
		_, err := s.thread.Run(t.Context(), deep.Ask("go"))
		s.sleeps(t, err)
		if calls.Load() != 0 {
			t.Error("a task ran without Serve")
		}
		s = newScene(t, saver, model, reply(&calls)) // a new process
		s.serve(t)
		text := s.messages(t)
		contains(t, text, "ended: success", "report on owls", "report on bees", "both are done")
		if n := strings.Count(text, "[notice, not from the user]"); n != 2 || calls.Load() != 2 {
			t.Errorf("%d notices, %d runs:\n%s", n, calls.Load(), text)
		}
		s.serve(t)
		if got := s.messages(t); got != text || calls.Load() != 2 {
			t.Error("something happened again")
		}
	})
}

// A process ends while a task runs; the next one continues the task.
func TestTaskSurvivesProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := checkpoint.NewMemory()
		model := llmtest.Scripted(t, llmtest.Ask(begin("owls")), llmtest.Say("I wait."), llmtest.Say("done"))
		hanging := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("ls", args{"path": "/"})), llmtest.Turn{Message: llm.Assistant("x"), Hang: true})
		s := newScene(t, saver, model, hanging)
		_, err := s.thread.Run(t.Context(), deep.Ask("go"))
		s.sleeps(t, err)
		s.serve(t)
		s = newScene(t, saver, model, llmtest.Scripted(t, llmtest.Say("finished later", func(r *llm.Request) error {
			if r.Messages[len(r.Messages)-1].Role != llm.RoleTool {
				return errors.New("the task started from scratch")
			}
			return nil
		})))
		s.serve(t)
		contains(t, s.messages(t), "finished later", "done")
	})
}

// call makes a parent call a tool of its only task, whose ID is id.
func TestTaskIsCheckedUpdatedAndCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := checkpoint.NewMemory()
		var id string
		plan := []string{"check_async_task", "list_async_tasks", "update_async_task", "check_async_task", "cancel_async_task", "check_async_task", "list_async_tasks"}
		model := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
			last := r.Messages[len(r.Messages)-1]
			if text, ok := strings.CutPrefix(last.Text(), "Started task "); ok {
				id = strings.TrimSuffix(text, ".")
			}
			name, found := strings.CutPrefix(last.Text(), "call ")
			switch {
			case last.Text() == "go":
				return llm.Assistant("", begin("owls")), nil
			case found && name == "update_async_task":
				return llm.Assistant("", llmtest.ToolCall(name, args{"task_id": id, "message": "and bees"})), nil
			case found && name == "list_async_tasks":
				return llm.Assistant("", llmtest.ToolCall(name, args{})), nil
			case found:
				return llm.Assistant("", llmtest.ToolCall(name, args{"task_id": id})), nil
			}
			return llm.Assistant("ok"), nil
		})
		worker := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
			last := r.Messages[len(r.Messages)-1]
			if last.Role == llm.RoleHuman {
				return llm.Assistant("", llmtest.ToolCall("ask", args{})), nil
			}
			return llm.Assistant("it is " + last.Text() + ", " + r.Messages[1].Text()), nil
		})
		s := newScene(t, saver, model, worker)
		_, err := s.thread.Run(t.Context(), deep.Ask("go"))
		s.sleeps(t, err)
		s.serve(t)
		var got []string
		for _, name := range plan {
			out, err := s.thread.Run(t.Context(), deep.Ask("call "+name))
			if _, waits := errors.AsType[*treadle.InterruptError](err); err != nil && !waits {
				t.Fatal(err)
			}
			all := toolResults(out)
			got = append(got, all[len(all)-1].Text())
			s.serve(t)
		}
		for i, want := range []string{`"status":"waiting","questions":["which color?"]`, "worker waiting: owls", "Its question was dropped", `"status":"waiting"`, "Canceled task", `"status":"cancelled"`, "worker cancelled: owls and bees"} {
			contains(t, got[i], want)
		}
		// A person answers the question of another task on its thread.
		_, err = s.thread.Run(t.Context(), deep.Ask("go"))
		s.sleeps(t, err)
		s.serve(t)
		if err := s.local.Resume(t.Context(), id, "red"); err != nil {
			t.Fatal(err)
		}
		s.serve(t)
		contains(t, s.messages(t), "it is red, owls")
	})
}

// flaky is a saver whose database may be away, or may lose the response to a put.
type flaky struct {
	*checkpoint.Memory
	away atomic.Bool
	lose func(*checkpoint.Put) bool
}

func (f *flaky) err() error {
	if f.away.Load() {
		return checkpoint.ErrUnavailable
	}
	return nil
}

func (f *flaky) Put(ctx context.Context, p *checkpoint.Put) error {
	if err := f.err(); err != nil {
		return err
	}
	err := f.Memory.Put(ctx, p)
	if err == nil && f.lose != nil && f.lose(p) {
		return checkpoint.ErrUnavailable
	}
	return err
}

func (f *flaky) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, writes []checkpoint.Write) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Memory.PutWrites(ctx, at, fence, writes)
}

func (f *flaky) Get(ctx context.Context, key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Memory.Get(ctx, key)
}

func (f *flaky) Threads(ctx context.Context) iter.Seq2[checkpoint.Thread, error] {
	if err := f.err(); err != nil {
		return func(yield func(checkpoint.Thread, error) bool) { yield(checkpoint.Thread{}, err) }
	}
	return f.Memory.Threads(ctx)
}

// While a task works, the database goes away for longer than anything waits for it. Meanwhile
// Serve also fails to look for tasks.
func TestTasksSurviveLongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := &flaky{Memory: checkpoint.NewMemory()}
		model := llmtest.Scripted(t, llmtest.Ask(begin("owls")), llmtest.Say("I wait."), llmtest.Say("done"))
		first := true
		worker := llmtest.Func(func(context.Context, *llm.Request) (llm.Message, error) {
			saver.away.Store(first)
			first = false
			return llm.Assistant("a report"), nil
		})
		s := newScene(t, saver, model, worker)
		_, err := s.thread.Run(t.Context(), deep.Ask("go"))
		s.sleeps(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.local.Serve(ctx, s.parent) }()
		synctest.Wait()
		_ = s.local.Cancel(t.Context(), "unknown") // fails, and makes Serve look
		time.Sleep(10 * time.Minute)               //nolint:forbidigo // virtual time
		saver.away.Store(false)
		time.Sleep(10 * time.Minute) //nolint:forbidigo // virtual time
		text := s.messages(t)
		contains(t, text, "a report", "done")
		if n := strings.Count(text, "[notice, not from the user]"); n != 1 {
			t.Errorf("%d notices:\n%s", n, text)
		}
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// The input of a task is saved, but the parent does not learn it and starts the task again.
func TestTaskWithLostStartRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := &flaky{Memory: checkpoint.NewMemory()}
		var lost atomic.Bool
		saver.lose = func(p *checkpoint.Put) bool {
			return strings.Contains(p.Key.Thread, "-task-") && lost.CompareAndSwap(false, true)
		}
		var calls atomic.Int32
		model := llmtest.Scripted(t, llmtest.Ask(begin("owls")), llmtest.Say("I wait."), llmtest.Say("done"))
		s := newScene(t, saver, model, reply(&calls))
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.local.Serve(ctx, s.parent) }()
		synctest.Wait()
		if _, err := s.thread.Run(t.Context(), deep.Ask("go")); !errors.Is(err, checkpoint.ErrUnavailable) {
			t.Errorf("got error %v", err)
		}
		if _, err := s.thread.Continue(t.Context()); err != nil && !treadle.IsPause(err) { // the task may end at once
			t.Error(err)
		}
		synctest.Wait()
		contains(t, s.messages(t), "report on owls", "done")
		cancel()
		if err := <-served; err != nil || calls.Load() != 1 {
			t.Errorf("%d runs, error %v", calls.Load(), err)
		}
	})
}

// A task ends, and before its parent hears of it, the parent gives it a further instruction.
func TestUpdatedTaskReportsLastResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var id string
		model := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
			last := r.Messages[len(r.Messages)-1].Text()
			if text, ok := strings.CutPrefix(last, "Started task "); ok {
				id = strings.TrimSuffix(text, ".")
			}
			switch last {
			case "go":
				return llm.Assistant("", begin("owls")), nil
			case "more":
				return llm.Assistant("", llmtest.ToolCall("update_async_task", args{"task_id": id, "message": "and bees"})), nil
			}
			return llm.Assistant("ok"), nil
		})
		var calls atomic.Int32
		s := newScene(t, checkpoint.NewMemory(), model, reply(&calls))
		s.serve(t) // there is nothing to do yet
		_, err := s.thread.Run(t.Context(), deep.Ask("go"))
		s.sleeps(t, err)
		if _, err := s.local.Thread(id).Continue(t.Context()); err != nil { // sends the signal
			t.Fatal(err)
		}
		_, err = s.thread.Run(t.Context(), deep.Ask("more"))
		s.sleeps(t, err)
		s.serve(t)
		text := s.messages(t)
		contains(t, text, "and bees\n</report>")
		if n := strings.Count(text, "[notice, not from the user]"); n != 1 || calls.Load() != 2 {
			t.Errorf("%d notices, %d runs:\n%s", n, calls.Load(), text)
		}
	})
}

// A failing task is a result too, and a new input ends the wait for it.
func TestFailedTaskIsReportedAfterInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Scripted(t, llmtest.Ask(begin("owls")), llmtest.Say("I wait."), llmtest.Say("an answer in between"), llmtest.Say("sorry"))
		s := newScene(t, checkpoint.NewMemory(), model, llmtest.Scripted(t, llmtest.Fail(errors.New("quota exceeded"))))
		_, err := s.thread.Run(t.Context(), deep.Ask("go"))
		s.sleeps(t, err)
		_, err = s.thread.Run(t.Context(), deep.Ask("how are you?"))
		s.sleeps(t, err)
		s.serve(t)
		contains(t, s.messages(t), "an answer in between", "ended: error", "quota exceeded", "sorry")
	})
}

func TestBackgroundMistakes(t *testing.T) {
	for want, list := range map[string][]deep.BackgroundAgent{
		"no agents":                     {},
		`invalid name ""`:               {{}},
		"missing description or runner": {{Name: "a"}},
	} {
		_, err := agent.New(llmtest.Scripted(t), &agent.Options{Middleware: []*agent.Middleware{deep.InBackground(list...)}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	if _, err := deep.NewLocal("x", nil, nil); err == nil {
		t.Error("nil worker accepted")
	}
	g, err := deep.New(llmtest.Scripted(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := deep.NewLocal("x", g, nil); !errors.Is(err, treadle.ErrNoSaver) {
		t.Errorf("got error %v", err)
	}
}
