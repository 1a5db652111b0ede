package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/a2aproject/a2a-go/a2a"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/server"
)

// steps is a graph of two nodes. The second one reports that it has started, and then waits for
// the end of its process, unless started is nil.
func steps(t *testing.T, first *atomic.Int32, started chan<- struct{}) treadle.AnyGraph {
	t.Helper()
	b := treadle.New[llm.Chat]("steps")
	treadle.AddNode(b, "first", func(context.Context, llm.Chat) (said, error) {
		first.Add(1)
		return said{llm.Messages{llm.Assistant("one ")}}, nil
	})
	treadle.AddNode(b, "second", func(ctx context.Context, _ llm.Chat) (said, error) {
		if started != nil {
			close(started)
			<-ctx.Done()
			return said{}, ctx.Err()
		}
		return said{llm.Messages{llm.Assistant("two")}}, nil
	})
	b.Sequence(treadle.Start, "first", "second", treadle.End)
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// serveAlone starts the only server of a database. stop ends it without waiting for its runs.
func serveAlone(t *testing.T, db server.Database, graphs ...treadle.AnyGraph) (c *client, stop func()) {
	t.Helper()
	srv, err := server.NewAlone(db, graphs, nil)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(srv)
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = srv.Drain(ctx) // fails, because a run is cut off
		hs.CloseClientConnections()
		hs.Close()
	})
	t.Cleanup(stop)
	return &client{t: t, base: hs.URL, head: http.Header{}}, stop
}

func TestTaskContinuesAfterRestart(t *testing.T) {
	db, first, started := newMemory(), &atomic.Int32{}, make(chan struct{})
	c, stop := serveAlone(t, db, steps(t, first, started))
	var task a2a.Task
	if e := c.agent("steps", "message/send", `{"message":{"role":"user","messageId":"m1","parts":[{"kind":"text","text":"go"}]},"configuration":{"blocking":false}}`, &task); e != nil {
		t.Fatalf("message/send: %+v", e)
	}
	<-started
	stop()
	c, _ = serveAlone(t, db, steps(t, first, nil))
	got := states(t, c, "steps", "tasks/resubscribe", string(task.ID), nil)
	if len(got) == 0 || got[len(got)-1] != "status-update completed final" || first.Load() != 1 {
		t.Errorf("stream %q, first node ran %d times", got, first.Load())
	}
}

func TestPageRunContinuesAfterRestart(t *testing.T) {
	db, first, started := newMemory(), &atomic.Int32{}, make(chan struct{})
	c, stop := serveAlone(t, db, steps(t, first, started))
	p := c.page("steps", "0199a9f2-0000-7000-8000-000000000002")
	p.path += "?on_disconnect=continue"
	p.messages = []map[string]any{{"id": "u0", "role": "user", "content": "go"}}
	body := fmt.Sprintf(`{"threadId":%q,"runId":"run-1","messages":%s,"tools":[],"context":[],"forwardedProps":{}}`, p.thread, asJSON(t, p.messages))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.base+p.path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // ends when the connection breaks
			_ = resp.Body.Close()
		}
	}()
	<-started
	stop()
	<-lost
	c, _ = serveAlone(t, db, steps(t, first, nil))
	later := c.page("steps", p.thread)
	later.messages = p.messages
	got := later.turnAs("run-1", "") // the page sends its request again
	if outcome(t, got)["type"] != "success" || len(later.messages) != 3 || later.messages[2]["content"] != "two" || first.Load() != 1 {
		t.Errorf("events %q, messages %v, first node ran %d times", kinds(got), later.messages, first.Load())
	}
}

// Another user knows all IDs of a question, and may use the assistant, but not the thread.
func TestOthersCannotAnswer(t *testing.T) {
	var refunds atomic.Int32
	auth := &server.Auth{Authenticate: identified().Authenticate, On: server.OwnerRules()}
	c := startGraphs(t, newMemory(), &server.Options{Auth: auth}, shop(t, &refunds))
	ann, bob := http.Header{"X-User": {"ann"}}, http.Header{"X-User": {"bob"}}

	c.head = ann
	task := c.task("shop", text("refund it"), "")
	if task.Status.State != a2a.TaskStateInputRequired {
		t.Fatalf("task %+v", task.Status)
	}
	p := c.page("shop", "0199a9f2-0000-7000-8000-000000000003")
	asked := outcome(t, p.say("refund it"))
	id := asked["interrupts"].([]any)[0].(map[string]any)["id"].(string)

	c.head = bob
	answer := `{"message":{"role":"user","messageId":"m2","contextId":%q,"taskId":%q,"parts":[{"kind":"data","data":{"resume":{"decisions":[{"type":"approve"}]}}}]}}`
	for method, params := range map[string]string{
		"message/send": fmt.Sprintf(answer, task.ContextID, task.ID), "message/stream": fmt.Sprintf(answer, task.ContextID, task.ID),
		"tasks/get": fmt.Sprintf(`{"id":%q}`, task.ID), "tasks/cancel": fmt.Sprintf(`{"id":%q}`, task.ID), "tasks/resubscribe": fmt.Sprintf(`{"id":%q}`, task.ID),
	} {
		if e := c.agent("shop", method, params, nil); e == nil || e.Code != -32001 {
			t.Errorf("%s: %+v", method, e)
		}
	}
	resume := `,"resume":[{"interruptId":"` + id + `","status":"resolved","payload":{"decisions":[{"type":"approve"}]}}]`
	_, _, raw := c.do("POST", "/agui/shop", `{"threadId":"`+p.thread+`","runId":"run-2","messages":[],"tools":[],"context":[],"forwardedProps":{}`+resume+`}`)
	if refunds.Load() != 0 || strings.Contains(string(raw), "refund") || strings.Contains(string(raw), "RUN_FINISHED") {
		t.Errorf("%d refunds after %s", refunds.Load(), raw)
	}

	c.head = ann
	if e := c.agent("shop", "message/send", fmt.Sprintf(answer, task.ContextID, task.ID), nil); e != nil {
		t.Errorf("ann's task: %+v", e)
	}
	if got := p.turn(resume); shown(got) != "Done: refunded order 42." || refunds.Load() != 2 {
		t.Errorf("ann's page: %q, %d refunds", shown(got), refunds.Load())
	}
}
