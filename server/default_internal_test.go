package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestDeletedDefaultAssistantIsRecreated(t *testing.T) {
	s, _ := serveGraphs(t, nil, whoami(t))
	id := defaultAssistantID("whoami").String()
	thread := s.made("", "POST", "/threads", `{}`, "thread_id")
	at := "/threads/" + thread
	s.made("", "POST", at+"/runs/wait", `{"assistant_id":"whoami","input":{"ask":true}}`, "")
	s.made("", "PATCH", "/assistants/whoami", `{"name":"changed"}`, "")
	remove := func() {
		t.Helper()
		s.made("", "DELETE", "/assistants/whoami", "", "")
		if status, answer := s.send("", "GET", "/assistants/"+id, nil); status != http.StatusNotFound {
			t.Errorf("after its deletion: %d %s", status, answer)
		}
	}
	for _, x := range []struct{ method, path, body, want string }{
		{"POST", "/runs/wait", `{"assistant_id":"whoami","input":{}}`, "seen"},
		{"POST", at + "/runs/wait", `{"assistant_id":"whoami","command":{"resume":"yes"}}`, "seen"},
		{"POST", "/runs/batch", `[{"assistant_id":"whoami","input":{}}]`, id},
		{"POST", "/runs/crons", `{"assistant_id":"whoami","schedule":"0 0 1 1 *"}`, id},
		{"GET", "/assistants/whoami", ``, `"name":"whoami"`},
		{"GET", "/assistants/whoami/schemas", ``, "input_schema"},
		{"POST", "/a2a/whoami", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":"user","parts":[{"data":{}}]}}}`, "completed"},
		{"POST", "/agui/whoami", `{"runId":"1"}`, "RUN_FINISHED"},
	} {
		remove()
		if answer := s.made("", x.method, x.path, x.body, ""); !strings.Contains(answer, x.want) {
			t.Errorf("%s: %s", x.path, answer)
		}
		if a := s.made("", "GET", "/assistants/"+id, "", "name"); a != "whoami" {
			t.Errorf("%s: the assistant is %q", x.path, a)
		}
	}
	// An interrupt of a run of the deleted assistant can be answered by protocol v2.
	s.made("", "POST", at+"/runs/wait", `{"assistant_id":"whoami","input":{"ask":true}}`, "")
	remove()
	var state struct {
		Interrupts []struct{ ID string } `json:"interrupts"`
	}
	if err := json.Unmarshal([]byte(s.made("", "GET", at+"/state", "", "")), &state); err != nil || len(state.Interrupts) != 1 {
		t.Fatalf("interrupts %v: %v", state, err)
	}
	if answer := s.made("", "POST", at+"/commands", `{"id":1,"method":"input.respond","params":{"interrupt_id":"`+state.Interrupts[0].ID+`","response":"yes"}}`, ""); !strings.Contains(answer, "success") {
		t.Error(answer)
	}
}

// A default assistant that a filter hides is not created again, nor shown.
func TestHiddenDefaultAssistantStaysHidden(t *testing.T) {
	s, _ := serveGraphs(t, &Options{Auth: owners()}, whoami(t))
	if status, answer := s.send("bob", "POST", "/runs/wait", strings.NewReader(`{"assistant_id":"whoami","input":{}}`)); status != http.StatusNotFound {
		t.Errorf("%d %s", status, answer)
	}
	a, err := s.ledger.Assistant(t.Context(), defaultAssistantID("whoami"), nil)
	if err != nil || a.Version != 1 || a.Metadata["created_by"] != "system" {
		t.Errorf("%+v, %v", a, err)
	}
}

// A handler that returns no filter, but changes the metadata of a search, limits the search.
func TestSearchesHonorChangedMetadata(t *testing.T) {
	auth := owners()
	auth.On["*"] = func(_ context.Context, a *Access) (Decision, error) {
		if m, ok := a.Value["metadata"].(map[string]any); ok {
			m["owner"] = a.User.Identity // panics if a request without metadata has a nil map
		}
		return Allow(nil), nil
	}
	s, _ := serveGraphs(t, &Options{Auth: auth}, whoami(t))
	for _, user := range []string{"alice", "bob", "bob"} {
		a := s.made(user, "POST", "/assistants", `{"graph_id":"whoami","name":"secret of `+user+`"}`, "assistant_id")
		s.made(user, "PATCH", "/assistants/"+a, `{"description":"x"}`, "")
		s.made(user, "POST", "/threads", `{"metadata":{"name":"secret of `+user+`"}}`, "thread_id")
		c := s.made(user, "POST", "/runs/crons", `{"assistant_id":"`+a+`","schedule":"0 0 1 1 *","metadata":{"name":"secret of `+user+`"}}`, "cron_id")
		s.made(user, "PATCH", "/runs/crons/"+c, `{"enabled":false}`, "")
	}
	for _, resource := range []string{"/assistants", "/threads", "/runs/crons"} {
		for _, body := range []string{``, `{}`, `{"metadata":{}}`, `{"metadata":null}`, `{"metadata":{"owner":"alice"}}`} {
			answer := s.made("bob", "POST", resource+"/search", body, "")
			if strings.Contains(answer, "of alice") || strings.Count(answer, `"owner":"bob"`) < 2 {
				t.Errorf("%s %s: %s", resource, body, answer)
			}
			if n := s.made("bob", "POST", resource+"/count", body, ""); n != "2" {
				t.Errorf("%s %s: count %s", resource, body, n)
			}
		}
	}
	if answer := s.made("bob", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, ""); strings.Contains(answer, "of_alice") || !strings.Contains(answer, "of_bob") {
		t.Errorf("tools: %s", answer)
	}
	if answer := s.made("bob", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"secret_of_alice"}}`, ""); !strings.Contains(answer, "-32602") {
		t.Errorf("a tool of alice: %s", answer)
	}
}

// delete_threads deletes only threads that the caller finds.
func TestDeleteThreadsHonorsChangedMetadata(t *testing.T) {
	auth := owners()
	auth.On["*"] = func(_ context.Context, a *Access) (Decision, error) {
		if m, ok := a.Value["metadata"].(map[string]any); ok {
			m["owner"] = a.User.Identity
		}
		return Allow(nil), nil
	}
	s, _ := serveGraphs(t, &Options{Auth: auth}, whoami(t))
	a := s.made("bob", "POST", "/assistants", `{"graph_id":"whoami"}`, "assistant_id")
	threads := map[string]string{}
	for _, user := range []string{"alice", "bob"} {
		threads[user] = s.made(user, "POST", "/threads", `{}`, "thread_id")
		s.made(user, "POST", "/threads/"+threads[user]+"/runs/wait", `{"assistant_id":"`+a+`","input":{}}`, "")
	}
	s.made("bob", "DELETE", "/assistants/"+a+"?delete_threads=true", "", "")
	for user, want := range map[string]int{"alice": http.StatusOK, "bob": http.StatusNotFound} {
		if status, answer := s.send(user, "GET", "/threads/"+threads[user], nil); status != want {
			t.Errorf("thread of %s: %d %s", user, status, answer)
		}
	}
}
