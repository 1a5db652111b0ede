package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/internal/test/system/servertest"
	"github.com/treadle-go/treadle/server"
)

// caller sends requests with a token.
type caller func(token, method, path, body string) (status int, answer string)

func serve(t *testing.T) caller {
	t.Helper()
	url := servertest.Start(t, &server.Options{Auth: auth()}, treadle.Must(platform.All()))
	return func(token, method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(raw)
	}
}

func field(t *testing.T, answer, name string) string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(answer), &object); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	s, _ := object[name].(string)
	return s
}

func TestExampleRules(t *testing.T) {
	call := serve(t)
	want := func(status int, has, token, method, path, body string) string {
		t.Helper()
		got, answer := call(token, method, path, body)
		if got != status || !strings.Contains(answer, has) {
			t.Errorf("%s %s %s %s: %d %s, not %d with %q", token, method, path, body, got, answer, status, has)
		}
		return answer
	}
	for _, token := range []string{"", "eve-token", "alice"} {
		want(401, `{"detail":"invalid token"}`, token, "POST", "/threads", "{}")
	}
	for _, path := range []string{"/ok", "/info", "/metrics", "/docs", "/openapi.json"} {
		want(200, "", "", "GET", path, "")
	}
	want(403, "detail", "viewer-token", "POST", "/threads", "{}")
	made := want(200, `"owner":"alice"`, "alice-token", "POST", "/threads", `{"metadata":{"owner":"bob"}}`)
	thread := "/threads/" + field(t, made, "thread_id")
	want(418, `{"detail":"deleting is not allowed here"}`, "alice-token", "DELETE", thread, "")
	want(200, "", "alice-token", "GET", thread, "")
	want(404, "", "bob-token", "GET", thread, "")
	want(409, "", "bob-token", "POST", "/threads", `{"thread_id":"`+strings.TrimPrefix(thread, "/threads/")+`","if_exists":"do_nothing"}`)
	want(409, "", "bob-token", "POST", thread+"/copy", "")
	want(404, "", "bob-token", "POST", thread+"/runs/wait", `{"assistant_id":"router","input":{}}`)
	want(200, "[]", "bob-token", "POST", "/threads/search", "{}")
	want(200, "route", "alice-token", "POST", thread+"/runs/wait", `{"assistant_id":"router","input":{}}`)
	want(200, "route", "viewer-token", "POST", "/runs/wait", `{"assistant_id":"router","input":{}}`)
	want(403, "", "viewer-token", "POST", "/runs/wait", `{"assistant_id":"router","input":{},"on_completion":"keep"}`)

	mine := want(200, `"owner":"alice"`, "alice-token", "POST", "/assistants", `{"graph_id":"router"}`)
	assistant := "/assistants/" + field(t, mine, "assistant_id")
	want(200, "", "bob-token", "GET", assistant, "")
	want(404, "", "bob-token", "PATCH", assistant, `{"name":"x"}`)
	want(404, "", "bob-token", "DELETE", assistant, "")
	want(200, "", "alice-token", "PATCH", assistant, `{"name":"x"}`)
	want(200, "", "alice-token", "POST", thread+"/runs/wait", `{"assistant_id":"`+field(t, mine, "assistant_id")+`","input":{}}`)
	want(418, "", "alice-token", "DELETE", assistant+"?delete_threads=true", "")
	want(200, "", "alice-token", "GET", thread, "")

	cron := want(200, `"owner":"alice"`, "alice-token", "POST", "/runs/crons", `{"assistant_id":"router","schedule":"0 0 1 1 *","input":{}}`)
	id := "/runs/crons/" + field(t, cron, "cron_id")
	want(404, "", "bob-token", "PATCH", id, `{"enabled":false}`)
	want(200, `"owner":"alice"`, "alice-token", "PATCH", id, `{"metadata":{"note":"n","owner":"bob"}}`)
	want(200, "", "alice-token", "GET", id, "")

	want(204, "", "alice-token", "PUT", "/store/items", `{"namespace":["notes"],"key":"k","value":{"a":1}}`)
	want(200, `"namespace":["alice","notes"]`, "alice-token", "GET", "/store/items?namespace=notes&key=k", "")
	want(200, `"namespace":["alice","notes"]`, "alice-token", "GET", "/store/items?namespace=alice.notes&key=k", "")
	want(200, "null", "bob-token", "GET", "/store/items?namespace=alice.notes&key=k", "")
	want(200, `{"items":[]}`, "bob-token", "POST", "/store/items/search", `{"namespace_prefix":["alice"]}`)
	want(200, `{"namespaces":[]}`, "bob-token", "POST", "/store/namespaces", `{}`)
	want(200, `"alice"`, "alice-token", "POST", "/store/namespaces", `{}`)

	seen := want(200, "", "alice-token", "POST", "/runs/wait", `{"assistant_id":"configurable","input":{}}`)
	if !strings.Contains(seen, `"seen"`) {
		t.Errorf("values %s", seen)
	}
}
