package server

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/ledger"
)

// stalled returns a graph that writes its input to the stream and then waits until its run
// is canceled.
func stalled(t testing.TB) treadle.AnyGraph {
	t.Helper()
	b := treadle.New[whoState]("stalled")
	treadle.AddNode(b, "stall", func(ctx context.Context, _ whoState) (whoSeen, error) {
		<-ctx.Done()
		return whoSeen{}, ctx.Err()
	})
	b.Edge(treadle.Start, "stall")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestTemporaryThreadIDCannotBeTaken(t *testing.T) {
	s, _ := serveGraphs(t, &Options{Auth: owners()}, stalled(t), whoami(t))
	assistant := s.made("alice", "POST", "/assistants", `{"graph_id":"stalled"}`, "assistant_id")
	own := s.made("bob", "POST", "/assistants", `{"graph_id":"whoami"}`, "assistant_id")
	body := s.made("alice", "POST", "/runs", `{"assistant_id":"`+assistant+`","input":{"seen":"secret of alice"},"stream_resumable":true}`, "")
	var run ledger.Run
	if err := json.Unmarshal([]byte(body), &run); err != nil {
		t.Fatal(err)
	}
	thread := run.Thread.String()
	at := "/threads/" + thread
	if run.Thread.Variant() != uuid.RFC4122 || run.Thread.Version() != 8 {
		t.Errorf("thread ID %s is not a UUID of version 8", thread)
	}
	start := `{"assistant_id":"` + own + `","input":{},"if_not_exists":"create"}`
	for _, x := range []struct {
		path, body string
		want       int
	}{
		{"/threads", `{"thread_id":"` + thread + `"}`, http.StatusConflict},
		{"/threads", `{"thread_id":"` + thread + `","if_exists":"do_nothing"}`, http.StatusConflict},
		{"/threads", `{"thread_id":"` + strings.ToUpper(thread) + `"}`, http.StatusConflict},
		{at + "/runs", start, http.StatusConflict},
		{at + "/runs/wait", start, http.StatusConflict},
		{at + "/runs/stream", start, http.StatusConflict},
		{at + "/runs/" + run.ID.String() + "/cancel", ``, http.StatusNotFound},
		{at + "/commands", `{"id":1,"method":"run.start","params":` + start + `}`, http.StatusOK},
		{"/a2a/" + own, `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":"user","contextId":"` + thread + `","parts":[{"data":{}}]}}}`, http.StatusConflict},
		{"/agui/" + own, `{"threadId":"` + thread + `","runId":"1"}`, http.StatusOK},
	} {
		for _, user := range []string{"bob", "alice"} { // not even for its own user
			if user == "alice" && strings.Contains(x.path, run.ID.String()) {
				continue
			}
			status, answer := s.send(user, "POST", x.path, strings.NewReader(strings.ReplaceAll(x.body, own, map[string]string{"bob": own, "alice": assistant}[user])))
			if (strings.HasPrefix(x.path, "/a2a") || strings.HasPrefix(x.path, "/agui")) && user == "alice" {
				continue // bob's agent
			}
			if status != x.want && !strings.HasPrefix(x.path, "/a2a") || status == http.StatusOK && !strings.Contains(answer, "rror") && !strings.Contains(answer, "RUN_ERROR") || strings.Contains(answer, "of alice") {
				t.Errorf("%s: %s %s: %d %s", user, x.path, x.body, status, answer)
			}
		}
	}
	if _, err := s.ledger.Thread(t.Context(), run.Thread, nil); err == nil {
		t.Error("the thread was created")
	}
	for _, rt := range []string{"DELETE " + at, "GET " + at, "GET " + at + "/state", "GET " + at + "/runs", "DELETE " + at + "/runs/" + run.ID.String(), "GET " + at + "/runs/" + run.ID.String() + "/stream"} {
		method, path, _ := strings.Cut(rt, " ")
		if status, answer := s.send("bob", method, path, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", rt, status, answer)
		}
	}
	if status := s.made("alice", "GET", at+"/runs/"+run.ID.String(), "", "status"); status != string(ledger.Pending) && status != string(ledger.Running) {
		t.Errorf("alice's run is %s", status)
	}
	s.made("alice", "POST", at+"/runs/"+run.ID.String()+"/cancel?wait=1", "", "")
}

// A thread with the ID of a deleted one must not show events of the deleted thread's runs,
// which another process may still hold or store.
func TestThreadHidesForeignRuns(t *testing.T) {
	s, db := serveGraphs(t, &Options{Auth: owners()}, whoami(t))
	hs := httptest.NewServer(s)
	defer hs.Close()
	assistant := s.made("bob", "POST", "/assistants", `{"graph_id":"whoami"}`, "assistant_id")
	start := func(at string) {
		s.made("bob", "POST", at+"/runs/wait", `{"assistant_id":"`+assistant+`","input":{}}`, "")
	}
	for _, x := range []struct{ name, method, path, body, end string }{
		{"classic", "GET", "/stream", "", "run_done"},
		{"v2", "POST", "/stream/events", `{"channels":["values","lifecycle"],"since":0}`, "completed"},
	} {
		t.Run(x.name, func(t *testing.T) {
			thread := uuid.New()
			at := "/threads/" + thread.String()
			s.made("bob", "POST", "/threads", `{"thread_id":"`+thread.String()+`"}`, "")
			entries := `[{"s":1,"p":1,"e":"values","t":1,"d":{"seen":"secret of alice"}},{"s":2,"p":2,"e":"values","t":1,"d":{"seen":"secret of alice"}},` +
				`{"s":3,"p":2,"e":"lifecycle","t":1,"d":{"event":"running","graph_name":"secret of alice"}}]`
			if err := db.rows.Append(t.Context(), &ledger.Events{Thread: thread, Run: uuid.New(), First: 1, Last: 3, Data: []byte(entries)}); err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(t.Context(), x.method, hs.URL+at+x.path, strings.NewReader(x.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-User", "bob")
			req.Header.Set("Last-Event-ID", "0")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			start(at)
			start(at) // its event numbers are greater than the foreign ones
			for lines := bufio.NewScanner(resp.Body); ; {
				if !lines.Scan() {
					t.Fatalf("the stream ended: %v", lines.Err())
				}
				if strings.Contains(lines.Text(), "alice") {
					t.Error(lines.Text())
				}
				if strings.Contains(lines.Text(), x.end) {
					break
				}
			}
			if answer := s.made("bob", "POST", at+"/commands", `{"id":1,"method":"agent.getTree"}`, ""); strings.Contains(answer, "alice") {
				t.Error(answer)
			}
		})
	}
}
