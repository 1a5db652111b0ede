package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/ledger"
)

func TestOwnerRulesShareDefaultAssistants(t *testing.T) {
	s := newTestServer(t, &Options{Auth: ruled()})
	id := defaultAssistantID("router").String()
	for _, user := range []string{"alice", "bob"} {
		s.made(user, "GET", "/assistants/router", "", "")
		s.made(user, "POST", "/runs/wait", `{"assistant_id":"router","input":{"target":"left"}}`, "")
		if answer := s.made(user, "POST", "/assistants/search", `{"graph_id":"router"}`, ""); !strings.Contains(answer, id) {
			t.Errorf("%s: default assistant missing in search: %s", user, answer)
		}
		for _, x := range []struct{ method, path, body string }{
			{"PATCH", "/assistants/" + id, `{"name":"mine"}`},
			{"PATCH", "/assistants/router", `{"metadata":{"owner":"` + user + `"}}`},
			{"POST", "/assistants/" + id + "/latest", `{"version":1}`},
			{"DELETE", "/assistants/" + id, ``},
		} {
			if status, answer := s.send(user, x.method, x.path, strings.NewReader(x.body)); status != http.StatusNotFound {
				t.Errorf("%s: %s %s: %d %s", user, x.method, x.path, status, answer)
			}
		}
	}
	private := s.made("alice", "POST", "/assistants", `{"graph_id":"router","name":"private"}`, "assistant_id")
	if answer := s.made("bob", "POST", "/assistants/search", `{"limit":1000}`, ""); strings.Contains(answer, private) {
		t.Errorf("search shows another user's assistant: %s", answer)
	}
	if got := s.made("bob", "POST", "/assistants/count", `{"name":"private"}`, ""); got != "0" {
		t.Errorf("count includes another user's assistant: %s", got)
	}
}

// A client cannot choose the owner of a row, neither when it creates the row nor later.
func TestOwnerRulesOverwriteClaimedOwner(t *testing.T) {
	s := newTestServer(t, &Options{Auth: ruled()})
	const claimed = `"metadata":{"owner":"bob","kept":true}`
	thread := s.made("alice", "POST", "/threads", `{`+claimed+`}`, "thread_id")
	assistant := s.made("alice", "POST", "/assistants", `{"graph_id":"router",`+claimed+`}`, "assistant_id")
	cron := s.made("alice", "POST", "/runs/crons", `{"assistant_id":"router","schedule":"0 0 1 1 *",`+claimed+`}`, "cron_id")
	copied := s.made("alice", "POST", "/threads/"+thread+"/copy", ``, "thread_id")
	const created = "6a1d9e4e-6a8c-4c3c-9a52-1f9a53a4d001" // by a run
	s.made("alice", "POST", "/threads/"+created+"/runs/wait", `{"assistant_id":"router","input":{"target":"left"},"if_not_exists":"create",`+claimed+`}`, "")
	for _, path := range []string{"/threads/" + thread, "/threads/" + copied, "/threads/" + created, "/assistants/" + assistant, "/runs/crons/" + cron} {
		if answer := s.made("alice", "GET", path, "", ""); !strings.Contains(answer, `"owner":"alice"`) || strings.Contains(answer, `"owner":"bob"`) {
			t.Errorf("%s: %s", path, answer)
		}
		if status, answer := s.send("bob", "GET", path, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, answer)
		}
		for _, body := range []string{`{` + claimed + `}`, `{"metadata":{"owner":null}}`} {
			if answer := s.made("alice", "PATCH", path, body, ""); !strings.Contains(answer, `"owner":"alice"`) {
				t.Errorf("PATCH %s %s: %s", path, body, answer)
			}
		}
	}
}

func TestOwnerRulesConfineStore(t *testing.T) {
	s := newTestServer(t, &Options{Auth: ruled()})
	s.made("alice", "PUT", "/store/items", `{"namespace":["notes"],"key":"k","value":{"text":"of alice"}}`, "")
	for _, ns := range []string{"notes", "alice.notes"} { // relative, and as in the response
		if answer := s.made("alice", "GET", "/store/items?key=k&namespace="+ns, "", ""); !strings.Contains(answer, `"namespace":["alice","notes"]`) {
			t.Errorf("%s: %s", ns, answer)
		}
	}
	for _, x := range []struct{ method, path, body string }{
		{"GET", "/store/items?key=k&namespace=notes", ""},
		{"GET", "/store/items?key=k&namespace=alice.notes", ""},
		{"GET", "/store/items/history?key=k&namespace=alice.notes", ""},
		{"POST", "/store/items/search", `{"namespace_prefix":[]}`},
		{"POST", "/store/items/search", `{"namespace_prefix":["alice"],"query":"alice"}`},
		{"POST", "/store/items/search", `{"namespace_prefix":["*"]}`},
		{"POST", "/store/namespaces", `{}`},
		{"POST", "/store/namespaces", `{"prefix":["*"]}`},
		{"POST", "/store/namespaces", `{"suffix":["notes"]}`},
	} {
		if answer := s.made("bob", x.method, x.path, x.body, ""); strings.Contains(answer, "alice") {
			t.Errorf("%s %s: %s", x.path, x.body, answer)
		}
	}
	if status, _ := s.send("*", "POST", "/store/namespaces", strings.NewReader(`{}`)); status != http.StatusForbidden {
		t.Errorf("identity %q: %d", "*", status)
	}
}

func TestOwnerRulesDenyUnknownUsers(t *testing.T) {
	for _, user := range []*User{nil, {}, {Identity: "*"}} {
		for key, rule := range OwnerRules() {
			resource, action, _ := strings.Cut(key, ":")
			d, err := rule(context.Background(), &Access{User: user, Resource: resource, Action: action, Value: map[string]any{}})
			if err != nil || d.Allow {
				t.Errorf("%s, user %v: %+v, %v", key, user, d, err)
			}
		}
	}
}

func TestIfSetMatchesMissingKeys(t *testing.T) {
	for _, tt := range []struct {
		filter   any
		metadata ledger.Object
		want     bool
	}{
		{IfSet{"a"}, ledger.Object{}, true},
		{IfSet{"a"}, ledger.Object{"k": "a"}, true},
		{IfSet{"a"}, ledger.Object{"k": "b"}, false},
		{IfSet{"a"}, ledger.Object{"k": nil}, false},
		{IfSet{Contains{"a"}}, ledger.Object{}, true},
		{IfSet{Contains{"a"}}, ledger.Object{"k": []any{"b", "a"}}, true},
		{IfSet{Contains{"a"}}, ledger.Object{"k": []any{"b"}}, false},
		{"a", ledger.Object{}, false},
	} {
		if got := conditions(map[string]any{"k": tt.filter}).Match(tt.metadata); got != tt.want {
			t.Errorf("%v on %v: %v", tt.filter, tt.metadata, got)
		}
	}
}
