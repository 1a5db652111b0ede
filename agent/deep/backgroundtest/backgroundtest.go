// Package backgroundtest contains the suite that a deep.Background must pass.
package backgroundtest

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// Process is what a process uses to run tasks.
type Process struct {
	Background deep.Background
	// Serve runs the tasks and continues the threads of parent until ctx ends, as [deep.Local.Serve].
	Serve func(ctx context.Context, parent treadle.AnyGraph) error
	// Answer answers the question of a task.
	Answer func(ctx context.Context, task string, answer any) error
}

// Setup prepares to run tasks with the agent worker, which has no saver. Each call of the
// result stands for a new process on the same storage.
type Setup func(t *testing.T, worker *treadle.Graph[deep.State, deep.State]) (open func() Process)

// scene is a parent whose background agent is under test.
type scene struct {
	t     *testing.T
	open  func() Process
	saver checkpoint.Saver
	hears func(ctx context.Context) error // what the parent does with a notice

	process Process
	parent  *treadle.Graph[deep.State, deep.State]
	stop    func() // ends the process
}

const notice = "[notice, not from the user]"

func newScene(t *testing.T, setup Setup, model llm.Model, tools ...*llm.Tool) *scene {
	t.Helper()
	worker, err := deep.New(model, &deep.Options{Name: "worker", Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, open: setup(t, worker), saver: checkpoint.NewMemory(), hears: func(context.Context) error { return nil }}
	s.start()
	return s
}

// start starts a process. It continues the parent if the previous process ended while it
// worked, and serves the tasks until stop.
func (s *scene) start() {
	s.t.Helper()
	s.process = s.open()
	var err error
	s.parent, err = deep.New(llmtest.Func(s.reply), &deep.Options{Name: "parent", Graph: treadle.Options{Saver: s.saver, Logger: slog.New(slog.DiscardHandler)},
		Background: []deep.BackgroundAgent{{Name: "worker", Description: "works", Runner: s.process.Background}}})
	if err != nil {
		s.t.Fatal(err)
	}
	for thread, err := range s.parent.Unfinished(s.t.Context()) {
		if err == nil {
			_, err = thread.Continue(s.t.Context())
		}
		if err != nil && !treadle.IsPause(err) {
			s.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	served := make(chan error, 1)
	go func() { served <- s.process.Serve(ctx, s.parent) }()
	stopped := false
	s.stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-served; err != nil {
			s.t.Error(err)
		}
	}
	s.t.Cleanup(s.stop)
}

// reply is the parent's model. It starts a task for each line that begins with "start ",
// calls a tool of its last task if asked to, and otherwise waits.
func (s *scene) reply(ctx context.Context, r *llm.Request) (llm.Message, error) {
	last := r.Messages[len(r.Messages)-1]
	if strings.HasPrefix(last.Text(), notice) {
		return llm.Assistant("Noted."), s.hears(ctx)
	}
	var calls []llm.ToolCall
	for line := range strings.Lines(last.Text()) {
		line = strings.TrimSpace(line)
		if what, ok := strings.CutPrefix(line, "start "); ok && last.Role == llm.RoleHuman {
			calls = append(calls, llmtest.ToolCall("start_async_task", map[string]any{"subagent_type": "worker", "description": what}))
		}
		if name, ok := strings.CutPrefix(line, "call "); ok && last.Role == llm.RoleHuman {
			args := map[string]any{}
			if name != "list_async_tasks" {
				args["task_id"] = taskIn(r.Messages)
			}
			if name == "update_async_task" {
				args["message"] = "and bees"
			}
			calls = append(calls, llmtest.ToolCall(name, args))
		}
	}
	return llm.Assistant("I wait.", calls...), nil
}

// taskIn returns the ID of the task that was started last.
func taskIn(ms llm.Messages) (id string) {
	for _, m := range ms {
		if rest, ok := strings.CutPrefix(m.Text(), "Started task "); ok {
			id = strings.TrimSuffix(rest, ".")
		}
	}
	return id
}

// tell gives the parent an input. It returns the result of the last call, and whether the parent then sleeps.
func (s *scene) tell(text string) (result string, sleeps bool) {
	s.t.Helper()
	_, err := s.parent.Thread("p").Run(s.t.Context(), deep.Ask(text))
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		if p := stop.Pauses[0]; len(stop.Pauses) != 1 || p.Kind != treadle.SignalPause || p.Key != deep.BackgroundSignal {
			s.t.Fatalf("parent waits for %+v", stop.Pauses)
		}
		err, sleeps = nil, true
	}
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range s.messages() {
		if m.Role == llm.RoleTool {
			result = m.Text()
		}
	}
	return result, sleeps
}

func (s *scene) messages() llm.Messages {
	s.t.Helper()
	messages, _ := s.state()
	return messages
}

// state returns the parent's messages, and whether it works.
func (s *scene) state() (messages llm.Messages, works bool) {
	s.t.Helper()
	snap, err := s.parent.Thread("p").State(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var state deep.State
	if err := snap.Read(&state); err != nil {
		s.t.Fatal(err)
	}
	return state.Messages, len(snap.Next) > 0 && len(snap.Pauses) == 0
}

// heard waits until the parent has reacted to n notices and does not work, and returns them.
func (s *scene) heard(n int) (notices []string) {
	s.t.Helper()
	s.until(func() bool {
		notices = nil
		noted := 0
		messages, works := s.state()
		for _, m := range messages {
			if strings.HasPrefix(m.Text(), notice) {
				notices = append(notices, m.Text())
			}
			if m.Text() == "Noted." {
				noted++
			}
		}
		return noted >= n && !works
	})
	if len(notices) != n {
		s.t.Fatalf("%d notices: %q", len(notices), notices)
	}
	return notices
}

// until waits for a condition.
func (s *scene) until(ok func() bool) {
	s.t.Helper()
	every := time.NewTicker(time.Millisecond)
	defer every.Stop()
	for !ok() {
		select {
		case <-every.C:
		case <-s.t.Context().Done():
			s.t.Fatal(context.Cause(s.t.Context()))
		}
	}
}

// status waits until the last task has a status.
func (s *scene) status(want string) deep.Outcome {
	s.t.Helper()
	var o deep.Outcome
	s.until(func() bool {
		var err error
		if o, err = s.process.Background.Check(s.t.Context(), taskIn(s.messages())); err != nil {
			s.t.Fatal(err)
		}
		return o.Status == want
	})
	return o
}

func (s *scene) contains(text string, parts ...string) {
	s.t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			s.t.Errorf("%q lacks %q", text, part)
		}
	}
}

// report returns a model that reports on its task at once, and counts.
func report(calls *atomic.Int32) llm.Model {
	return llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		calls.Add(1)
		return llm.Assistant("report on " + strings.ReplaceAll(r.Messages[len(r.Messages)-1].Text(), "\n", " ")), nil
	})
}

// hanging is a model that calls the tool step, and then waits for release, or for the end of its context.
type hanging struct {
	began, ended chan struct{} // receive a value for each wait, and for each end of a context
	release      chan struct{}
	steps        atomic.Int32
}

func newHanging() *hanging {
	return &hanging{began: make(chan struct{}, 10), ended: make(chan struct{}, 10), release: make(chan struct{})}
}

func (h *hanging) tool() *llm.Tool {
	return llm.NewTool("step", "Does something.", func(context.Context, struct{}) (string, error) {
		h.steps.Add(1)
		return "done", nil
	})
}

func (h *hanging) model() llm.Model { return llmtest.Func(h.reply) }

func (h *hanging) reply(ctx context.Context, r *llm.Request) (llm.Message, error) {
	if r.Messages[len(r.Messages)-1].Role == llm.RoleHuman {
		return llm.Assistant("", llmtest.ToolCall("step", map[string]any{})), nil
	}
	h.began <- struct{}{}
	select {
	case <-h.release:
		return llm.Assistant("report on " + human(r.Messages)), nil
	case <-ctx.Done():
		h.ended <- struct{}{}
		return llm.Message{}, context.Cause(ctx)
	}
}

// human returns the text of a task.
func human(ms llm.Messages) (text string) {
	for _, m := range ms {
		if m.Role == llm.RoleHuman {
			text = strings.ReplaceAll(m.Text(), "\n", " ")
		}
	}
	return text
}

// Run checks what every [deep.Background] promises.
func Run(t *testing.T, setup Setup) {
	t.Run("Report", func(t *testing.T) {
		var calls atomic.Int32
		s := newScene(t, setup, report(&calls))
		s.tell("start owls\nstart bees")
		s.contains(strings.Join(s.heard(2), "\n"), "ended: success", "report on owls", "report on bees")
		s.stop()
		s.start()
		s.tell("start ants")
		s.contains(s.heard(3)[2], "report on ants") // nothing of the others came again
		if n := calls.Load(); n != 3 {
			t.Errorf("%d tasks ran", n)
		}
		if s.status(deep.TaskSuccess).Result != "report on ants" {
			t.Errorf("got %+v", s.status(deep.TaskSuccess))
		}
		if _, sleeps := s.tell("hello"); sleeps {
			t.Error("parent sleeps without a task")
		}
	})
	t.Run("Sleep", func(t *testing.T) {
		h := newHanging()
		s := newScene(t, setup, h.model(), h.tool())
		if _, sleeps := s.tell("start owls"); !sleeps {
			t.Error("parent does not sleep")
		}
		<-h.began
		if _, sleeps := s.tell("hello"); !sleeps {
			t.Error("parent does not sleep again after an input")
		}
		if result, _ := s.tell("call check_async_task"); !strings.Contains(result, `"status":"running"`) {
			t.Errorf("got %s", result)
		}
		if result, _ := s.tell("call list_async_tasks"); !strings.Contains(result, "worker running: owls") {
			t.Errorf("got %s", result)
		}
		close(h.release)
		s.contains(s.heard(1)[0], "report on owls")
	})
	t.Run("Failure", func(t *testing.T) {
		s := newScene(t, setup, llmtest.Func(func(context.Context, *llm.Request) (llm.Message, error) {
			return llm.Message{}, errors.New("quota exceeded")
		}))
		s.tell("start owls")
		s.contains(s.heard(1)[0], "ended: error", "quota exceeded")
	})
	t.Run("ProcessEnds", func(t *testing.T) { // while the task works
		h := newHanging()
		s := newScene(t, setup, h.model(), h.tool())
		s.tell("start owls")
		<-h.began
		s.stop()
		s.start()
		close(h.release)
		s.contains(s.heard(1)[0], "report on owls")
		if n := h.steps.Load(); n != 1 {
			t.Errorf("%d calls of the tool", n)
		}
	})
	t.Run("ProcessEndsAfterReport", func(t *testing.T) { // before the parent has reacted
		h := newHanging()
		s := newScene(t, setup, h.model(), h.tool())
		hears := make(chan struct{}, 10)
		s.hears = func(ctx context.Context) error {
			hears <- struct{}{}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		s.tell("start owls")
		close(h.release)
		<-hears
		s.stop()
		s.hears = func(context.Context) error { return nil }
		s.start()
		s.contains(s.heard(1)[0], "report on owls")
		if n := h.steps.Load(); n != 1 {
			t.Errorf("%d tasks ran", n)
		}
	})
	t.Run("Question", func(t *testing.T) {
		ask := llm.NewTool("ask", "Asks the user.", func(ctx context.Context, _ struct{}) (string, error) {
			return treadle.Interrupt[string](ctx, "which color?")
		})
		s := newScene(t, setup, llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
			if last := r.Messages[len(r.Messages)-1]; last.Role == llm.RoleTool {
				return llm.Assistant("it is " + last.Text() + ": " + human(r.Messages)), nil
			}
			return llm.Assistant("", llmtest.ToolCall("ask", map[string]any{})), nil
		}), ask)
		waits := func() {
			t.Helper()
			if o := s.status(deep.TaskWaiting); len(o.Questions) != 1 || string(o.Questions[0]) != `"which color?"` {
				t.Errorf("got %+v", o)
			}
		}
		s.tell("start owls")
		waits()
		s.stop()
		s.start() // the question is still there
		for _, step := range []struct{ call, want string }{
			{"check_async_task", `"status":"waiting","questions":["which color?"]`},
			{"list_async_tasks", "worker waiting: owls"},
			{"update_async_task", "Its question was dropped"},
		} {
			result, sleeps := s.tell("call " + step.call)
			if s.contains(result, step.want); !sleeps {
				t.Errorf("parent does not sleep after %s", step.call)
			}
		}
		s.until(func() bool {
			o := s.status(deep.TaskWaiting)
			return o.Round == 1 && len(o.Questions) == 1
		})
		if err := s.process.Answer(t.Context(), taskIn(s.messages()), "red"); err != nil {
			t.Fatal(err)
		}
		s.contains(s.heard(1)[0], "it is red: owls  and bees")
		s.tell("start ants")
		waits()
		result, sleeps := s.tell("call cancel_async_task")
		if s.contains(result, "Canceled task"); sleeps {
			t.Error("parent waits for a canceled task")
		}
		s.status(deep.TaskCanceled)
		result, _ = s.tell("call list_async_tasks")
		s.contains(result, "worker success: owls", "worker cancelled: ants")
	})
	t.Run("Update", func(t *testing.T) { // while the task works
		h := newHanging()
		s := newScene(t, setup, h.model(), h.tool())
		s.tell("start owls")
		<-h.began
		result, _ := s.tell("call update_async_task")
		s.contains(result, "Updated task")
		<-h.ended // the earlier work
		<-h.began
		close(h.release)
		s.contains(s.heard(1)[0], "report on owls  and bees")
	})
	t.Run("Cancel", func(t *testing.T) { // while the task works
		h := newHanging()
		s := newScene(t, setup, h.model(), h.tool())
		s.tell("start owls")
		<-h.began
		if result, sleeps := s.tell("call cancel_async_task"); sleeps || !strings.Contains(result, "Canceled task") {
			t.Errorf("got %q; parent sleeps: %t", result, sleeps)
		}
		<-h.ended
		s.status(deep.TaskCanceled)
		close(h.release)
		s.stop()
		s.start()
		s.tell("start bees")
		s.contains(s.heard(1)[0], "report on bees") // and nothing about owls
	})
	t.Run("SameStart", func(t *testing.T) { // a caller that did not learn of its success
		h := newHanging()
		s := newScene(t, setup, h.model(), h.tool())
		s.tell("start owls")
		<-h.began
		again := func() {
			t.Helper()
			if err := s.process.Background.Start(t.Context(), deep.Job{ID: taskIn(s.messages()), Parent: "p", Text: "owls"}); err != nil {
				t.Error(err)
			}
		}
		again() // while it works
		close(h.release)
		s.contains(s.heard(1)[0], "report on owls")
		again() // after it has ended
		s.tell("start bees")
		s.heard(2)
		if n := h.steps.Load(); n != 2 || len(h.ended) > 0 {
			t.Errorf("%d tasks ran, %d were stopped", n, len(h.ended))
		}
	})
	t.Run("SameRestart", func(t *testing.T) { // a caller that did not learn of its success
		h := newHanging()
		s := newScene(t, setup, h.model(), h.tool())
		s.tell("start owls")
		<-h.began
		job := deep.Job{ID: taskIn(s.messages()), Parent: "p", Text: "owls and bees", Round: 1}
		restart := func(want error) {
			t.Helper()
			if err := s.process.Background.Restart(t.Context(), job); !errors.Is(err, want) {
				t.Errorf("got error %v, want %v", err, want)
			}
		}
		restart(nil)
		<-h.ended // the earlier work
		<-h.began
		restart(nil) // while it works
		if len(h.ended) > 0 {
			t.Error("the same restart stopped the work")
		}
		if o := s.status(deep.TaskRunning); o.Round != 1 || o.Text != job.Text {
			t.Errorf("got %+v", o)
		}
		close(h.release)
		if n := s.heard(1); !strings.Contains(n[0], "report on owls and bees") {
			t.Errorf("got %q", n)
		}
		restart(nil) // after it has ended
		if o := s.status(deep.TaskSuccess); o.Round != 1 || o.Text != job.Text {
			t.Errorf("got %+v", o)
		}
		other := job
		job.Text = "ants"
		restart(deep.ErrRestarted)
		job.Round = 0
		restart(deep.ErrRestarted)
		job.ID = "unknown"
		restart(checkpoint.ErrNotFound)
		s.stop()
		s.start()
		job = other
		restart(nil)
		s.tell("start bees")
		s.heard(2)
		if n := h.steps.Load(); n != 3 {
			t.Errorf("%d tasks ran", n)
		}
	})
	t.Run("ChangesBeforeServe", func(t *testing.T) { // before any process runs the task
		var calls atomic.Int32
		s := newScene(t, setup, report(&calls))
		s.stop()
		s.tell("start owls")
		if result, sleeps := s.tell("call update_async_task"); !sleeps || !strings.Contains(result, "Updated task") {
			t.Errorf("got %q; parent sleeps: %t", result, sleeps)
		}
		s.start()
		s.contains(s.heard(1)[0], "report on owls  and bees")
		s.stop()
		s.tell("start ants")
		if result, sleeps := s.tell("call cancel_async_task"); sleeps || !strings.Contains(result, "Canceled task") {
			t.Errorf("got %q; parent sleeps: %t", result, sleeps)
		}
		s.status(deep.TaskCanceled)
		s.start()
		s.tell("start wasps")
		s.heard(2)
		if n := calls.Load(); n != 2 {
			t.Errorf("%d tasks ran", n)
		}
	})
	t.Run("AnswerWhileServed", func(t *testing.T) { // and while other tasks start and end
		h := newHanging()
		ask := llm.NewTool("ask", "Asks the user.", func(ctx context.Context, _ struct{}) (string, error) {
			return treadle.Interrupt[string](ctx, "which color?")
		})
		s := newScene(t, setup, llmtest.Func(func(ctx context.Context, r *llm.Request) (llm.Message, error) {
			switch last := r.Messages[len(r.Messages)-1]; {
			case human(r.Messages) != "owls":
				return llm.Assistant("report on " + human(r.Messages)), nil
			case last.Role == llm.RoleHuman:
				return llm.Assistant("", llmtest.ToolCall("ask", map[string]any{})), nil
			case last.Name == "ask":
				return llm.Assistant("", llmtest.ToolCall("step", map[string]any{})), nil
			}
			return h.reply(ctx, r)
		}), h.tool(), ask)
		s.tell("start owls")
		s.status(deep.TaskWaiting)
		id, answered := taskIn(s.messages()), make(chan error, 1)
		go func() { answered <- s.process.Answer(t.Context(), id, "red") }()
		<-h.began
		s.tell("start bees")
		s.contains(s.heard(1)[0], "report on bees") // so the process has looked for tasks
		close(h.release)
		if err := <-answered; err != nil {
			t.Error(err)
		}
		s.contains(s.heard(2)[1], "report on owls")
		if n := h.steps.Load(); n != 1 {
			t.Errorf("%d calls of the tool", n)
		}
	})
	t.Run("UnknownTask", func(t *testing.T) {
		var calls atomic.Int32
		s := newScene(t, setup, report(&calls))
		if o, err := s.process.Background.Check(t.Context(), "unknown"); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("got %+v, %v", o, err)
		}
		if err := s.process.Background.Cancel(t.Context(), "unknown"); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("got error %v", err)
		}
	})
}
