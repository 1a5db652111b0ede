package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle"
	remote "github.com/treadle-go/treadle/client/a2a"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/server"
)

// The names in the comments are those of the requirements of the A2A project's test kit 1.0.

// must lists the mandatory requirements of kit 1.0, branch 1.0-dev.
const must = `
	CORE-SEND-001 CORE-SEND-002 CORE-SEND-003 CORE-STREAM-001 CORE-STREAM-002 CORE-STREAM-003 CORE-GET-001 CORE-GET-002
	CORE-LIST-001 CORE-LIST-002 CORE-LIST-003 CORE-LIST-004 CORE-LIST-005 CORE-CANCEL-001 CORE-CANCEL-002 CORE-CANCEL-003
	CORE-EXECUTION-MODE-001 CORE-EXECUTION-MODE-002 CORE-ERR-001 CORE-ERR-002 CORE-CAP-001 CORE-CAP-002 CORE-CAP-003 CORE-CAP-004
	CORE-MULTI-001a CORE-MULTI-002a CORE-MULTI-003 CORE-MULTI-004 CORE-MULTI-005 CORE-MULTI-006 CORE-HIST-002
	DM-TASK-001 DM-TASK-002 DM-MSG-001 DM-MSG-002 DM-PART-001 DM-ART-001 DM-STATUS-001 DM-SERIAL-001 DM-SERIAL-002 DM-SERIAL-003 DM-SERIAL-004
	STREAM-ORDER-001 STREAM-ORDER-002 STREAM-ORDER-003 STREAM-ORDER-004 STREAM-SUB-001 STREAM-SUB-002 STREAM-SUB-003 STREAM-SUB-004
	PUSH-CREATE-001 PUSH-CREATE-002 PUSH-GET-001 PUSH-GET-002 PUSH-LIST-001 PUSH-DEL-001 PUSH-DEL-002 PUSH-DELIVER-001 PUSH-DELIVER-002 PUSH-DELIVER-003
	CARD-DISC-001 CARD-PROTO-001 CARD-PROTO-002 CARD-STRUCT-001 CARD-EXT-001 CARD-EXT-002 CARD-SIGN-001 CARD-SIGN-002 CARD-SIGN-003 CARD-SIGN-004
	AUTH-TLS-001 AUTH-SERVER-002 AUTH-INTASK-001 AUTH-INTASK-002 AUTH-INTASK-003 AUTH-INTASK-004 AUTH-SCOPE-001 AUTH-SCOPE-002 AUTH-SCOPE-003
	VER-CLIENT-001 VER-CLIENT-002 VER-SERVER-001 VER-SERVER-002 VER-SERVER-003 BIND-EQUIV-001 BIND-EQUIV-002 BIND-EQUIV-003 BIND-EQUIV-004 BIND-FIELD-001
	JSONRPC-FMT-001 JSONRPC-FMT-002 JSONRPC-SVC-001 JSONRPC-SVC-002 JSONRPC-ERR-001 JSONRPC-ERR-002 JSONRPC-ERR-003 JSONRPC-SSE-001 JSONRPC-SSE-002
	GRPC-SVC-001 GRPC-SVC-002 GRPC-SVC-003 GRPC-META-001 GRPC-ERR-001 GRPC-ERR-002 GRPC-ERR-003
	HTTP_JSON-URL-001 HTTP_JSON-URL-002 HTTP_JSON-SVC-001 HTTP_JSON-SVC-002 HTTP_JSON-QP-001 HTTP_JSON-ERR-001 HTTP_JSON-ERR-002 HTTP_JSON-STATUS-001 HTTP_JSON-SSE-001`

// The page names a test for every mandatory requirement, or the reason why the requirement does not
// apply.
func TestKitTableIsComplete(t *testing.T) {
	page, err := os.ReadFile("../docs/a2a.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, pattern := range []string{"*_test.go", "../client/a2a/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(raw)
		}
	}
	tests := regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	for _, m := range tests.FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(code.String(), "func "+m[1]+"(") {
			t.Errorf("unknown test %s", m[1])
		}
	}
	wanted := strings.Fields(must)
	if len(wanted) != 114 {
		t.Errorf("%d mandatory requirements, want 114", len(wanted))
	}
	id := regexp.MustCompile(`\b[A-Z_]+(-[A-Z]+)+-\d{3}a?\b`)
	rows := map[string]int{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !id.MatchString(cells[1]) {
			continue
		}
		if !tests.MatchString(cells[2]) && !strings.Contains(cells[2], "does not apply") {
			t.Errorf("neither a test nor a reason: %s", line)
		}
		for _, name := range id.FindAllString(cells[1], -1) {
			rows[name]++
		}
	}
	for _, name := range wanted {
		if rows[name] != 1 {
			t.Errorf("%s is in %d rows, want 1", name, rows[name])
		}
	}
}

// taskSchema describes a task of version 1.0, with the fields that the server uses.
const taskSchema = `{
	"$ref": "#/$defs/task",
	"$defs": {
		"id": {"type": "string", "minLength": 1},
		"part": {
			"type": "object", "additionalProperties": false,
			"properties": {"text": {"type": "string"}, "raw": {"type": "string"}, "url": {"type": "string"}, "data": true, "mediaType": {"type": "string"}, "filename": {"type": "string"}},
			"oneOf": [{"required": ["text"]}, {"required": ["raw"]}, {"required": ["url"]}, {"required": ["data"]}]
		},
		"parts": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/part"}},
		"message": {
			"type": "object", "additionalProperties": false, "required": ["messageId", "role", "parts"],
			"properties": {"messageId": {"$ref": "#/$defs/id"}, "contextId": {"$ref": "#/$defs/id"}, "taskId": {"$ref": "#/$defs/id"},
				"role": {"enum": ["ROLE_USER", "ROLE_AGENT"]}, "parts": {"$ref": "#/$defs/parts"}}
		},
		"artifact": {
			"type": "object", "additionalProperties": false, "required": ["artifactId", "parts"],
			"properties": {"artifactId": {"$ref": "#/$defs/id"}, "name": {"type": "string"}, "description": {"type": "string"}, "parts": {"$ref": "#/$defs/parts"}}
		},
		"status": {
			"type": "object", "additionalProperties": false, "required": ["state"],
			"properties": {"message": {"$ref": "#/$defs/message"}, "timestamp": {"type": "string", "pattern": "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?Z$"},
				"state": {"enum": ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_INPUT_REQUIRED"]}}
		},
		"task": {
			"type": "object", "additionalProperties": false, "required": ["id", "contextId", "status"],
			"properties": {"id": {"$ref": "#/$defs/id"}, "contextId": {"$ref": "#/$defs/id"}, "status": {"$ref": "#/$defs/status"},
				"artifacts": {"type": "array", "items": {"$ref": "#/$defs/artifact"}}, "history": {"type": "array", "items": {"$ref": "#/$defs/message"}}}
		}
	}
}`

// DM-TASK-001 and 002, DM-MSG-001 and 002, DM-PART-001, DM-ART-001, DM-STATUS-001, DM-SERIAL-001 to 003, and
// JSONRPC-FMT-002: tasks in several states, and their messages, parts, and artifacts.
func TestObjectsHaveFieldsOfV1(t *testing.T) {
	var schema jsonschema.Schema
	if err := json.Unmarshal([]byte(taskSchema), &schema); err != nil {
		t.Fatal(err)
	}
	tasks, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := serve(t, nil)
	for assistant, part := range map[string]string{"agent": `{"text":"x"}`, "hitl": `{"data":{"topic":"cats"}}`, "failing": `{"data":{"message":"m"}}`} {
		_, head, raw := c.do("POST", "/a2a/"+assistant, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"role":"ROLE_USER","messageId":"m","parts":[%s]}}}`, part))
		var answer struct{ Result struct{ Task map[string]any } }
		if err := json.Unmarshal(raw, &answer); err != nil || !strings.HasPrefix(head.Get("Content-Type"), "application/json") {
			t.Fatalf("%v: %s: %v", err, raw, head)
		}
		task := answer.Result.Task
		if err := tasks.Validate(task); err != nil {
			t.Errorf("%s: task %s: %v", assistant, asJSON(t, task), err)
		}
		if done := assistant == "agent"; done != (task["artifacts"] != nil) || done == (task["status"].(map[string]any)["message"] != nil) {
			t.Errorf("%s: task %s", assistant, asJSON(t, task))
		}
		var got map[string]any
		if e := c.agent(assistant, "GetTask", fmt.Sprintf(`{"id":%q}`, task["id"]), &got); e != nil {
			t.Errorf("GetTask: %+v", e)
		}
		if err := tasks.Validate(got); err != nil {
			t.Errorf("%s: stored task %s: %v", assistant, asJSON(t, got), err)
		}
	}
}

// CORE-STREAM-001 to 003, STREAM-ORDER-001 and 004: a stream starts with the task and ends with its last status.
// One that breaks off leaves the others alone.
func TestStreamsOfTaskAreIndependent(t *testing.T) {
	h := newHelper()
	c := startGraphs(t, newMemory(), nil, h.graph(t))
	var sent struct{ Task struct{ ID string } }
	if e := c.agent("helper", "SendMessage", `{"message":{"role":"ROLE_USER","messageId":"m","parts":[{"text":"wait"}]},"configuration":{"returnImmediately":true}}`, &sent); e != nil {
		t.Fatal(e)
	}
	<-h.waiting
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/a2a/helper", strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":%q}}`, sent.Task.ID)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	lines.Scan()
	leave()
	for lines.Scan() {
	}
	first := sync.OnceFunc(func() { close(h.release) })
	got := states(t, c, "helper", "SubscribeToTask", sent.Task.ID, func(string) { first() })
	if n := len(got); n < 2 || got[0] != " TASK_STATE_WORKING" || got[n-1] != " TASK_STATE_COMPLETED" || slices.Contains(got[:n-1], " TASK_STATE_COMPLETED") {
		t.Errorf("the stream is %q", got)
	}
	_, _, raw := c.do("POST", "/a2a/helper", `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"message":{"role":"ROLE_USER","messageId":"m","parts":[{"text":"hi"}]}}}`)
	events := frames(raw)
	if n := len(events); n < 2 || !strings.Contains(events[0].data, `"task":{`) || !strings.Contains(events[n-1].data, "TASK_STATE_COMPLETED") || strings.Count(string(raw), `"task":{`) != 1 || strings.Contains(string(raw), `"result":{"message"`) {
		t.Errorf("the stream of a message is %s", raw)
	}
}

// CORE-MULTI-001a, 003, 005, and 006.
func TestTaskNamesItsContext(t *testing.T) {
	c := serve(t, nil)
	task := c.task("hitl", catsTopic, "")
	other := c.task("hitl", catsTopic, "")
	if task.ContextID == "" || task.ContextID == other.ContextID || task.ID == other.ID {
		t.Errorf("contexts %q and %q, tasks %q and %q", task.ContextID, other.ContextID, task.ID, other.ID)
	}
	send := func(context string, into any) *a2aError {
		return c.agent("hitl", "SendMessage", fmt.Sprintf(`{"message":{"role":"ROLE_USER","messageId":"m2","taskId":%q,%s"parts":[{"text":"yes"}]}}`, task.ID, context), into)
	}
	if e := send(fmt.Sprintf(`"contextId":%q,`, other.ContextID), nil); e == nil || e.Code != -32602 {
		t.Errorf("the context of another task: %+v", e)
	}
	var got struct {
		Task struct{ ID, ContextID string }
	}
	if e := send("", &got); e != nil || got.Task.ContextID != task.ContextID || got.Task.ID != string(task.ID) {
		t.Errorf("without the context: %+v, %+v", e, got)
	}
}

// AUTH-SERVER-002.
func TestEveryRequestNeedsCredentials(t *testing.T) {
	c := serve(t, &server.Options{Auth: annAndBen()})
	for _, method := range []string{"message/send", "message/stream", "tasks/get", "tasks/cancel", "tasks/resubscribe", "agent/getAuthenticatedExtendedCard", "tasks/pushNotificationConfig/set",
		"SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask", "GetExtendedAgentCard",
		"CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig", "unknown"} {
		for _, key := range []string{"", "wrong"} {
			if status, _, raw := as(c, key).do("POST", "/a2a/agent", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{}}`, method)); status != http.StatusUnauthorized {
				t.Errorf("%s with the key %q: %d %s", method, key, status, raw)
			}
		}
	}
	for _, path := range []string{"/a2a/agent", "/a2a/agent/.well-known/agent-card.json", "/a2a/agent/v1/.well-known/agent-card.json", "/.well-known/agent-card.json"} {
		if status, _, raw := c.do("GET", path, ""); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", path, status, raw)
		}
	}
}

// VER-CLIENT-002, VER-SERVER-001 and 003: the header selects the version of a response, whatever its patch number.
func TestVersionSelectsShape(t *testing.T) {
	c := serve(t, nil)
	task := c.task("agent", text("hi"), "")
	for version, want := range map[string]string{"": `"kind":"task"`, "0.3": `"kind":"task"`, "0.3.7": `"kind":"task"`, "1.0": `TASK_STATE_COMPLETED`, "1.0.9": `TASK_STATE_COMPLETED`} {
		for _, method := range []string{"tasks/get", "GetTask"} {
			if version == "" && method == "GetTask" {
				continue // only version 1.0 has this name
			}
			c.head.Set("A2A-Version", version)
			_, _, raw := c.do("POST", "/a2a/agent", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"id":%q}}`, method, task.ID))
			if !strings.Contains(string(raw), want) || strings.Contains(string(raw), `"kind"`) != strings.Contains(want, "kind") {
				t.Errorf("%s in version %q: %s", method, version, raw)
			}
		}
	}
}

// VER-CLIENT-001.
func TestRemoteAgentIsToldTheVersion(t *testing.T) {
	srv, err := server.New(newMemory(), []treadle.AnyGraph{newHelper().graph(t)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := make(chan string, 100)
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			versions <- r.Header.Get("A2A-Version")
		}
		srv.ServeHTTP(w, r)
	}))
	defer func() {
		_ = srv.Drain(context.Background())
		hs.Close()
	}()
	agent, err := remote.Connect(t.Context(), hs.URL+"/a2a/helper", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Send(t.Context(), "", llm.User("hi")); err != nil {
		t.Fatal(err)
	}
	close(versions)
	n := 0
	for v := range versions {
		if n++; v != "1.0" {
			t.Errorf("request %d has version %q", n, v)
		}
	}
	if n == 0 {
		t.Error("no requests")
	}
}
