package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/a2a"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/server"
)

const catsTopic = `{"kind":"data","data":{"topic":"cats"}}`

// taskNow returns the stored task.
func (c *client) taskNow(assistant string, id a2a.TaskID) *a2a.Task {
	c.t.Helper()
	var task a2a.Task
	if e := c.agent(assistant, "tasks/get", fmt.Sprintf(`{"id":%q}`, id), &task); e != nil {
		c.t.Fatalf("tasks/get: %+v", e)
	}
	return &task
}

// A task that waits continues whoever answers, also without the ID of the task.
func TestTaskContinuesWithoutItsID(t *testing.T) {
	for name, answer := range map[string]func(c *client, task *a2a.Task){
		"platform": func(c *client, task *a2a.Task) {
			c.ok("POST", "/threads/"+task.ContextID+"/runs/wait", `{"assistant_id":"hitl","command":{"resume":"yes"}}`, nil)
		},
		"protocol": func(c *client, task *a2a.Task) {
			id := questionID(task)
			c.command(task.ContextID, "input.respond", fmt.Sprintf(`{"interrupt_id":%q,"response":"yes"}`, id))
		},
		"context": func(c *client, task *a2a.Task) {
			if done := c.task("hitl", text("yes"), fmt.Sprintf(`,"contextId":%q`, task.ContextID)); done.ID != task.ID {
				c.t.Errorf("the answer belongs to task %s, want %s", done.ID, task.ID)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, &server.Options{Webhooks: loopback})
			url, got := receiver(t)
			var task a2a.Task
			if e := c.agent("hitl", "message/send", fmt.Sprintf(`{"message":{"role":"user","messageId":"m","contextId":%q,"parts":[%s]},"configuration":{"pushNotificationConfig":%s}}`,
				"00000000-0000-4000-8000-000000000001", catsTopic, config03(url)), &task); e != nil {
				t.Fatal(e)
			}
			asks := <-got
			asks.check(t, string(task.ID), `"input-required"`)
			stream := make(chan []string, 1)
			began := make(chan struct{})
			go func() {
				first := sync.OnceFunc(func() { close(began) })
				stream <- states(t, c, "hitl", "SubscribeToTask", string(task.ID), func(string) { first() })
			}()
			<-began
			answer(c, &task)
			done := <-got
			done.check(t, string(task.ID), `"completed"`, `"artifacts"`, "yes")
			if seen := <-stream; !strings.Contains(seen[len(seen)-1], "COMPLETED") {
				t.Errorf("stream %q", seen)
			}
			now := c.taskNow("hitl", task.ID)
			if now.Status.State != a2a.TaskStateCompleted || len(now.Artifacts) != 1 || now.ContextID != task.ContextID {
				t.Errorf("task %+v", now)
			}
			var list struct{ Tasks []struct{ ID a2a.TaskID } }
			if e := c.agent("hitl", "ListTasks", "{}", &list); e != nil || len(list.Tasks) != 1 || list.Tasks[0].ID != task.ID {
				t.Errorf("ListTasks %+v, %+v", list, e)
			}
		})
	}
}

// questionID returns the ID of a task's question.
func questionID(task *a2a.Task) string {
	for _, p := range task.Status.Message.Parts {
		if data, ok := p.(a2a.DataPart); ok {
			open, _ := data.Data["interrupts"].([]any)
			id, _ := open[0].(map[string]any)["id"].(string)
			return id
		}
	}
	return ""
}

// A context with an ID of the client keeps it when another client answers.
func TestContinuedTaskKeepsItsContext(t *testing.T) {
	c := serve(t, nil)
	task := c.task("hitl", catsTopic, `,"contextId":"my talk"`)
	thread, _, _ := strings.Cut(string(task.ID), ":")
	c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"hitl","command":{"resume":"yes"}}`, nil)
	if now := c.taskNow("hitl", task.ID); now.ContextID != "my talk" || now.Status.State != a2a.TaskStateCompleted {
		t.Errorf("task %+v", now)
	}
}

type waitState struct {
	Messages llm.Messages `json:"messages"`
	For      string       `json:"for"`
}

// waiter returns a graph that waits for what its input says.
func waiter(t *testing.T) treadle.AnyGraph {
	t.Helper()
	b := treadle.New[waitState]("waiter")
	treadle.AddNode(b, "wait", func(ctx context.Context, s waitState) (out said, err error) {
		answer := "nothing"
		switch s.For {
		case "sleep":
			err = treadle.Sleep(ctx, time.Second)
		case "signal":
			answer, err = treadle.WaitFor[string](ctx, "paid", nil)
		case "question":
			answer, err = treadle.Interrupt[string](ctx, treadle.Question{Value: "Which owl?", Deadline: time.Now().Add(time.Second), OnTimeout: "any"})
		}
		if err != nil {
			return out, err
		}
		return said{llm.Messages{llm.Assistant("got " + answer)}}, nil
	})
	b.Sequence(treadle.Start, "wait", treadle.End)
	return treadle.Must(b.Compile(nil))
}

// paused waits until no run of a task is open, and returns the task.
func (c *client) paused(task *a2a.Task) *a2a.Task {
	c.t.Helper()
	c.until(task.ContextID, "paused", func(r *threadRow) bool { return r.Status != string(ledger.Busy) })
	return c.taskNow("waiter", task.ID)
}

func TestTaskWorksWhileItWaitsForSignal(t *testing.T) {
	c := startGraphs(t, newMemory(), &server.Options{Webhooks: loopback}, waiter(t))
	url, got := receiver(t)
	var task a2a.Task
	if e := c.agent("waiter", "message/send", fmt.Sprintf(`{"message":{"role":"user","messageId":"m","parts":[{"kind":"data","data":{"for":"signal"}}]},"configuration":{"blocking":false,"pushNotificationConfig":%s}}`, config03(url)), &task); e != nil {
		t.Fatal(e)
	}
	if now := c.paused(&task); now.Status.State != a2a.TaskStateWorking || len(now.Artifacts) != 0 {
		t.Errorf("task that waits for a signal: %+v", now)
	}
	streams := make(chan []string, 2)
	began := make(chan struct{}, 2)
	for _, method := range []string{"tasks/resubscribe", "SubscribeToTask"} {
		go func() {
			first := sync.OnceFunc(func() { began <- struct{}{} })
			streams <- states(t, c, "waiter", method, string(task.ID), func(string) { first() })
		}()
	}
	<-began
	<-began
	c.ok("POST", "/threads/"+task.ContextID+"/signals/paid", `{"value":"cash"}`, nil)
	done := <-got
	done.check(t, string(task.ID), `"completed"`, "got cash")
	for range 2 {
		if seen := <-streams; !strings.Contains(strings.ToLower(seen[len(seen)-1]), "completed") {
			t.Errorf("stream %q", seen)
		}
	}
	if now := c.taskNow("waiter", task.ID); now.Status.State != a2a.TaskStateCompleted || len(now.Artifacts) != 1 {
		t.Errorf("task after the signal: %+v", now)
	}
	if len(got) != 0 {
		t.Errorf("another notification: %+v", <-got)
	}
}

// A client that waits for its task waits until the graph has slept.
func TestSleepingTaskAnswersWhenItIsDone(t *testing.T) {
	c := startGraphs(t, newMemory(), nil, waiter(t))
	task := c.task("waiter", `{"kind":"data","data":{"for":"sleep"}}`, "")
	if task.Status.State != a2a.TaskStateCompleted || len(task.Artifacts) != 1 {
		t.Errorf("task %+v", task)
	}
	_, _, raw := c.do("POST", "/a2a/waiter", `{"jsonrpc":"2.0","id":7,"method":"message/stream","params":{"message":{"role":"user","messageId":"m","parts":[{"kind":"data","data":{"for":"sleep"}}]}}}`)
	fs := frames(raw)
	for i, f := range fs {
		if final := strings.Contains(f.data, `"final":true`); final != (i == len(fs)-1) {
			t.Errorf("frame %d of %d: %s", i, len(fs), f.data)
		}
	}
	if last := fs[len(fs)-1].data; !strings.Contains(last, `"completed"`) {
		t.Errorf("last frame %s", last)
	}
	var list struct{ Tasks []json.RawMessage }
	if e := c.agent("waiter", "ListTasks", "{}", &list); e != nil || len(list.Tasks) != 2 {
		t.Errorf("%d tasks, %+v", len(list.Tasks), e)
	}
}

func TestTaskContinuesAfterDeadline(t *testing.T) {
	c := startGraphs(t, newMemory(), nil, waiter(t))
	task := c.task("waiter", `{"kind":"data","data":{"for":"question"}}`, "")
	if task.Status.State != a2a.TaskStateInputRequired {
		t.Fatalf("task %+v", task.Status)
	}
	seen := states(t, c, "waiter", "SubscribeToTask", string(task.ID), nil)
	if !strings.Contains(seen[len(seen)-1], "COMPLETED") {
		t.Errorf("stream %q", seen)
	}
	if now := c.taskNow("waiter", task.ID); now.Status.State != a2a.TaskStateCompleted || !strings.Contains(asJSON(t, now.Artifacts), "got any") {
		t.Errorf("task %+v", now)
	}
}

// A message that starts over cancels the task that waits, and is a task of its own.
func TestNewInputCancelsWaitingTask(t *testing.T) {
	c := serve(t, nil)
	task := c.task("hitl", catsTopic, "")
	c.ok("POST", "/threads/"+task.ContextID+"/runs/wait", `{"assistant_id":"hitl","input":{"topic":"dogs"}}`, nil)
	if now := c.taskNow("hitl", task.ID); now.Status.State != a2a.TaskStateCanceled {
		t.Errorf("the first task: %+v", now.Status)
	}
	if e := c.agent("hitl", "message/send", fmt.Sprintf(`{"message":{"messageId":"m","role":"user","parts":[%s],"taskId":%q}}`, text("yes"), task.ID), nil); e == nil || e.Code != -32004 {
		t.Errorf("a message to a canceled task: %+v", e)
	}
	var list struct{ Tasks []*a2a.Task }
	if e := c.agent("hitl", "tasks/list", "{}", &list); e != nil || len(list.Tasks) != 2 || list.Tasks[0].Status.State != a2a.TaskStateInputRequired {
		t.Errorf("tasks %+v, %+v", list.Tasks, e)
	}
}

// A continued task answers with the task, even if the last message asks for an answer without one.
func TestContinuedTaskAnswersWithTask(t *testing.T) {
	b := treadle.New[llm.Chat]("greeter")
	treadle.AddNode(b, "greet", func(ctx context.Context, _ llm.Chat) (out said, err error) {
		name, err := treadle.Interrupt[string](ctx, "Who?")
		if err != nil {
			return out, err
		}
		m := llm.Assistant("Hello " + name)
		m.Metadata = map[string]any{"a2a": "message"}
		return said{llm.Messages{m}}, nil
	})
	b.Sequence(treadle.Start, "greet", treadle.End)
	c := startGraphs(t, newMemory(), nil, treadle.Must(b.Compile(nil)))
	for _, named := range []string{"taskId", "contextId"} {
		task := c.task("greeter", text("hi"), "")
		id := string(task.ID)
		if named == "contextId" {
			id = task.ContextID
		}
		done := c.task("greeter", text("Ann"), fmt.Sprintf(`,%q:%q`, named, id))
		if done.ID != task.ID || done.Status.State != a2a.TaskStateCompleted || len(done.Artifacts) != 1 {
			t.Errorf("%s: %+v", named, done)
		}
	}
}

// A client that lost a response sends its message again with the same Idempotency-Key, whether or not the
// task has continued since.
func TestResentMessageRunsOnce(t *testing.T) {
	c := serve(t, &server.Options{Auth: annAndBen()})
	send := func(user, key, part, more string) *a2a.Task {
		t.Helper()
		c := as(c, "key-"+user)
		c.head.Set("Idempotency-Key", key)
		return c.task("hitl", part, more)
	}
	for name, more := range map[string]func(*a2a.Task) string{
		"task":    func(task *a2a.Task) string { return fmt.Sprintf(`,"taskId":%q`, task.ID) },
		"context": func(task *a2a.Task) string { return fmt.Sprintf(`,"contextId":%q`, task.ContextID) },
	} {
		task := send("a", name, catsTopic, "")
		if again := send("a", name, catsTopic, ""); again.ID != task.ID || again.Status.State != a2a.TaskStateInputRequired {
			t.Errorf("%s: the message sent again has the task %+v, want %s", name, again, task.ID)
		}
		if other := send("b", name, catsTopic, ""); other.ContextID == task.ContextID {
			t.Errorf("%s: another user got the same context", name)
		}
		for try := range 2 {
			if done := send("a", "answer "+name, text("yes"), more(task)); done.ID != task.ID || done.Status.State != a2a.TaskStateCompleted || len(done.Artifacts) != 1 {
				t.Errorf("%s: answer %d: %+v", name, try, done)
			}
		}
		var runs []any
		if as(c, "key-a").ok("GET", "/threads/"+task.ContextID+"/runs", "", &runs); len(runs) != 2 {
			t.Errorf("%s: %d runs", name, len(runs))
		}
	}
}
