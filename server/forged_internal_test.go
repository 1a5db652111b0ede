package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/config"
)

// serveGraphs starts a server of the given graphs that is called without a network.
func serveGraphs(t testing.TB, o *Options, graphs ...treadle.AnyGraph) (*testServer, *testDB) {
	t.Helper()
	db := &testDB{checkpoint.NewMemory(), ledger.NewMemory()}
	s, err := New(db, graphs, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = s.Drain(ctx)
	})
	return &testServer{s, t}, db
}

// claim is a context type whose field has the name of a reserved key.
type claim struct {
	User string `json:"langgraph_auth_user_id,omitempty"`
	Tier string `json:"tier,omitempty"`
}

type whoState struct {
	Ask  bool   `json:"ask,omitempty"`  // interrupt first
	Nap  int    `json:"nap,omitempty"`  // sleep first, in seconds
	Seen string `json:"seen,omitempty"` // the configuration and the context, as JSON
}

type whoSeen struct{ Seen string }

// whoami returns a graph that returns the configuration and the context of its run.
func whoami(t testing.TB) treadle.AnyGraph {
	t.Helper()
	b := treadle.New[whoState]("whoami")
	treadle.ContextType[claim](b)
	treadle.AddNode(b, "show", func(ctx context.Context, s whoState) (whoSeen, error) {
		if s.Ask {
			if _, err := treadle.Interrupt[string](ctx, "?"); err != nil {
				return whoSeen{}, err
			}
		}
		if s.Nap > 0 {
			if err := treadle.Sleep(ctx, time.Duration(s.Nap)*time.Second); err != nil {
				return whoSeen{}, err
			}
		}
		given, _ := treadle.ContextFrom[claim](ctx)
		raw, err := json.Marshal(map[string]any{"config": treadle.InfoFrom(ctx).Config, "context": given})
		return whoSeen{string(raw)}, err
	})
	b.Edge(treadle.Start, "show")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// forged contains configuration that names another user, for the body of a request.
const forged = `"config":{"langgraph_auth_user_id":"mallory","tags":["kept"],
	"configurable":{"langgraph_auth_user":{"identity":"mallory","permissions":["mallory"]},"langgraph_auth_user_id":"mallory","langgraph_auth_permissions":["mallory"],"langgraph_auth_more":"mallory"},
	"metadata":{"langgraph_auth_user_id":"mallory"}},
	"metadata":{"langgraph_auth_user_id":"mallory","langgraph_auth_user":"mallory","team":"kept"}`

// forgedContext does so in the context of a run or an assistant.
const forgedContext = `"context":{"langgraph_auth_user_id":"mallory","langgraph_auth_user":"mallory","tier":"kept"},
	"metadata":{"langgraph_auth_user_id":"mallory"}`

// stored returns all rows of a database as one text.
func (m *testDB) stored(t testing.TB) string {
	t.Helper()
	var all strings.Builder
	for _, kind := range []ledger.Kind{ledger.Assistants, ledger.Versions, ledger.Threads, ledger.Runs, ledger.Crons} {
		for r, err := range m.rows.Find(t.Context(), &ledger.Query{Kind: kind, Bodies: true}) {
			if err != nil {
				t.Fatal(err)
			}
			all.Write(r.Doc)
			all.Write(r.Body)
			all.WriteByte('\n')
		}
	}
	return all.String()
}

func TestRequestsCannotNameAnotherUser(t *testing.T) {
	s, db := serveGraphs(t, &Options{Auth: owners()}, whoami(t))
	assistant := s.made("bob", "POST", "/assistants", `{"graph_id":"whoami",`+forged+`}`, "assistant_id")
	s.made("bob", "PATCH", "/assistants/"+assistant, `{`+forgedContext+`}`, "")
	s.made("bob", "PATCH", "/assistants/"+assistant, `{`+forged+`}`, "")
	thread := s.made("bob", "POST", "/threads", `{"metadata":{"langgraph_auth_user_id":"mallory"}}`, "thread_id")
	s.made("bob", "PATCH", "/threads/"+thread, `{"metadata":{"langgraph_auth_user_id":"mallory"}}`, "")
	s.made("bob", "POST", "/threads/"+thread+"/copy", ``, "")
	at := "/threads/" + thread
	for _, config := range []string{forged, forgedContext} {
		body := `{"assistant_id":"` + assistant + `","input":{},` + config + `}`
		for _, x := range []struct{ path, body string }{
			{"/runs/wait", body},
			{"/runs/stream", body},
			{at + "/runs/wait", body},
			{at + "/runs/stream", body},
			{at + "/runs", body},
			{"/runs/batch", "[" + body + "]"},
			{at + "/commands", `{"id":1,"method":"run.start","params":` + body + `}`},
			{"/a2a/" + assistant, `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":"user","contextId":"` + thread + `","parts":[{"data":{}}],"metadata":{` + config + `}},` + config + `}}`},
			{"/agui/" + assistant, `{"threadId":"` + thread + `","forwardedProps":{` + config + `}}`},
			{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + assistant + `","arguments":{},"_meta":{` + config + `}}}`},
			{at + "/runs/crons", `{"schedule":"0 0 1 1 *",` + body[1:]},
			{"/runs/crons", `{"schedule":"0 0 1 1 *",` + body[1:]},
		} {
			answer := s.made("bob", "POST", x.path, x.body, "")
			if strings.Contains(answer, "mallory") {
				t.Errorf("%s %s: %s", x.path, x.body, answer)
			}
			if strings.Contains(answer, "seen") && !strings.Contains(answer, "bob") {
				t.Errorf("%s: bob is not the user: %s", x.path, answer)
			}
		}
	}
	cron := s.made("bob", "POST", "/runs/crons", `{"assistant_id":"`+assistant+`","schedule":"0 0 1 1 *"}`, "cron_id")
	s.made("bob", "PATCH", "/runs/crons/"+cron, `{"Config":{"configurable":{"langgraph_auth_user_id":"mallory"}},`+forged+`}`, "")
	s.made("bob", "PATCH", "/runs/crons/"+cron, `{`+forgedContext+`}`, "")
	// An answer to an interrupt by protocol v2.
	s.made("bob", "POST", at+"/runs/wait", `{"assistant_id":"`+assistant+`","input":{"ask":true}}`, "")
	var state struct {
		Interrupts []struct{ ID string } `json:"interrupts"`
	}
	if err := json.Unmarshal([]byte(s.made("bob", "GET", at+"/state", "", "")), &state); err != nil || len(state.Interrupts) != 1 {
		t.Fatalf("interrupts %v: %v", state, err)
	}
	s.made("bob", "POST", at+"/commands", `{"id":1,"method":"input.respond","params":{"interrupt_id":"`+state.Interrupts[0].ID+`","response":"yes",`+forged+`}}`, "")
	s.made("bob", "POST", at+"/runs/wait", `{"assistant_id":"`+assistant+`","input":{"ask":false}}`, "")
	s.made("bob", "POST", at+"/state", `{"values":{"nap":0},`+forged+`}`, "")
	rows := db.stored(t)
	if strings.Contains(rows, "mallory") {
		t.Errorf("another user is stored: %s", rows)
	}
	if !strings.Contains(rows, "kept") || !strings.Contains(rows, "langgraph_auth_user_id") {
		t.Errorf("too much was removed: %s", rows)
	}
}

// Without Auth, there is no user, regardless of what clients send, including in headers.
func TestNoUserWithoutAuth(t *testing.T) {
	o := &Options{}
	o.extras.Configurable = &config.HeaderRule{Includes: []string{"*"}}
	s, _ := serveGraphs(t, o, whoami(t))
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/runs/wait", strings.NewReader(`{"assistant_id":"whoami","input":{},`+forged+`}`))
	r.Header["langgraph_auth_user_id"] = []string{"mallory"}
	r.Header.Set("Langgraph_Auth_User", "mallory")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if answer := w.Body.String(); strings.Contains(answer, "mallory") || strings.Contains(answer, authPrefix) || !strings.Contains(answer, "kept") {
		t.Error(answer)
	}
}

// runsAs returns the user and the run IDs in the configuration of a run.
func runsAs(t testing.TB, run *ledger.Run) (user map[string]any, id, runID string, permissions any) {
	t.Helper()
	var k struct {
		Config struct {
			Configurable ledger.Object `json:"configurable"`
		} `json:"config"`
	}
	if err := json.Unmarshal(run.Kwargs, &k); err != nil {
		t.Fatal(err)
	}
	conf := k.Config.Configurable
	user, _ = conf["langgraph_auth_user"].(map[string]any)
	id, _ = conf["langgraph_auth_user_id"].(string)
	runID, _ = conf["run_id"].(string)
	return user, id, runID, conf["langgraph_auth_permissions"]
}

func TestCronRunsActAsCreator(t *testing.T) {
	auth := owners()
	authenticate := auth.Authenticate
	auth.Authenticate = allWith(authenticate, &User{DisplayName: "Bob B.", Permissions: []string{"read"}, Claims: map[string]any{"org": json.Number("9007199254740993")}})
	s, _ := serveGraphs(t, &Options{Auth: auth}, whoami(t))
	assistant := s.made("bob", "POST", "/assistants", `{"graph_id":"whoami"}`, "assistant_id")
	thread := s.made("bob", "POST", "/threads", `{}`, "thread_id")
	at := time.Now()
	for _, path := range []string{"/runs/crons", "/threads/" + thread + "/runs/crons"} {
		body := s.made("bob", "POST", path, `{"assistant_id":"`+assistant+`","schedule":"0 0 1 1 *","input":{},`+forged+`}`, "")
		if strings.Contains(body, "Bob B.") || strings.Contains(body, "creator") {
			t.Errorf("the cron shows the creator's claims: %s", body)
		}
		var cron ledger.Cron
		if err := json.Unmarshal([]byte(body), &cron); err != nil {
			t.Fatal(err)
		}
		id := cron.ID
		stored, err := s.ledger.Cron(t.Context(), id, nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := s.cronRun(t.Context(), stored, at)
		if err != nil {
			t.Fatal(err)
		}
		user, name, runID, permissions := runsAs(t, n.Run)
		if name != "bob" || user["identity"] != "bob" || user["display_name"] != "Bob B." || user["org"] != json.Number("9007199254740993") || asText(t, permissions) != `["read"]` {
			t.Errorf("%s: run acts as %v %v with %v", path, name, user, permissions)
		}
		if runID != n.Run.ID.String() {
			t.Errorf("%s: configurable.run_id is %s in run %s", path, runID, n.Run.ID)
		}
		again, err := s.cronRun(t.Context(), stored, at)
		if err != nil || again.Run.ID != n.Run.ID {
			t.Errorf("%s: runs of one time: %v, %v, %v", path, n.Run.ID, again.Run.ID, err)
		}
		// A change by another user, whom a handler may allow it, does not change the creator.
		if stored, err = s.ledger.PatchCron(t.Context(), id, nil, func(*ledger.Cron) error { return nil }); err != nil || len(stored.Creator) == 0 {
			t.Errorf("%s: a change loses the creator: %v", path, err)
		}
	}
}

// allWith adds the fields of known to the users that a function returns.
func allWith(authenticate func(*http.Request) (*User, error), known *User) func(*http.Request) (*User, error) {
	return func(r *http.Request) (*User, error) {
		u, err := authenticate(r)
		if err != nil {
			return nil, err
		}
		u.DisplayName, u.Permissions, u.Claims = known.DisplayName, known.Permissions, known.Claims
		return u, nil
	}
}

func asText(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Crons and assistants that an earlier version has stored may contain reserved keys.
func TestStoredForgeriesHaveNoEffect(t *testing.T) {
	s, _ := serveGraphs(t, &Options{Auth: owners()}, whoami(t))
	conf := map[string]any{"langgraph_auth_user_id": "mallory", "langgraph_auth_user": map[string]any{"identity": "mallory"}}
	config := ledger.Object{"configurable": conf, "langgraph_auth_user_id": "mallory", "metadata": map[string]any{"langgraph_auth_user_id": "mallory"}}
	a := &ledger.Assistant{ID: uuid.Must(uuid.NewV7()), Graph: "whoami", Name: "old", Config: config, Context: ledger.Object{"langgraph_auth_user_id": "mallory"}, Metadata: ledger.Object{"langgraph_auth_user_id": "mallory", "owner": "bob"}}
	if err := s.ledger.CreateAssistant(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if answer := s.made("bob", "POST", "/runs/wait", `{"assistant_id":"`+a.ID.String()+`","input":{}}`, "seen"); strings.Contains(answer, "mallory") || !strings.Contains(answer, "bob") {
		t.Error(answer)
	}
	bob := "bob"
	payload := json.RawMessage(`{"assistant_id":"` + a.ID.String() + `","Context":{"langgraph_auth_user_id":"mallory"},` + forged + `}`)
	for _, c := range []struct {
		user *string
		want string
	}{{&bob, "bob"}, {nil, ""}} {
		cron := &ledger.Cron{ID: uuid.Must(uuid.NewV7()), Assistant: a.ID, UserID: c.user, Payload: payload}
		n, err := s.cronRun(t.Context(), cron, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		_, name, _, _ := runsAs(t, n.Run)
		if text := string(n.Run.Kwargs) + asText(t, n.Run.Metadata); name != c.want || strings.Contains(text, "mallory") {
			t.Errorf("user %q, not %q: %s", name, c.want, text)
		}
	}
}

// The run of a thread that wakes up acts as the user of the run that went to sleep, and the
// runs of a cron act as its creator, when time passes.
func TestTimedRunsKeepUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := serveGraphs(t, &Options{Auth: owners()}, whoami(t))
		assistant := s.made("bob", "POST", "/assistants", `{"graph_id":"whoami"}`, "assistant_id")
		sleeper := s.made("bob", "POST", "/threads", `{}`, "thread_id")
		s.made("bob", "POST", "/threads/"+sleeper+"/runs/wait", `{"assistant_id":"`+assistant+`","input":{"nap":5},`+forged+`}`, "")
		scheduled := s.made("bob", "POST", "/threads", `{}`, "thread_id")
		s.made("bob", "POST", "/threads/"+scheduled+"/runs/crons", `{"assistant_id":"`+assistant+`","schedule":"* * * * *","input":{},`+forged+`}`, "")
		time.Sleep(90 * time.Second) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		for _, thread := range []string{sleeper, scheduled} {
			list, err := s.ledger.Runs(t.Context(), uuid.MustParse(thread), nil, "", ledger.Page{})
			if err != nil || len(list) == 0 || thread == sleeper && len(list) != 2 {
				t.Fatalf("runs %v: %v", list, err)
			}
			for _, run := range list {
				user, name, runID, _ := runsAs(t, run)
				if name != "bob" || user["identity"] != "bob" || runID != run.ID.String() || run.Status != ledger.Success {
					t.Errorf("run %s (%s) acts as %q %v, with configurable.run_id %s", run.ID, run.Status, name, user, runID)
				}
			}
			if seen := s.made("bob", "GET", "/threads/"+thread+"/state", "", ""); strings.Contains(seen, "mallory") || !strings.Contains(seen, "bob") {
				t.Error(seen)
			}
		}
	})
}
