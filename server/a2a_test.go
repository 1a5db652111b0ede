package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/a2aproject/a2a-go/a2a"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/server"
)

// a2aError is a JSON-RPC error.
type a2aError struct {
	Code    int
	Message string
}

// agent calls a method of an assistant and decodes the result, or the first event of a stream.
func (c *client) agent(assistant, method, params string, into any) *a2aError {
	c.t.Helper()
	var answer struct {
		Result json.RawMessage
		Error  *a2aError
	}
	status, head, raw := c.do("POST", "/a2a/"+assistant, fmt.Sprintf(`{"jsonrpc":"2.0","id":"1","method":%q,"params":%s}`, method, params))
	if strings.HasPrefix(head.Get("Content-Type"), "text/event-stream") {
		raw = []byte(frames(raw)[0].data)
	}
	if err := json.Unmarshal(raw, &answer); err != nil || status != http.StatusOK {
		c.t.Fatalf("%s %s: status %d, %s", method, params, status, raw)
	}
	if answer.Error == nil && into != nil {
		if err := json.Unmarshal(answer.Result, into); err != nil {
			c.t.Fatalf("%s: %v in %s", method, err, answer.Result)
		}
	}
	return answer.Error
}

// task sends a message with the given parts and more message fields, and must get a task.
func (c *client) task(assistant, parts, more string) *a2a.Task {
	c.t.Helper()
	var task a2a.Task
	if e := c.agent(assistant, "message/send", fmt.Sprintf(`{"message":{"role":"user","messageId":"m1","parts":[%s]%s}}`, parts, more), &task); e != nil {
		c.t.Fatalf("message/send %s: %+v", parts, e)
	}
	return &task
}

func text(s string) string { return fmt.Sprintf(`{"kind":"text","text":%q}`, s) }

func TestAgentAnswersMessage(t *testing.T) {
	c := serve(t, nil)
	task := c.task("agent", text("hi there"), "")
	if task.Status.State != a2a.TaskStateCompleted || !strings.HasPrefix(string(task.ID), task.ContextID+":") {
		t.Errorf("task %+v", task)
	}
	if got := task.Artifacts[0].Parts[0].(a2a.TextPart).Text; got != "Echo: hi there" {
		t.Errorf("answer %q", got)
	}
	if len(task.History) != 2 || task.History[0].ID != "m1" || task.History[1].Role != a2a.MessageRoleAgent {
		t.Errorf("history %+v", task.History)
	}
	second := c.task("agent", `{"text":"again"}`, `,"contextId":"`+task.ContextID+`","messageId":"m2"`)
	if second.ContextID != task.ContextID || len(second.History) != 4 || second.ID == task.ID {
		t.Errorf("the second task of a context: %+v", second)
	}
	var got a2a.Task
	if e := c.agent("agent", "tasks/get", fmt.Sprintf(`{"id":%q,"historyLength":1}`, second.ID), &got); e != nil || got.Status.State != a2a.TaskStateCompleted || len(got.History) != 1 {
		t.Errorf("tasks/get %+v: %+v", e, got)
	}
	if e := c.agent("agent", "tasks/cancel", fmt.Sprintf(`{"id":%q}`, second.ID), nil); e == nil || e.Code != -32002 {
		t.Errorf("cancel of an ended task: %+v", e)
	}
	var list struct{ Tasks []struct{ ID a2a.TaskID } }
	if e := c.agent("agent", "ListTasks", fmt.Sprintf(`{"contextId":%q}`, task.ContextID), &list); e != nil || len(list.Tasks) != 2 || list.Tasks[0].ID != second.ID {
		t.Errorf("ListTasks %+v: %+v", e, list)
	}
	var v1 struct{ Task map[string]any }
	if e := c.agent("agent", "SendMessage", `{"message":{"role":"ROLE_USER","messageId":"m","parts":[{"text":"x"}]}}`, &v1); e != nil {
		t.Fatalf("SendMessage: %+v", e)
	}
	if raw := asJSON(t, v1.Task); !strings.Contains(raw, `"TASK_STATE_COMPLETED"`) || !strings.Contains(raw, `"ROLE_AGENT"`) || strings.Contains(raw, `"kind"`) {
		t.Errorf("task of version 1.0: %s", raw)
	}
}

func TestAgentStreamsTextSoFar(t *testing.T) {
	c := serve(t, nil)
	for _, x := range []struct{ method, update string }{{"message/stream", `"status-update"`}, {"SendStreamingMessage", `"statusUpdate":`}} {
		_, head, raw := c.do("POST", "/a2a/agent", fmt.Sprintf(`{"jsonrpc":"2.0","id":"2","method":%q,"params":{"message":{"role":"user","messageId":"m","parts":[%s]}}}`, x.method, text("hi there")))
		if !strings.HasPrefix(head.Get("Content-Type"), "text/event-stream") {
			t.Errorf("headers %v", head)
		}
		fs := frames(raw)
		var texts []string
		for _, f := range fs {
			if f.event != "message" || !strings.HasPrefix(f.data, `{"id":"2","jsonrpc":"2.0","result":`) {
				t.Errorf("frame %+v", f)
			}
			if i := strings.Index(f.data, `"text":"Echo`); i >= 0 {
				texts = append(texts, f.data[i+8:strings.Index(f.data[i+8:], `"}`)+i+8])
			}
		}
		if got := strings.Join(texts, "|"); !strings.HasPrefix(got, "Echo: |Echo: hi |Echo: hi there") {
			t.Errorf("texts %s", got)
		}
		last := fs[len(fs)-1].data
		if v1 := x.method == "SendStreamingMessage"; !strings.Contains(last, x.update) || strings.Contains(last, `"final":true`) == v1 || !strings.Contains(strings.ToLower(last), "completed") {
			t.Errorf("the last frame is %s", last)
		}
	}
}

func TestAgentInterruptsAndResumes(t *testing.T) {
	c := serve(t, nil)
	const topic = `{"kind":"data","data":{"topic":"cats"}}`
	task := c.task("hitl", topic, "")
	if task.Status.State != a2a.TaskStateInputRequired || len(task.Artifacts) != 0 {
		t.Fatalf("task %+v", task)
	}
	asked := asJSON(t, task.Status.Message)
	if !strings.Contains(asked, `approve?`) {
		t.Errorf("question %s", asked)
	}
	var got a2a.Task
	if e := c.agent("hitl", "tasks/get", fmt.Sprintf(`{"id":%q}`, task.ID), &got); e != nil || got.Status.State != a2a.TaskStateInputRequired {
		t.Errorf("tasks/get %+v: %+v", e, got)
	}
	done := c.task("hitl", text("yes"), fmt.Sprintf(`,"taskId":%q`, task.ID))
	if done.ID != task.ID || done.Status.State != a2a.TaskStateCompleted {
		t.Fatalf("task after the answer %+v", done)
	}
	if data := done.Artifacts[0].Parts[0].(a2a.DataPart).Data; data["approval"] != "yes" {
		t.Errorf("values %v", data)
	}
	if e := c.agent("hitl", "tasks/get", fmt.Sprintf(`{"id":%q}`, task.ID), &got); e != nil || got.Status.State != a2a.TaskStateCompleted {
		t.Errorf("tasks/get of a continued task %+v: %+v", e, got)
	}
	if e := c.agent("hitl", "message/send", fmt.Sprintf(`{"message":{"messageId":"m","role":"user","parts":[%s],"taskId":%q}}`, text("more"), task.ID), nil); e == nil || e.Code != -32004 {
		t.Errorf("a message to an ended task: %+v", e)
	}

	task = c.task("hitl", topic, "")
	open := task.Status.Message.Parts[len(task.Status.Message.Parts)-1].(a2a.DataPart).Data["interrupts"].([]any)
	id := open[0].(map[string]any)["id"]
	if e := c.agent("hitl", "message/send", fmt.Sprintf(`{"message":{"messageId":"m","role":"user","contextId":%q,"parts":[{"kind":"data","data":{"resume":[{"id":"other","value":1}]}}]}}`, task.ContextID), nil); e == nil || e.Code != -32602 {
		t.Errorf("an answer without a pending interrupt: %+v", e)
	}
	done = c.task("hitl", fmt.Sprintf(`{"kind":"data","data":{"resume":[{"id":%q,"value":{"ok":true}}]}}`, id), fmt.Sprintf(`,"contextId":%q`, task.ContextID))
	if raw := asJSON(t, done.Artifacts); !strings.Contains(raw, `reviewed:{\"ok\":true}`) {
		t.Errorf("values %s", raw)
	}
}

func TestAgentTaskIsCanceled(t *testing.T) {
	c := serve(t, nil)
	var task a2a.Task
	if e := c.agent("slow", "message/send", `{"message":{"messageId":"m","role":"user","parts":[{"kind":"data","data":{"count":100,"delay_ms":50}}]},"configuration":{"blocking":false}}`, &task); e != nil {
		t.Fatal(e)
	}
	if task.Status.State != a2a.TaskStateSubmitted {
		t.Errorf("task %+v", task)
	}
	id := fmt.Sprintf(`{"id":%q}`, task.ID)
	if e := c.agent("slow", "tasks/get", id, &task); e != nil || task.Status.State != a2a.TaskStateWorking {
		t.Errorf("tasks/get %+v: %+v", e, task)
	}
	if e := c.agent("slow", "tasks/cancel", id, &task); e != nil || task.Status.State != a2a.TaskStateCanceled {
		t.Errorf("tasks/cancel %+v: %+v", e, task)
	}
	var failed a2a.Task
	if e := c.agent("failing", "message/send", `{"message":{"messageId":"m","role":"user","parts":[{"kind":"data","data":{"message":"m"}}]}}`, &failed); e != nil || failed.Status.State != a2a.TaskStateFailed {
		t.Errorf("a run that fails %+v: %+v", e, failed)
	}
	if got := failed.Status.Message.Parts[0].(a2a.TextPart).Text; got != "boom: m" {
		t.Errorf("error %q", got)
	}
}

func TestAgentErrorsHaveTheirCodes(t *testing.T) {
	c := serve(t, nil)
	ctx := c.task("agent", text("x"), "").ContextID
	for _, x := range []struct {
		assistant, method, params string
		code                      int
		has                       string
	}{
		{"hitl", "message/send", `{"message":{"messageId":"m","role":"user","parts":[{"kind":"text","text":"x"}]}}`, -32602, "'messages'"},
		{"agent", "no/such", `{}`, -32601, "no/such"},
		{"agent", "message/send", `{}`, -32602, "message"},
		{"agent", "message/send", `{"message":{"role":"user","parts":[{"kind":"text","text":"x"}]}}`, -32602, "messageId"},
		{"agent", "message/send", `{"message":{"messageId":"m","parts":[{"kind":"text","text":"x"}]}}`, -32602, "message.role"},
		{"agent", "message/send", `{"message":{"messageId":"m","role":"user","parts":[{"type":"smell","text":"x"}]}}`, -32602, "message.parts[0]"},
		{"agent", "message/send", `{"message":{"messageId":"m","role":"user","parts":[]}}`, -32602, "message.parts"},
		{"agent", "message/send", `{"message":{"messageId":"m","role":"user","parts":[{"kind":"smell"}]}}`, -32602, "message.parts[0]"},
		{"agent", "message/send", `{"message":{"messageId":"m","role":"user","parts":[5]}}`, -32602, "message.parts[0]"},
		{"agent", "message/send", `{"message":{"messageId":"m","role":"agent","parts":[{"text":"x"}]}}`, -32602, "message.role"},
		{"agent", "message/send", `{"message":{"messageId":"m","role":"user","parts":[{"file":{"bytes":"?"}}]}}`, -32602, "base64"},
		{"agent", "message/send", `{"message":{"messageId":"m","role":"user","taskId":"x","parts":[{"text":"x"}]}}`, -32001, "x"},
		{"agent", "message/send", `{"message":7}`, -32602, "message"},
		{"agent", "message/send", `[]`, -32602, "object"},
		{"agent", "message/send", `{"message":{"messageId":"m","role":"user","contextId":"` + ctx + `","parts":[{"data":{"resume":"x"}}]}}`, -32602, "wait"},
		{"agent", "tasks/get", `{}`, -32602, "id"},
		{"agent", "tasks/get", `{"id":"x"}`, -32001, "x"},
		{"agent", "tasks/get", `{"id":"` + ctx + ":" + ctx + `"}`, -32001, ctx},
		{"agent", "tasks/cancel", `{"id":"` + ctx + ":" + ctx + `"}`, -32001, ctx},
		{"agent", "tasks/resubscribe", `{}`, -32602, "id"},
		{"agent", "tasks/resubscribe", `{"id":"` + ctx + ":" + ctx + `"}`, -32001, ctx},
		{"agent", "tasks/unknown", `{}`, -32601, "unknown"},
		{"agent", "tasks/get", `{"id":"` + ctx + ":" + ctx + `","historyLength":-1}`, -32602, "historyLength"},
		{"agent", "ListTasks", `{"historyLength":-1}`, -32602, "historyLength"},
		{"agent", "ListTasks", `{"pageSize":101}`, -32602, "pageSize"},
		{"agent", "ListTasks", `{"pageToken":"x"}`, -32602, "pageToken"},
		{"agent", "message/stream", `{"message":7}`, -32602, "message"},
		{"agent", "tasks/pushNotificationConfig/set", `{}`, -32602, "id"},
		{"agent", "CreateTaskPushNotificationConfig", `{"taskId":"` + ctx + ":" + ctx + `"}`, -32001, ctx},
		{"agent", "GetExtendedAgentCard", `{}`, -32007, "extended card"},
	} {
		if e := c.agent(x.assistant, x.method, x.params, nil); e == nil || e.Code != x.code || !strings.Contains(e.Message, x.has) {
			t.Errorf("%s %s: %+v", x.method, x.params, e)
		}
	}
	for body, want := range map[string]string{`{`: "-32700", `[]`: "-32600", `{"jsonrpc":"2.0","id":{},"method":"x"}`: "id", `{"id":1}`: "jsonrpc", `{"jsonrpc":"2.0","id":1}`: "method"} {
		if status, _, raw := c.do("POST", "/a2a/agent", body); status != 200 || !strings.Contains(string(raw), want) {
			t.Errorf("%s: %d %s", body, status, raw)
		}
	}
	if status, _, _ := c.do("POST", "/a2a/nobody", `{"jsonrpc":"2.0","id":1,"method":"tasks/get"}`); status != 404 {
		t.Errorf("an unknown assistant: %d", status)
	}
}

func TestAgentCardNamesAddress(t *testing.T) {
	c := serve(t, nil)
	var card struct {
		a2a.AgentCard
		SupportedInterfaces []struct{ URL, ProtocolVersion string }
	}
	c.ok("GET", "/.well-known/agent-card.json?assistant_id=agent", "", &card)
	if !strings.HasPrefix(card.URL, c.base+"/a2a/") || !card.Capabilities.Streaming || card.SupportedInterfaces[0].URL != card.URL || len(card.Skills) != 1 {
		t.Errorf("card %+v", card)
	}
	c.head.Set("X-Forwarded-Proto", "https")
	c.head.Set("X-Forwarded-Host", "agents.example.com")
	c.ok("GET", "/.well-known/agent-card.json?assistant_id=agent", "", &card)
	if !strings.HasPrefix(card.URL, "https://agents.example.com/a2a/") {
		t.Errorf("address with a proxy: %s", card.URL)
	}
	if status, _, _ := c.do("GET", "/.well-known/agent-card.json", ""); status != 400 {
		t.Errorf("no assistant: %d", status)
	}
	if status, _, _ := c.do("GET", "/.well-known/agent-card.json?assistant_id=nobody", ""); status != 404 {
		t.Errorf("an unknown assistant: %d", status)
	}
}

// states reads a stream of A2A and returns the states and texts that it reports.
func states(t *testing.T, c *client, assistant, method, id string, seen func(state string)) (out []string) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{"id":%q}}`, method, id)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.base+"/a2a/"+assistant, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		t.Fatalf("the response is %s", kind)
	}
	type state struct{ Status struct{ State string } }
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event struct {
			ID     int
			Result struct {
				state
				Kind   string
				Final  bool
				Task   state // in version 1.0
				Update state `json:"statusUpdate"`
			}
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil || event.ID != 7 {
			t.Fatalf("%v in %s", err, data)
		}
		what := event.Result.Kind
		if now := event.Result.Status.State + event.Result.Task.Status.State + event.Result.Update.Status.State; now != "" {
			what += " " + now
		}
		if event.Result.Final {
			what += " final"
		}
		out = append(out, what)
		if seen != nil {
			seen(what)
		}
	}
	return out
}

func TestResubscribeStreamsTask(t *testing.T) {
	release := make(chan struct{})
	b := treadle.New[llm.Chat]("slow")
	treadle.AddNode(b, "wait", func(ctx context.Context, _ llm.Chat) (said, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return said{llm.Messages{llm.Assistant("done")}}, ctx.Err()
	})
	b.Sequence(treadle.Start, "wait", treadle.End)
	srv, err := server.New(newMemory(), []treadle.AnyGraph{treadle.Must(b.Compile(nil))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := serveHandler(t, srv)
	var task a2a.Task
	if e := c.agent("slow", "message/send", `{"message":{"role":"user","messageId":"m1","parts":[{"kind":"text","text":"hi"}]},"configuration":{"blocking":false}}`, &task); e != nil {
		t.Fatalf("message/send: %+v", e)
	}
	first := sync.OnceFunc(func() { close(release) }) // the run continues when the stream has started
	got := states(t, c, "slow", "tasks/resubscribe", string(task.ID), func(string) { first() })
	if n := len(got); n < 3 || got[0] != "task working" || got[n-2] != "artifact-update" || got[n-1] != "status-update completed final" {
		t.Errorf("the stream of a running task is %q", got)
	}
	got = states(t, c, "slow", "tasks/resubscribe", string(task.ID), nil)
	if !slices.Equal(got, []string{"task completed", "status-update completed final"}) {
		t.Errorf("the stream of an ended task is %q", got)
	}
	if e := c.agent("slow", "SubscribeToTask", fmt.Sprintf(`{"id":%q}`, task.ID), nil); e == nil || e.Code != -32004 {
		t.Errorf("SubscribeToTask: %+v", e)
	}
}

// The names in the comments are those of the requirements of the A2A project's test kit.

// CORE-CANCEL-001; test_tasks_cancel_method and test_a2a_v030_new_methods of version 0.3.
func TestWaitingTaskIsCanceled(t *testing.T) {
	c := serve(t, nil)
	task := c.task("hitl", `{"kind":"data","data":{"topic":"cats"}}`, "")
	var canceled, got a2a.Task
	for _, into := range []*a2a.Task{&canceled, &got} {
		method := map[*a2a.Task]string{&canceled: "tasks/cancel", &got: "tasks/get"}[into]
		if e := c.agent("hitl", method, fmt.Sprintf(`{"id":%q}`, task.ID), into); e != nil || into.Status.State != a2a.TaskStateCanceled {
			t.Errorf("%s: %+v, %+v", method, e, into.Status)
		}
	}
	if e := c.agent("hitl", "tasks/cancel", fmt.Sprintf(`{"id":%q}`, task.ID), nil); e == nil || e.Code != -32002 {
		t.Errorf("second cancel: %+v", e)
	}
	if e := c.agent("hitl", "message/send", fmt.Sprintf(`{"message":{"role":"user","messageId":"m2","taskId":%q,"parts":[{"text":"yes"}]}}`, task.ID), nil); e == nil || e.Code != -32004 {
		t.Errorf("message to the canceled task: %+v", e)
	}
	next := c.task("hitl", `{"kind":"data","data":{"topic":"dogs"}}`, `,"contextId":"`+task.ContextID+`"`)
	if next.Status.State != a2a.TaskStateInputRequired || next.ID == task.ID {
		t.Errorf("next task of the context %+v", next)
	}
}

// CORE-LIST-001 to 005.
func TestTasksOfAllContextsAreListed(t *testing.T) {
	c := serve(t, nil)
	var ids []string
	for i := range 5 {
		ids = append([]string{string(c.task("agent", text(fmt.Sprint("hi ", i)), "").ID)}, ids...)
	}
	waiting := c.task("hitl", `{"kind":"data","data":{"topic":"cats"}}`, "")
	list := func(assistant, params string) (got []string, next string) {
		var page struct {
			Tasks []struct {
				ID        string
				Artifacts []any
			}
			Next string `json:"nextPageToken"`
		}
		if e := c.agent(assistant, "ListTasks", params, &page); e != nil {
			t.Fatalf("ListTasks %s: %+v", params, e)
		}
		for _, task := range page.Tasks {
			if got = append(got, task.ID); len(task.Artifacts) > 0 != strings.Contains(params, "includeArtifacts") {
				t.Errorf("%s: %d artifacts", params, len(task.Artifacts))
			}
		}
		return got, page.Next
	}
	var all []string
	for token := ""; ; {
		page, next := list("agent", fmt.Sprintf(`{"pageSize":2,"pageToken":%q}`, token))
		if all = append(all, page...); next == "" {
			break
		}
		token = next
	}
	if !slices.Equal(all, ids) {
		t.Errorf("listed %v, want %v", all, ids)
	}
	if got, _ := list("agent", `{"page_size":1,"includeArtifacts":true}`); !slices.Equal(got, ids[:1]) {
		t.Errorf("first page %v", got)
	}
	for status, want := range map[string][]string{"TASK_STATE_INPUT_REQUIRED": {string(waiting.ID)}, "TASK_STATE_COMPLETED": nil} {
		if got, _ := list("hitl", fmt.Sprintf(`{"status":%q}`, status)); !slices.Equal(got, want) {
			t.Errorf("%s: %v", status, got)
		}
	}
}

// CORE-MULTI-002: a client may choose the ID of a context.
func TestContextsMayHaveAnyID(t *testing.T) {
	c := serve(t, nil)
	first := c.task("agent", text("one"), `,"contextId":"my talk"`)
	second := c.task("agent", text("two"), `,"contextId":"my talk","messageId":"m2"`)
	if first.ContextID != "my talk" || second.ContextID != "my talk" || len(second.History) != 4 {
		t.Errorf("tasks %+v, %+v", first, second)
	}
	var got a2a.Task
	if e := c.agent("agent", "tasks/get", fmt.Sprintf(`{"id":%q}`, second.ID), &got); e != nil || got.ContextID != "my talk" {
		t.Errorf("tasks/get: %+v, %+v", e, got)
	}
	if e := c.agent("agent", "tasks/get", fmt.Sprintf(`{"id":%q,"contextId":"other"}`, second.ID), nil); e == nil || e.Code != -32602 {
		t.Errorf("another context: %+v", e)
	}
}

// CARD-STRUCT-001, CARD-CACHE-001 to 003, VER-SERVER-001 to 003.
func TestCardHasShapeOfVersion(t *testing.T) {
	c := serve(t, nil)
	for path, v1 := range map[string]bool{"/a2a/agent": false, "/a2a/agent/.well-known/agent-card.json": false, "/.well-known/agent-card.json?assistant_id=agent": false,
		"/a2a/agent/v1/.well-known/agent-card.json": true, "/a2a/agent?A2A-Version=1.0": true} {
		status, head, raw := c.do("GET", path, "")
		var card map[string]any
		if err := json.Unmarshal(raw, &card); err != nil || status != http.StatusOK || (card["url"] == nil) != v1 || (card["protocolVersion"] == nil) != v1 || card["supportedInterfaces"] == nil {
			t.Errorf("%s: %d %s", path, status, raw)
		}
		if !strings.Contains(head.Get("Cache-Control"), "max-age") || head.Get("Last-Modified") == "" {
			t.Errorf("%s: headers %v", path, head)
		}
		c.head.Set("If-None-Match", head.Get("ETag"))
		if status, _, _ := c.do("GET", path, ""); status != http.StatusNotModified {
			t.Errorf("%s: status %d for the same card", path, status)
		}
		c.head.Del("If-None-Match")
	}
	c.head.Set("A2A-Version", "99.0")
	if e := c.agent("agent", "GetTask", `{"id":"x"}`, nil); e == nil || e.Code != -32009 {
		t.Errorf("version 99.0: %+v", e)
	}
	c.head.Set("A2A-Version", "1.0")
	if _, _, raw := c.do("POST", "/a2a/agent", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}`); !strings.Contains(string(raw), `"reason":"TASK_NOT_FOUND"`) {
		t.Errorf("error of version 1.0: %s", raw)
	}
	c.head.Set("Content-Type", "text/plain")
	if e := c.agent("agent", "GetTask", `{"id":"x"}`, nil); e == nil || e.Code != -32005 {
		t.Errorf("text/plain: %+v", e)
	}
}

// DM-ART-001: what a model writes beside its text becomes parts of the artifact.
func TestArtifactsHaveAllParts(t *testing.T) {
	type state struct {
		Messages llm.Messages   `json:"messages"`
		Response map[string]any `json:"structured_response,omitempty"`
	}
	type written struct {
		Messages llm.Messages   `json:"messages"`
		Response map[string]any `json:"structured_response"`
	}
	b := treadle.New[state]("writer")
	treadle.AddNode(b, "write", func(context.Context, state) (written, error) {
		link := llm.File("b.txt", "text/plain", nil)
		link.URL = "https://example.com/b.txt"
		m := llm.Message{Role: llm.RoleAI, Content: "Here.", Blocks: []llm.Block{llm.File("a.txt", "text/plain", []byte("a")), link}}
		return written{llm.Messages{m}, map[string]any{"kind": "answer"}}, nil
	})
	b.Sequence(treadle.Start, "write", treadle.End)
	c := startGraphs(t, newMemory(), nil, treadle.Must(b.Compile(nil)))
	for method, want := range map[string]string{
		"message/send": `[{"kind":"text","text":"Here."},{"file":{"mimeType":"text/plain","name":"a.txt","bytes":"YQ=="},"kind":"file"},{"file":{"mimeType":"text/plain","name":"b.txt","uri":"https://example.com/b.txt"},"kind":"file"},{"data":{"kind":"answer"},"kind":"data"}]`,
		"SendMessage":  `[{"text":"Here."},{"filename":"a.txt","mediaType":"text/plain","raw":"YQ=="},{"filename":"b.txt","mediaType":"text/plain","url":"https://example.com/b.txt"},{"data":{"kind":"answer"}}]`,
	} {
		type task struct {
			Artifacts []struct{ Parts []map[string]any }
		}
		var got struct {
			task
			Task task
		}
		if e := c.agent("writer", method, `{"message":{"role":"user","messageId":"m1","parts":[{"text":"x"}]}}`, &got); e != nil {
			t.Fatalf("%s: %+v", method, e)
		}
		var wanted []map[string]any
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if list := append(got.Artifacts, got.Task.Artifacts...); len(list) != 1 || asJSON(t, list[0].Parts) != asJSON(t, wanted) {
			t.Errorf("%s: artifacts %s, want parts %s", method, asJSON(t, list), want)
		}
	}
}

// DM-MSG-001: a graph may answer with a message. The conversation continues all the same.
func TestAgentAnswersWithMessage(t *testing.T) {
	b := treadle.New[llm.Chat]("greeter")
	treadle.AddNode(b, "greet", func(_ context.Context, s llm.Chat) (said, error) {
		m := llm.Assistant(fmt.Sprintf("Hello number %d.", (len(s.Messages)+1)/2))
		m.Metadata = map[string]any{"a2a": "message"}
		return said{llm.Messages{m}}, nil
	})
	b.Sequence(treadle.Start, "greet", treadle.End)
	c := startGraphs(t, newMemory(), nil, treadle.Must(b.Compile(nil)))
	var first map[string]any
	if e := c.agent("greeter", "message/send", `{"message":{"role":"user","messageId":"m1","parts":[{"kind":"text","text":"x"}]}}`, &first); e != nil {
		t.Fatal(e)
	}
	context, id := first["contextId"], first["messageId"]
	if want := map[string]any{"kind": "message", "role": "agent", "messageId": id, "contextId": context, "parts": []any{map[string]any{"kind": "text", "text": "Hello number 1."}}}; id == "" || context == "" || asJSON(t, first) != asJSON(t, want) {
		t.Errorf("message %s", asJSON(t, first))
	}
	var second struct{ Message map[string]any }
	if e := c.agent("greeter", "SendMessage", fmt.Sprintf(`{"message":{"role":"ROLE_USER","messageId":"m2","contextId":%q,"parts":[{"text":"x"}]}}`, context), &second); e != nil {
		t.Fatal(e)
	}
	id = second.Message["messageId"]
	if want := map[string]any{"role": "ROLE_AGENT", "messageId": id, "contextId": context, "parts": []any{map[string]any{"text": "Hello number 2."}}}; id == "" || asJSON(t, second.Message) != asJSON(t, want) {
		t.Errorf("message of version 1.0: %s", asJSON(t, second.Message))
	}
}

// STREAM-SUB-001 and 002, STREAM-ORDER-003: subscribers of a task that waits see how it ends.
func TestSubscribersSeeEndOfWaitingTask(t *testing.T) {
	c := serve(t, nil)
	task := c.task("hitl", `{"kind":"data","data":{"topic":"cats"}}`, "")
	var got [2][]string
	var reading sync.WaitGroup
	began := make(chan struct{}, len(got))
	for i := range got {
		reading.Go(func() {
			first := sync.OnceFunc(func() { began <- struct{}{} })
			got[i] = states(t, c, "hitl", "SubscribeToTask", string(task.ID), func(string) { first() })
		})
	}
	for range got {
		<-began
	}
	c.task("hitl", `{"text":"yes"}`, fmt.Sprintf(`,"taskId":%q`, task.ID))
	reading.Wait()
	if n := len(got[0]); n < 2 || !strings.Contains(got[0][n-1], "COMPLETED") || !slices.Equal(got[0], got[1]) {
		t.Errorf("streams %q and %q", got[0], got[1])
	}
}

// A link that a client names is part of the message only if it is public, so that nothing in this network
// fetches it.
func TestPrivateLinksOfClientsAreText(t *testing.T) {
	c := serve(t, nil)
	for link, public := range map[string]bool{"https://example.com/owl.png": true, "http://169.254.169.254/owl.png": false, "http://localhost/owl.png": false, "file:///etc/passwd": false} {
		for version, part := range map[string]string{
			"0.3": fmt.Sprintf(`{"kind":"file","file":{"uri":%q,"mimeType":"image/png","name":"owl"}}`, link),
			"1.0": fmt.Sprintf(`{"url":%q,"mediaType":"image/png","filename":"owl"}`, link),
		} {
			task := c.task("agent", part, "")
			var thread struct {
				Values struct{ Messages []struct{ Content any } }
			}
			c.ok("GET", "/threads/"+task.ContextID, "", &thread)
			content := thread.Values.Messages[0].Content
			if _, isText := content.(string); isText == public || !strings.Contains(asJSON(t, content), link) {
				t.Errorf("%s: %s: content %s", version, link, asJSON(t, content))
			}
		}
	}
}
