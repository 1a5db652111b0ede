package deep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// obeying makes the calls that a user's message lists as JSON. In their arguments, $id is the
// task that was started last.
var obeying = llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
	last := r.Messages[len(r.Messages)-1]
	if last.Role != llm.RoleHuman || !strings.HasPrefix(last.Text(), "[{") {
		return llm.Assistant("ok"), nil
	}
	var id string
	for _, m := range r.Messages {
		if rest, ok := strings.CutPrefix(m.Text(), "Started task "); ok {
			id = strings.TrimSuffix(rest, ".")
		}
	}
	var calls []llm.ToolCall
	err := json.Unmarshal([]byte(strings.ReplaceAll(last.Text(), "$id", id)), &calls)
	for i := range calls {
		calls[i].ID = fmt.Sprintf("%d-%d", len(r.Messages), i)
	}
	return llm.Assistant("", calls...), err
})

// tell makes the parent call tools in one message, and returns the results and whether it
// then sleeps.
func (s scene) tell(t *testing.T, calls ...llm.ToolCall) (results []string, sleeps bool) {
	t.Helper()
	results, sleeps, err := s.try(t, calls...)
	if err != nil {
		t.Fatal(err)
	}
	return results, sleeps
}

func (s scene) try(t *testing.T, calls ...llm.ToolCall) (results []string, sleeps bool, err error) {
	t.Helper()
	raw, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.thread.Run(t.Context(), deep.Ask(string(raw)))
	if treadle.IsPause(err) {
		err, sleeps = nil, true
	}
	for _, m := range out.Messages {
		if m.Text() == string(raw) {
			results = nil
		}
		if m.Role == llm.RoleTool {
			results = append(results, m.Text())
		}
	}
	return results, sleeps, err
}

// ofTask returns a call about the task that was started last.
func ofTask(name string, more ...string) llm.ToolCall {
	a := args{"task_id": "$id"}
	if len(more) > 0 {
		a["message"] = more[0]
	}
	return llmtest.ToolCall(name, a)
}

const (
	check  = "check_async_task"
	update = "update_async_task"
	cancel = "cancel_async_task"
	list   = "list_async_tasks"
)

// Calls about a task in one message run at the same time. None undoes what another has
// recorded.
func TestCallsAboutTaskInOneMessage(t *testing.T) {
	for name, test := range map[string]struct {
		calls   []llm.ToolCall
		refused int // index of the call that is not made, or -1
		report  string
	}{
		"update and check":  {[]llm.ToolCall{ofTask(update, "and bees"), ofTask(check)}, -1, "report on owls\n\nand bees\n"},
		"check and update":  {[]llm.ToolCall{ofTask(check), ofTask(update, "and bees")}, -1, "report on owls\n\nand bees\n"},
		"two updates":       {[]llm.ToolCall{ofTask(update, "and bees"), ofTask(update, "and ants")}, 1, "report on owls\n\nand bees\n"},
		"update and cancel": {[]llm.ToolCall{ofTask(update, "and bees"), ofTask(cancel)}, 1, "report on owls\n\nand bees\n"},
		"cancel and check":  {[]llm.ToolCall{ofTask(cancel), ofTask(check)}, -1, ""},
		"check and cancel":  {[]llm.ToolCall{ofTask(check), ofTask(cancel)}, -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				s := newScene(t, checkpoint.NewMemory(), obeying, reply(&calls))
				s.tell(t, begin("owls"))
				results, sleeps := s.tell(t, test.calls...)
				for i, r := range results {
					if refused := strings.Contains(r, "was not made"); refused != (i == test.refused) {
						t.Errorf("call %d: %s", i, r)
					}
				}
				s.serve(t)
				switch text := s.messages(t); {
				case sleeps != (test.report != ""):
					t.Errorf("parent sleeps: %t", sleeps)
				case test.report == "":
					lacks(t, text, "[notice")
				case strings.Count(text, "[notice") != 1:
					t.Errorf("want one notice:\n%s", text)
				default:
					contains(t, text, test.report)
				}
			})
		})
	}
}

// A process is killed after it has restarted a task and before it has recorded that.
func TestLostUpdateIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := &flaky{Memory: checkpoint.NewMemory()}
		var calls atomic.Int32
		s := newScene(t, saver, obeying, reply(&calls))
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.local.Serve(ctx, s.parent) }()
		s.tell(t, begin("owls"))
		synctest.Wait()
		var lost atomic.Bool
		saver.lose = func(p *checkpoint.Put) bool {
			return strings.Contains(p.Key.Thread, "-task-") && lost.CompareAndSwap(false, true)
		}
		if _, _, err := s.try(t, ofTask(update, "and bees")); !errors.Is(err, checkpoint.ErrUnavailable) {
			t.Errorf("got error %v", err)
		}
		synctest.Wait() // the restarted task ends
		if _, err := s.thread.Continue(t.Context()); err != nil && !treadle.IsPause(err) {
			t.Error(err)
		}
		synctest.Wait()
		text := s.messages(t)
		contains(t, text, "report on owls\n\nYour answer to this was:\nreport on owls\n\nand bees\n")
		if n := strings.Count(text, "[notice"); n != 2 || calls.Load() != 2 {
			t.Errorf("%d notices, %d runs:\n%s", n, calls.Load(), text)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// A new input abandons a call that has restarted a task. The parent hears the result
// nevertheless, and can update the task again.
func TestAbandonedUpdateIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := &flaky{Memory: checkpoint.NewMemory()}
		var calls atomic.Int32
		s := newScene(t, saver, obeying, reply(&calls))
		s.tell(t, begin("owls"))
		saver.lose = func(p *checkpoint.Put) bool { return strings.Contains(p.Key.Thread, "-task-") }
		if _, _, err := s.try(t, ofTask(update, "and bees")); !errors.Is(err, checkpoint.ErrUnavailable) {
			t.Errorf("got error %v", err)
		}
		saver.lose = nil
		if results, sleeps := s.tell(t, ofTask(update, "and ants")); !sleeps || !strings.HasPrefix(results[0], "Updated") {
			t.Errorf("got %q, parent sleeps: %t", results, sleeps)
		}
		s.serve(t)
		contains(t, s.messages(t), "report on owls\n\nand bees\n\nand ants\n")
		saver.lose = func(p *checkpoint.Put) bool { return strings.Contains(p.Key.Thread, "-task-") }
		if _, _, err := s.try(t, ofTask(update, "and flies")); !errors.Is(err, checkpoint.ErrUnavailable) {
			t.Errorf("got error %v", err)
		}
		saver.lose = nil
		s.tell(t, llmtest.ToolCall(list, args{}))
		s.serve(t)
		if text := s.messages(t); strings.Count(text, "[notice") > 2 {
			t.Errorf("too many notices:\n%s", text)
		}
	})
}

// A process takes the signal of a task, and is killed before it saves what it made of it. Then
// a new input abandons the wait.
func TestAbandonedWaitLosesNoResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := &flaky{Memory: checkpoint.NewMemory()}
		var calls atomic.Int32
		s := newScene(t, saver, obeying, reply(&calls))
		_, sleeps := s.tell(t, begin("owls"))
		if !sleeps {
			t.Fatal("parent does not sleep")
		}
		saver.lose = func(p *checkpoint.Put) bool {
			if strings.HasSuffix(p.Key.Namespace, "claims") {
				saver.away.Store(true)
			}
			return false
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.local.Serve(ctx, s.parent) }()
		synctest.Wait()
		stop()
		if err := <-served; err != nil || !saver.away.Load() {
			t.Fatalf("%v; signal taken: %t", err, saver.away.Load())
		}
		saver.lose = nil
		saver.away.Store(false)
		_, err := s.thread.Run(t.Context(), deep.Ask("hello"))
		if err != nil && !treadle.IsPause(err) {
			t.Fatal(err)
		}
		s.serve(t)
		text := s.messages(t)
		contains(t, text, "report on owls")
		if n := strings.Count(text, "[notice"); n != 1 || calls.Load() != 1 {
			t.Errorf("%d notices, %d runs:\n%s", n, calls.Load(), text)
		}
	})
}

// A process serves the tasks, and another one starts them.
func TestServeFindsTasksOfOtherProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := &flaky{Memory: checkpoint.NewMemory()} // unlike a Memory, it may be shared
		var calls atomic.Int32
		here, elsewhere := newScene(t, saver, obeying, reply(&calls)), newScene(t, saver, obeying, reply(&calls))
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- here.local.Serve(ctx, here.parent) }()
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		elsewhere.tell(t, begin("owls"))
		time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual time
		contains(t, here.messages(t), "report on owls")
		elsewhere.tell(t, ofTask(update, "and bees"))
		time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual time
		contains(t, here.messages(t), "and bees\n</report>")
		stop()
		if err := <-served; err != nil || calls.Load() != 2 {
			t.Errorf("%d runs, error %v", calls.Load(), err)
		}
	})
}

// Another process replaces the job of a task that works, and then cancels the task.
func TestServeStopsReplacedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := &flaky{Memory: checkpoint.NewMemory()}
		var began, ended []string
		worker := llmtest.Func(func(ctx context.Context, r *llm.Request) (llm.Message, error) {
			text := r.Messages[len(r.Messages)-1].Text()
			began = append(began, text)
			<-ctx.Done()
			ended = append(ended, text)
			return llm.Message{}, context.Cause(ctx)
		})
		here, elsewhere := newScene(t, saver, obeying, worker), newScene(t, saver, obeying, worker)
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- here.local.Serve(ctx, here.parent) }()
		later := func() {
			time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual time
			synctest.Wait()
		}
		elsewhere.tell(t, begin("owls"))
		later()
		elsewhere.tell(t, ofTask(update, "and bees"))
		later()
		if len(began) != 2 || len(ended) != 1 || began[1] != "owls\n\nand bees" {
			t.Errorf("began %q, ended %q", began, ended)
		}
		if _, sleeps := elsewhere.tell(t, ofTask(cancel)); sleeps {
			t.Error("parent waits for a canceled task")
		}
		later()
		if len(began) != 2 || len(ended) != 2 {
			t.Errorf("began %q, ended %q", began, ended)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// A caller answers a question on the thread of a task. Serve does not run the task beside it,
// and continues it if the caller fails.
func TestServeLeavesTaskToOtherRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, calls := make(chan struct{}), 0
		worker := llmtest.Func(func(ctx context.Context, r *llm.Request) (llm.Message, error) {
			last := r.Messages[len(r.Messages)-1]
			switch {
			case last.Text() == "bees":
				return llm.Assistant("about bees"), nil
			case last.Role == llm.RoleHuman:
				return llm.Assistant("", llmtest.ToolCall("ask", args{})), nil
			}
			calls++
			select {
			case <-release:
				return llm.Assistant("it is " + last.Text()), nil
			case <-ctx.Done():
				return llm.Message{}, context.Cause(ctx)
			}
		})
		s := newScene(t, checkpoint.NewMemory(), obeying, worker)
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.local.Serve(ctx, s.parent) }()
		s.tell(t, begin("owls"))
		synctest.Wait()
		results, _ := s.tell(t, llmtest.ToolCall(list, args{"status_filter": "waiting"}))
		id, _, _ := strings.Cut(results[0], " ")
		asking, leave := context.WithCancel(t.Context())
		answered := make(chan error, 1)
		go func() {
			_, err := s.local.Thread(id).Resume(asking, "red")
			answered <- err
		}()
		synctest.Wait()
		s.tell(t, begin("bees"))
		synctest.Wait()
		contains(t, s.messages(t), "about bees")
		if calls != 1 {
			t.Errorf("%d calls of the model", calls)
		}
		if _, err := s.local.Thread(id).Continue(t.Context()); err == nil || !strings.Contains(err.Error(), "answer it with Local.Resume") {
			t.Errorf("got error %v", err)
		}
		leave()
		if err := <-answered; !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v", err)
		}
		close(release)
		synctest.Wait()
		contains(t, s.messages(t), "it is red")
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// The threads of some tasks are deleted. The others still work.
func TestDeletedTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := checkpoint.NewMemory()
		var calls atomic.Int32
		s := newScene(t, saver, obeying, reply(&calls))
		s.tell(t, begin("owls"), begin("bees"))
		results, _ := s.tell(t, llmtest.ToolCall(list, args{"status_filter": "running"}))
		id, _, _ := strings.Cut(results[0], " ")
		if err := saver.DeleteThread(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"all":     "worker error (its thread was deleted): ",
			"running": "worker running: ",
			"error":   "worker error",
			"success": "No tasks.",
		} {
			results, sleeps := s.tell(t, llmtest.ToolCall(list, args{"status_filter": name}))
			if contains(t, results[0], want); !sleeps || name != "all" && strings.Count(results[0], "\n") > 1 {
				t.Errorf("status_filter %q: got %q; parent sleeps: %t", name, results[0], sleeps)
			}
		}
		contains(t, s.messages(t), "ended: error", "The thread of the task was deleted.")
		for _, name := range []string{check, update, cancel} {
			call := ofTask(name)
			if name == update {
				call = ofTask(name, "more")
			}
			call.Args = json.RawMessage(strings.ReplaceAll(string(call.Args), "$id", id))
			results, _ := s.tell(t, call)
			contains(t, results[0], "no longer exists")
		}
		s.serve(t)
		text := s.messages(t)
		contains(t, text, "ended: success")
		if n := strings.Count(text, "[notice"); n != 2 || calls.Load() != 1 {
			t.Errorf("%d notices, %d runs:\n%s", n, calls.Load(), text)
		}
	})
}

// Background tasks also work in an agent that is not a deep agent.
func TestBackgroundInPlainAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := checkpoint.NewMemory()
		var calls atomic.Int32
		s := newScene(t, saver, obeying, reply(&calls))
		g, err := agent.New(llmtest.Scripted(t, llmtest.Ask(begin("owls")), llmtest.Say("I wait."), llmtest.Say("thank you")), &agent.Options{
			Name: "plain", Graph: treadle.Options{Saver: saver},
			Middleware: []*agent.Middleware{deep.InBackground(deep.BackgroundAgent{Name: "worker", Description: "works", Runner: s.local})}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Thread("plain").Run(t.Context(), agent.Ask("go"))
		s.sleeps(t, err)
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.local.Serve(ctx, g) }()
		synctest.Wait()
		var state agent.State
		snap, err := g.Thread("plain").State(t.Context())
		if err == nil {
			err = snap.Read(&state)
		}
		if err != nil || agent.Answer(state) != "thank you" {
			t.Errorf("got %q, %v", agent.Answer(state), err)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		for _, none := range []treadle.AnyGraph{nil, (*treadle.Graph[deep.State, deep.State])(nil)} {
			if err := s.local.Serve(t.Context(), none); err == nil || !strings.Contains(err.Error(), "nil parent") {
				t.Errorf("got error %v", err)
			}
		}
	})
}
