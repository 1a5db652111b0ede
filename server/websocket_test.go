package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/server"
)

// message is an answer or an event on a WebSocket.
type message struct {
	answer
	event
	Type string
	ID   *int
}

// ws is a WebSocket of protocol v2.
type ws struct {
	t    *testing.T
	conn *websocket.Conn
	ctx  context.Context
}

func (c *client) dial(thread string) *ws {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	c.t.Cleanup(cancel)
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(c.base, "http")+"/threads/"+thread+"/stream/events", &websocket.DialOptions{HTTPHeader: c.head}) //nolint:bodyclose // the connection has it
	if err != nil {
		c.t.Fatal(err)
	}
	conn.SetReadLimit(1 << 20)
	c.t.Cleanup(func() { _ = conn.CloseNow() })
	return &ws{c.t, conn, ctx}
}

func (w *ws) send(text string) {
	w.t.Helper()
	if err := w.conn.Write(w.ctx, websocket.MessageText, []byte(text)); err != nil {
		w.t.Error(err)
	}
}

func (w *ws) command(id int, method, params string) {
	w.t.Helper()
	w.send(fmt.Sprintf(`{"id":%d,"method":%q,"params":%s}`, id, method, params))
}

// until reads messages until one is enough.
func (w *ws) until(enough func(message) bool) (out []message) {
	w.t.Helper()
	for {
		_, raw, err := w.conn.Read(w.ctx)
		if err != nil {
			w.t.Fatalf("%v after %v", err, out)
		}
		var m message
		if err := json.Unmarshal(raw, &m.answer); err == nil {
			_ = json.Unmarshal(raw, &m.event)
		}
		m.Type, m.ID = m.answer.Type, m.answer.ID
		out = append(out, m)
		if enough(m) {
			return out
		}
	}
}

func answered(id int) func(message) bool {
	return func(m message) bool { return m.Type != "event" && m.ID != nil && *m.ID == id }
}

func is(name string) func(message) bool {
	return func(m message) bool { return m.Type == "event" && m.name() == name }
}

func TestWebSocketsCarryCommandsAndEvents(t *testing.T) {
	c := serve(t, nil)
	w := c.dial(uuid.NewString())
	w.command(1, "subscription.subscribe", `{"channels":["values","lifecycle","input"]}`)
	var sub struct {
		ID       string `json:"subscription_id"`
		Replayed *int   `json:"replayed_events"`
	}
	got := w.until(answered(1))
	if err := json.Unmarshal(got[0].Result, &sub); err != nil || sub.ID == "" || sub.Replayed == nil || *sub.Replayed != 0 {
		t.Fatalf("answer %+v", got[0].answer)
	}
	w.command(2, "run.start", `{"assistant_id":"hitl","input":{"topic":"cats"}}`)
	got = w.until(is("input.requested"))
	asked := got[len(got)-1]
	w.command(3, "input.respond", fmt.Sprintf(`{"namespace":[],"interrupt_id":%q,"response":"yes"}`, asked.get("interrupt_id")))
	got = append(got, w.until(is("lifecycle:completed"))...)
	var seen []string
	for _, m := range got {
		if m.Type == "event" {
			seen = append(seen, m.name())
		} else if m.Type != "success" {
			t.Errorf("answer %+v", m.answer)
		}
	}
	equal(t, seen, []string{"lifecycle:running", "values", "values", "input.requested", "lifecycle:interrupted", "values",
		"lifecycle:running", "values", "values", "values", "lifecycle:completed"})
	w.command(4, "subscription.unsubscribe", fmt.Sprintf(`{"subscription_id":%q}`, sub.ID))
	w.until(answered(4))
	w.command(5, "run.start", `{"assistant_id":"hitl","input":{"topic":"dogs"}}`)
	w.command(6, "subscription.subscribe", `{"channels":["lifecycle"]}`)
	got = w.until(answered(6))
	for _, m := range got {
		if m.Type == "event" {
			t.Errorf("%s after the end of the subscription", m.name())
		}
	}
	// Buffered events follow the response.
	if replay := w.until(is("lifecycle:completed")); len(replay) != 4 {
		t.Errorf("replayed %v", replay)
	}
}

func TestSubscriptionsShareEventOrder(t *testing.T) {
	c := serve(t, nil)
	w := c.dial(uuid.NewString())
	for i, channel := range []string{"lifecycle", "messages", "values", "lifecycle"} {
		w.command(i+1, "subscription.subscribe", fmt.Sprintf(`{"channels":[%q]}`, channel))
	}
	w.until(answered(4))
	w.command(9, "run.start", `{"assistant_id":"agent","input":{"messages":[{"role":"user","content":"hi"}]}}`)
	var seqs []uint64
	for _, m := range w.until(is("lifecycle:completed")) {
		if m.Type == "event" {
			seqs = append(seqs, m.Seq)
		}
	}
	if !slices.IsSorted(seqs) || len(slices.Compact(slices.Clone(seqs))) != len(seqs) || len(seqs) != 10 {
		t.Errorf("numbers %v", seqs)
	}
}

func TestSubscriptionsReplayTogether(t *testing.T) {
	c := serve(t, nil)
	thread := c.begin("router", `{"target":"left"}`)
	c.subscribe(thread, everything).events("lifecycle:completed", 1)
	w := c.dial(thread)
	w.command(1, "subscription.subscribe", `{"channels":["lifecycle"]}`)
	w.command(2, "subscription.subscribe", `{"channels":["lifecycle","values"]}`)
	var seen []string
	for _, m := range w.until(is("lifecycle:completed")) {
		if m.Type == "event" {
			seen = append(seen, m.name())
		}
	}
	equal(t, seen, []string{"lifecycle:running", "values", "values", "values", "lifecycle:completed"})
}

// LangGraph's JavaScript client ignores events after the end of a run. On a busy machine,
// it takes a while to subscribe to the rest.
func TestEndOfRunWaitsForSubscriptions(t *testing.T) {
	want := []string{"lifecycle:running", "values", "values", "values", "lifecycle:completed"}
	for _, when := range []string{"before", "after"} {
		t.Run("the run ends "+when+" the first subscription", func(t *testing.T) {
			c := serve(t, nil)
			thread := c.thread()
			w := c.dial(thread)
			w.command(7, "no.such.command", `{}`)
			w.until(answered(7)) // the server has registered the connection
			if when == "before" {
				c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"router","input":{"target":"left"}}`, nil)
			}
			w.command(1, "subscription.subscribe", `{"channels":["lifecycle","input"]}`)
			w.until(answered(1))
			if when == "after" {
				c.ok("POST", "/threads/"+thread+"/runs", `{"assistant_id":"router","input":{"target":"left"}}`, nil)
			}
			// The page is busy, while the browser reads and answers pings.
			time.AfterFunc(300*time.Millisecond, func() { w.command(2, "subscription.subscribe", `{"channels":["lifecycle","values"]}`) })
			var seen []string
			seqs := map[uint64]bool{}
			for _, m := range w.until(is("lifecycle:completed")) {
				if m.Type == "event" && !seqs[m.Seq] { // clients drop duplicates
					seen, seqs[m.Seq] = append(seen, m.name()), true
				}
			}
			equal(t, seen, want)
		})
	}
}

func TestWebSocketRejectsInvalidCommands(t *testing.T) {
	c := serve(t, nil)
	thread := uuid.NewString()
	w := c.dial(thread)
	for _, text := range []string{"{not json", `{"method":"run.start"}`, `[]`} {
		w.send(text)
		if m := w.until(func(message) bool { return true })[0]; m.Type != "error" || m.ID != nil || m.Error != "invalid_argument" {
			t.Errorf("%s: %+v", text, m.answer)
		}
	}
	for i, tt := range []struct{ method, params, code string }{
		{"nope", `{}`, "unknown_command"},
		{"subscription.subscribe", `{"channels":["nope"]}`, "invalid_argument"},
		{"subscription.unsubscribe", `{"subscription_id":"x"}`, "no_such_subscription"},
		{"subscription.reconnect", `{}`, "not_supported"},
	} {
		w.command(i, tt.method, tt.params)
		if m := w.until(answered(i))[0]; m.Error != tt.code {
			t.Errorf("%s: %+v", tt.method, m.answer)
		}
	}
	for i := range 65 {
		w.command(100+i, "subscription.subscribe", `{"channels":["values"]}`)
		if m := w.until(answered(100 + i))[0]; (m.Type == "error") != (i == 64) {
			t.Fatalf("subscription %d: %+v", i, m.answer)
		}
	}
	if status, head, raw := c.do("GET", "/threads/"+thread+"/stream/events", ""); status != http.StatusUpgradeRequired || head.Get("Upgrade") == "" {
		t.Errorf("without an upgrade: %d %s", status, raw)
	}
}

func TestRateLimitAppliesToWebSocketCommands(t *testing.T) {
	c := serve(t, &server.Options{RateLimit: &server.RateLimit{PerSecond: 0.001, Burst: 3}})
	w := c.dial(uuid.NewString())
	for i := range 4 {
		w.command(i, "nope", `{}`)
		if m := w.until(answered(i))[0]; strings.HasPrefix(m.Message, "429: ") != (i >= 2) {
			t.Errorf("command %d: %+v", i, m.answer)
		}
	}
}

func TestWebSocketChecksOrigin(t *testing.T) {
	for _, tt := range []struct {
		cors *server.CORS
		want int
	}{{nil, 403}, {&server.CORS{Origins: []string{"https://good.example"}}, 101}, {&server.CORS{Origins: []string{"https://other.example"}}, 403}} {
		c := serve(t, &server.Options{CORS: tt.cors})
		conn, resp, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(c.base, "http")+"/threads/"+uuid.NewString()+"/stream/events",
			&websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://good.example"}}})
		if err == nil {
			_ = conn.CloseNow()
		}
		if resp != nil && resp.Body != nil {
			_ = resp.Body.Close()
		}
		if resp == nil || resp.StatusCode != tt.want {
			t.Errorf("CORS %+v: %v %v", tt.cors, resp, err)
		}
	}
}
