package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/store"
)

// testDB is a database that ends with the process.
type testDB struct {
	*checkpoint.Memory
	rows ledger.Backend
}

func (m *testDB) Ledger() ledger.Backend { return m.rows }

func (*testDB) Store(o *store.Options) (*store.Store, error) { return store.NewMemory(o) }

// testServer is a server of the platform's graphs that is called without a network.
type testServer struct {
	*Server
	t testing.TB
}

func newTestServer(t testing.TB, o *Options) *testServer {
	t.Helper()
	graphs, err := platform.All()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(&testDB{checkpoint.NewMemory(), ledger.NewMemory()}, graphs, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = s.Drain(ctx)
	})
	return &testServer{s, t}
}

// send sends a request of a user.
func (s *testServer) send(user, method, path string, body io.Reader) (int, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, path, body)
	if user != "" {
		r.Header.Set("X-User", user)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// made sends a request that must succeed and returns a field of the answer.
func (s *testServer) made(user, method, path, body, field string) string {
	s.t.Helper()
	status, answer := s.send(user, method, path, strings.NewReader(body))
	if status >= 300 {
		s.t.Fatalf("%s %s %s: %d %s", method, path, body, status, answer)
	}
	if field == "" {
		return answer
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(answer), &object); err != nil {
		s.t.Fatalf("%s %s: %v in %s", method, path, err, answer)
	}
	v, _ := object[field].(string)
	return v
}

// owners lets every user read and change only the user's own resources.
func owners() *Auth {
	return &Auth{
		Authenticate: func(r *http.Request) (*User, error) {
			if name := r.Header.Get("X-User"); name != "" {
				return &User{Identity: name}, nil
			}
			return nil, errors.New("who are you?")
		},
		On: Rules{
			"store": func(_ context.Context, a *Access) (Decision, error) {
				ns, _ := a.Value["namespace"].([]string)
				a.Value["namespace"] = append([]string{a.User.Identity}, ns...)
				return Allow(nil), nil
			},
			"*": func(_ context.Context, a *Access) (Decision, error) {
				m, _ := a.Value["metadata"].(map[string]any)
				if m == nil {
					m = map[string]any{}
					a.Value["metadata"] = m
				}
				m["owner"] = a.User.Identity
				return Allow(map[string]any{"owner": a.User.Identity}), nil
			},
		},
	}
}

// ruled returns an Auth with OwnerRules.
func ruled() *Auth { return &Auth{Authenticate: owners().Authenticate, On: OwnerRules()} }

// property contains a user's resources: the values of path parameters.
type property map[string]string

// newProperty creates one resource of every kind for a user.
func newProperty(s *testServer, user string) property {
	p := property{"namespace": "child"}
	p["assistant_id"] = s.made(user, "POST", "/assistants", `{"graph_id":"hitl","name":"secret of `+user+`"}`, "assistant_id")
	p["thread_id"] = s.made(user, "POST", "/threads", `{}`, "thread_id")
	thread := "/threads/" + p["thread_id"]
	s.made(user, "POST", thread+"/runs/wait", `{"assistant_id":"`+p["assistant_id"]+`","input":{"topic":"secret of `+user+`"}}`, "")
	var list []map[string]any
	if err := json.Unmarshal([]byte(s.made(user, "GET", thread+"/runs", "", "")), &list); err != nil || len(list) != 1 {
		s.t.Fatalf("runs %v: %v", list, err)
	}
	p["run_id"], _ = list[0]["run_id"].(string)
	p["checkpoint_id"] = s.made(user, "GET", thread+"/state", "", "checkpoint_id")
	p["cron_id"] = s.made(user, "POST", "/runs/crons", `{"assistant_id":"`+p["assistant_id"]+`","schedule":"0 0 1 1 *","input":{}}`, "cron_id")
	// A run without a thread, which is still running.
	p["loose_run_id"] = s.made(user, "POST", "/runs", `{"assistant_id":"`+s.made(user, "POST", "/assistants", `{"graph_id":"slow"}`, "assistant_id")+`","input":{"count":100000,"delay_ms":100},"config":{"recursion_limit":1000000}}`, "run_id")
	s.made(user, "PUT", "/store/items", `{"namespace":["notes"],"key":"k","value":{"text":"secret of `+user+`"}}`, "")
	return p
}

// at puts a property's values into a path or a body.
func (p property) at(text string) string {
	for name, v := range p {
		text = strings.NewReplacer("{"+name+"}", v, "{"+name+"...}", v).Replace(text)
	}
	return text
}

// shown returns everything that Alice can read of her resources.
func (p property) shown(s *testServer) string {
	var all []string
	for _, path := range []string{"/assistants/{assistant_id}", "/threads/{thread_id}", "/threads/{thread_id}/state", "/threads/{thread_id}/runs",
		"/runs/crons/{cron_id}", "/store/items?namespace=notes&key=k"} {
		all = append(all, s.made("alice", "GET", p.at(path), "", ""))
	}
	return strings.Join(all, "\n")
}

// intrusion is an attempt to use another user's resources.
type intrusion struct {
	body   string
	status []int // of a refusal; nil means 404
	// open means that the request may succeed, because it concerns the caller's own
	// resources: the response must not contain the other user's resources.
	open  bool
	exact string // the answer, if it is known
}

const runOf = `{"assistant_id":"{assistant_id}","input":{"topic":"x"}}`

// intrusions are by method and path, as in the table of routes.
var intrusions = map[string]intrusion{
	"POST /assistants":                                        {body: `{"graph_id":"hitl","assistant_id":"{assistant_id}","if_exists":"do_nothing"}`, status: []int{409}},
	"POST /assistants/search":                                 {body: `{"limit":1000}`, open: true},
	"POST /assistants/count":                                  {body: `{"name":"secret of alice"}`, open: true, exact: "0"},
	"GET /assistants/{assistant_id}":                          {},
	"PATCH /assistants/{assistant_id}":                        {body: `{"name":"x","metadata":{"owner":"bob"}}`},
	"DELETE /assistants/{assistant_id}":                       {},
	"POST /assistants/{assistant_id}/versions":                {},
	"POST /assistants/{assistant_id}/latest":                  {body: `{"version":1}`},
	"GET /assistants/{assistant_id}/graph":                    {},
	"GET /assistants/{assistant_id}/schemas":                  {},
	"GET /assistants/{assistant_id}/subgraphs":                {},
	"GET /assistants/{assistant_id}/subgraphs/{namespace...}": {},

	"POST /threads":                                  {body: `{"thread_id":"{thread_id}","if_exists":"do_nothing"}`, status: []int{409}},
	"POST /threads/search":                           {body: `{"ids":["{thread_id}"],"metadata":{"owner":"alice"}}`, open: true},
	"POST /threads/count":                            {body: `{"values":{"topic":"secret of alice"}}`, open: true, exact: "0"},
	"POST /threads/prune":                            {body: `{"thread_ids":["{thread_id}"]}`, open: true, exact: `{"pruned_count":0}`},
	"GET /threads/{thread_id}":                       {},
	"PATCH /threads/{thread_id}":                     {body: `{"metadata":{"owner":"bob"}}`},
	"DELETE /threads/{thread_id}":                    {},
	"POST /threads/{thread_id}/copy":                 {status: []int{409}},
	"GET /threads/{thread_id}/storage":               {},
	"POST /threads/{thread_id}/signals/{name}":       {body: `{"value":1}`},
	"GET /threads/{thread_id}/state":                 {},
	"POST /threads/{thread_id}/state":                {body: `{"values":{"topic":"x"}}`},
	"GET /threads/{thread_id}/state/{checkpoint_id}": {},
	"POST /threads/{thread_id}/state/checkpoint":     {body: `{"checkpoint":{"checkpoint_id":"{checkpoint_id}"}}`},
	"GET /threads/{thread_id}/history":               {},
	"GET /threads/{thread_id}/overview":              {},
	"POST /threads/{thread_id}/subgraphs":            {body: `{"checkpoint_ns":["a:1"]}`},
	"POST /threads/{thread_id}/history":              {},

	"GET /threads/{thread_id}/stream":                        {},
	"POST /threads/{thread_id}/commands":                     {body: `{"id":1,"method":"run.start","params":{"assistant_id":"{own_assistant}","input":{}}}`, open: true, exact: `{"type":"error","id":1,"error":"unknown_error","message":"404: Thread or assistant not found."}`},
	"POST /threads/{thread_id}/stream/events":                {body: `{"channels":["values"]}`},
	"GET /threads/{thread_id}/stream/events":                 {},
	"POST /threads/{thread_id}/runs":                         {body: `{"assistant_id":"{own_assistant}","input":{},"if_not_exists":"create"}`, status: []int{404, 409}},
	"POST /threads/{thread_id}/runs/stream":                  {body: `{"assistant_id":"{own_assistant}","input":{}}`},
	"POST /threads/{thread_id}/runs/wait":                    {body: `{"assistant_id":"{own_assistant}","input":{}}`},
	"GET /threads/{thread_id}/runs":                          {},
	"GET /threads/{thread_id}/runs/{run_id}":                 {},
	"DELETE /threads/{thread_id}/runs/{run_id}":              {},
	"POST /threads/{thread_id}/runs/{run_id}/cancel":         {},
	"GET /threads/{thread_id}/runs/{run_id}/join":            {},
	"GET /threads/{thread_id}/runs/{run_id}/stream":          {},
	"GET /threads/{thread_id}/runs/{run_id}/spans":           {},
	"GET /threads/{thread_id}/runs/{run_id}/spans/{span_id}": {},

	"POST /search/threads": {body: `{"text":"secret alice","metadata":{"owner":"alice"}}`, open: true},
	"POST /search/runs":    {body: `{"thread_id":"{thread_id}"}`, open: true, exact: `{"runs":[],"next_cursor":null}`},

	"POST /runs":                {body: runOf},
	"POST /runs/stream":         {body: runOf},
	"POST /runs/wait":           {body: runOf},
	"POST /runs/batch":          {body: "[" + runOf + "]"},
	"POST /runs/cancel":         {body: `{"thread_id":"{thread_id}","run_ids":["{run_id}"]}`},
	"GET /runs/{run_id}/stream": {},
	"GET /runs/{run_id}/join":   {},

	"POST /runs/crons":                     {body: `{"assistant_id":"{assistant_id}","schedule":"* * * * *"}`},
	"POST /threads/{thread_id}/runs/crons": {body: `{"assistant_id":"{own_assistant}","schedule":"* * * * *"}`},
	"POST /runs/crons/search":              {body: `{"metadata":{"owner":"alice"}}`, open: true},
	"POST /runs/crons/count":               {body: `{}`, open: true, exact: "1"},
	"GET /runs/crons/{cron_id}":            {},
	"PATCH /runs/crons/{cron_id}":          {body: `{"enabled":false,"metadata":{"owner":"bob"}}`},
	"DELETE /runs/crons/{cron_id}":         {},

	"PUT /store/items":         {body: `{"namespace":["alice","notes"],"key":"k","value":{"text":"of bob"}}`, open: true},
	"GET /store/items":         {open: true},
	"GET /store/items/history": {open: true},
	"DELETE /store/items":      {body: `{"namespace":["alice","notes"],"key":"k"}`, open: true},
	"POST /store/items/search": {body: `{"namespace_prefix":["alice"],"query":"secret"}`, open: true},
	"POST /store/namespaces":   {body: `{"prefix":["*"]}`, open: true},

	"POST /mcp":                        {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"{assistant_id}","arguments":{}}}`, open: true},
	"GET /mcp":                         {status: []int{405}},
	"DELETE /mcp":                      {},
	"GET /.well-known/agent-card.json": {},
	"GET /a2a/{assistant_id}":          {},
	"GET /a2a/{assistant_id}/.well-known/agent-card.json":    {},
	"POST /a2a/{assistant_id}/v1":                            {body: `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"{thread_id}:{run_id}"}}`},
	"GET /a2a/{assistant_id}/v1/.well-known/agent-card.json": {},
	"POST /a2a/{assistant_id}":                               {body: `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"{thread_id}:{run_id}"}}`},

	"POST /agui/{assistant_id}":             {body: `{"threadId":"{thread_id}","state":{"topic":"x"}}`},
	"GET /agui/{assistant_id}/capabilities": {},
}

// openRoutes lists the routes that every caller may use.
var openRoutes = []string{"GET /ok", "GET /info", "GET /openapi.json", "GET /docs", "GET /metrics"}

// queries are added to the paths of some routes.
var queries = map[string]string{
	"GET /store/items":                  "?namespace=alice.notes&key=k",
	"GET /store/items/history":          "?namespace=alice.notes&key=k",
	"GET /.well-known/agent-card.json":  "?assistant_id={assistant_id}",
	"DELETE /assistants/{assistant_id}": "?delete_threads=true",
}

func TestRoutesHideDataOfOtherUsers(t *testing.T) {
	for name, auth := range map[string]*Auth{"handlers": owners(), "OwnerRules": ruled()} {
		t.Run(name, func(t *testing.T) { testRoutesHideData(t, auth) })
	}
}

func testRoutesHideData(t *testing.T, auth *Auth) {
	s := newTestServer(t, &Options{Auth: auth, Webhooks: &Webhooks{AllowPrivate: true}})
	alice := newProperty(s, "alice")
	alice["own_assistant"] = newProperty(s, "bob")["assistant_id"] // bob's own, to get at alice's thread with
	before := alice.shown(s)
	for _, rt := range s.table() {
		key := rt.method + " " + rt.path
		if slices.Contains(openRoutes, key) {
			continue
		}
		if rt.resource == "" {
			t.Errorf("%s is open to everyone", key)
		}
		x, ok := intrusions[key]
		if !ok {
			t.Errorf("%s has no test of access: add it to intrusions, with what another user could try", key)
			continue
		}
		p := alice
		if strings.HasPrefix(rt.path, "/runs/{run_id}") {
			p = property{"run_id": alice["loose_run_id"]}
		}
		path := p.at(rt.path + queries[key])
		if status, answer := s.send("", rt.method, path, strings.NewReader(p.at(x.body))); status != http.StatusUnauthorized {
			t.Errorf("%s without a user: %d %s", key, status, answer)
		}
		status, answer := s.send("bob", rt.method, path, strings.NewReader(p.at(x.body)))
		want := x.status
		if want == nil {
			want = []int{http.StatusNotFound}
		}
		if x.open {
			want = []int{http.StatusOK, http.StatusNoContent}
		}
		if !slices.Contains(want, status) || strings.Contains(answer, "of alice") {
			t.Errorf("%s: %d %s", key, status, answer)
		}
		if x.exact != "" && answer != x.exact {
			t.Errorf("%s: %s, not %s", key, answer, x.exact)
		}
		if after := alice.shown(s); after != before {
			t.Fatalf("%s changed what alice has:\n%s\n%s", key, before, after)
		}
	}
	for key := range intrusions {
		if !slices.ContainsFunc(s.table(), func(rt route) bool { return rt.method+" "+rt.path == key }) {
			t.Errorf("%s is tested, but the route does not exist", key)
		}
	}
}

// An agent's tasks, contexts and tools of another user do not exist either.
func TestProtocolsHideDataOfOtherUsers(t *testing.T) {
	for name, auth := range map[string]*Auth{"handlers": owners(), "OwnerRules": ruled()} {
		t.Run(name, func(t *testing.T) { testProtocolsHideData(t, auth) })
	}
}

func testProtocolsHideData(t *testing.T, auth *Auth) {
	s := newTestServer(t, &Options{Auth: auth})
	alice, bob := newProperty(s, "alice"), newProperty(s, "bob")
	before := alice.shown(s)
	rpc := func(path, method, params string) string {
		t.Helper()
		status, answer := s.send("bob", "POST", path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+alice.at(params)+`}`))
		if status != http.StatusOK || strings.Contains(answer, "of alice") {
			t.Errorf("%s %s: %d %s", method, params, status, answer)
		}
		return answer
	}
	agent := bob.at("/a2a/{assistant_id}")
	for method, params := range map[string]string{
		"tasks/get":    `{"id":"{thread_id}:{run_id}"}`,
		"tasks/cancel": `{"id":"{thread_id}:{run_id}"}`,
		"message/send": `{"message":{"messageId":"m","role":"user","contextId":"{thread_id}","parts":[{"data":{"topic":"x"}}]}}`,
		"SendMessage":  `{"message":{"messageId":"m","role":"user","taskId":"{thread_id}:{run_id}","parts":[{"text":"yes"}]}}`,
	} {
		if answer := rpc(agent, method, params); !strings.Contains(answer, "-32001") {
			t.Errorf("%s: %s", method, answer)
		}
	}
	body := alice.at(`{"threadId":"{thread_id}","runId":"1","state":{"topic":"x"}}`)
	if status, answer := s.send("bob", "POST", bob.at("/agui/{assistant_id}"), strings.NewReader(body)); status != http.StatusNotFound || strings.Contains(answer, "of alice") {
		t.Errorf("AG-UI: %d %s", status, answer)
	}
	if answer := rpc(agent, "ListTasks", `{"contextId":"{thread_id}"}`); !strings.Contains(answer, `"tasks":[]`) {
		t.Errorf("ListTasks: %s", answer)
	}
	if answer := rpc("/mcp", "tools/list", `{}`); !strings.Contains(answer, "secret_of_bob") {
		t.Errorf("tools/list: %s", answer)
	}
	if answer := rpc("/mcp", "tools/call", `{"name":"{assistant_id}"}`); !strings.Contains(answer, "-32602") {
		t.Errorf("tools/call: %s", answer)
	}
	if after := alice.shown(s); after != before {
		t.Errorf("alice has changed:\n%s\n%s", before, after)
	}
}

func TestStoreRejectsFilter(t *testing.T) {
	auth := owners()
	delete(auth.On, "store")
	s := newTestServer(t, &Options{Auth: auth})
	if status, answer := s.send("alice", "POST", "/store/items/search", strings.NewReader("{}")); status != http.StatusForbidden || !strings.Contains(answer, "namespace") {
		t.Errorf("%d %s", status, answer)
	}
}

func TestMissingHandlerDeniesAccess(t *testing.T) {
	s := newTestServer(t, &Options{Auth: &Auth{Authenticate: owners().Authenticate}})
	p := property{"assistant_id": defaultAssistantID("hitl").String(), "thread_id": defaultAssistantID("x").String(), "run_id": defaultAssistantID("x").String(),
		"cron_id": defaultAssistantID("x").String(), "checkpoint_id": defaultAssistantID("x").String(), "namespace": "child", "own_assistant": "hitl"}
	for _, rt := range s.table() {
		key := rt.method + " " + rt.path
		if slices.Contains(openRoutes, key) || key == "GET /mcp" || key == "DELETE /mcp" {
			continue
		}
		status, answer := s.send("alice", rt.method, p.at(rt.path+queries[key]), strings.NewReader(p.at(intrusions[key].body)))
		if key == "POST /threads/{thread_id}/commands" && status == http.StatusOK && strings.Contains(answer, `"type":"error"`) {
			continue // the answer to a command is never a status
		}
		if status != http.StatusForbidden && status != http.StatusNotFound {
			t.Errorf("%s: %d %s", key, status, answer)
		}
	}
}
