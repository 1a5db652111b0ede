package server_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/internal/elicit"
	"github.com/treadle-go/treadle/server"
)

// user connects an MCP client whose user answers all questions. Without answer, the test answers
// them.
func user(t *testing.T, c *client, answer func(*mcp.ElicitParams) *mcp.ElicitResult) *mcp.ClientSession {
	t.Helper()
	o := &mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: answer == nil},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return answer(r.Params), nil }}
	return connectWith(t, c, o)
}

// askAll returns a call of the tool that asks two questions.
func askAll(state string, responses mcp.InputResponseMap) *mcp.CallToolParams {
	return &mcp.CallToolParams{Name: "asking", Arguments: map[string]any{"questions": 2, "typed": true}, RequestState: state, InputResponses: responses}
}

// agree returns responses to the questions in a result.
func agree(r *mcp.CallToolResult, content map[string]any) mcp.InputResponseMap {
	out := mcp.InputResponseMap{}
	for key := range r.InputRequests {
		out[key] = &mcp.ElicitResult{Action: "accept", Content: content}
	}
	return out
}

func threads(c *client) int {
	var all []any
	c.ok("POST", "/threads/search", "{}", &all)
	return len(all)
}

func TestAssistantAsksUserOfMCPClient(t *testing.T) {
	c := startGraphs(t, newMemory(), nil, asking())
	var asked atomic.Int32 // the client asks its questions concurrently
	s := user(t, c, func(p *mcp.ElicitParams) *mcp.ElicitResult {
		asked.Add(1)
		if !strings.HasPrefix(p.Message, "question ") || !strings.Contains(asJSON(t, p.RequestedSchema), `"ok"`) {
			t.Errorf("question %+v with the form %s", p, asJSON(t, p.RequestedSchema))
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"ok": true, "note": p.Message}}
	})
	res, err := s.CallTool(t.Context(), askAll("", nil))
	if err != nil || res.IsError || asked.Load() != 2 || !strings.Contains(asJSON(t, res.StructuredContent), `"{true question 0}","{true question 1}"`) {
		t.Errorf("result %s, %v after %d questions", asJSON(t, res), err, asked.Load())
	}
	s = user(t, c, func(*mcp.ElicitParams) *mcp.ElicitResult { return &mcp.ElicitResult{Action: "decline"} })
	if res, err = s.CallTool(t.Context(), askAll("", nil)); err != nil || !res.IsError || !strings.Contains(asJSON(t, res), "did not answer") {
		t.Errorf("result without answers %s, %v", asJSON(t, res), err)
	}
	if n := threads(c); n != 0 {
		t.Errorf("calls left %d threads", n)
	}
}

func TestMCPQuestionSurvivesRestart(t *testing.T) {
	db := newMemory()
	c, stop := serveAlone(t, db, asking())
	first, err := user(t, c, nil).CallTool(t.Context(), askAll("", nil))
	if err != nil || len(first.InputRequests) != 2 || first.RequestState == "" {
		t.Fatalf("result %s, %v", asJSON(t, first), err)
	}
	stop()
	c, _ = serveAlone(t, db, asking())
	s := user(t, c, nil)
	for name, responses := range map[string]mcp.InputResponseMap{
		"none":    nil,
		"wrong":   agree(first, map[string]any{"ok": "perhaps"}),
		"unknown": {"x": &mcp.ElicitResult{Action: "accept"}},
	} {
		again, err := s.CallTool(t.Context(), askAll(first.RequestState, responses))
		if err != nil || len(again.InputRequests) != 2 || again.RequestState != first.RequestState {
			t.Errorf("%s: result %s, %v", name, asJSON(t, again), err)
		}
	}
	call := askAll(first.RequestState, agree(first, map[string]any{"ok": true}))
	res, err := s.CallTool(t.Context(), call)
	if err != nil || res.IsError || !strings.Contains(asJSON(t, res.StructuredContent), `"{true }","{true }"`) {
		t.Errorf("result %s, %v", asJSON(t, res), err)
	}
	if res, err := s.CallTool(t.Context(), call); err == nil {
		t.Errorf("an answer counts twice: %s", asJSON(t, res))
	}
	if n := threads(c); n != 0 {
		t.Errorf("the call left %d threads", n)
	}
}

func TestForgedRequestStatesAreRejected(t *testing.T) {
	o := &server.Options{Auth: &server.Auth{
		Authenticate: server.APIKeys(map[string]*server.User{"key-a": {Identity: "a"}, "key-b": {Identity: "b"}}),
		On: server.Rules{
			"assistants": func(context.Context, *server.Access) (server.Decision, error) { return server.Allow(nil), nil },
			"*": func(_ context.Context, a *server.Access) (server.Decision, error) {
				if m, ok := a.Value["metadata"].(map[string]any); ok {
					m["owner"] = a.User.Identity
				}
				return server.Allow(map[string]any{"owner": a.User.Identity}), nil
			},
		},
	}}
	c := startGraphs(t, newMemory(), o, asking())
	c.head.Set("X-Api-Key", "key-a")
	c.ok("POST", "/assistants", `{"graph_id":"asking","name":"other"}`, nil)
	a := user(t, c, nil)
	first, err := a.CallTool(t.Context(), askAll("", nil))
	if err != nil || len(first.InputRequests) != 2 {
		t.Fatalf("result %s, %v", asJSON(t, first), err)
	}
	responses := agree(first, map[string]any{"ok": true})
	thread, _, _ := strings.Cut(first.RequestState, ".")
	own := c.thread()
	for name, state := range map[string]string{
		"no state":       "x",
		"another digest": thread + ".0000000000000000",
		"no digest":      thread,
		"another thread": own + strings.TrimPrefix(first.RequestState, thread),
	} {
		if res, err := a.CallTool(t.Context(), askAll(state, responses)); err == nil {
			t.Errorf("%s: result %s", name, asJSON(t, res))
		}
	}
	other := askAll(first.RequestState, responses)
	other.Name = "other"
	if res, err := a.CallTool(t.Context(), other); err == nil {
		t.Errorf("another assistant: result %s", asJSON(t, res))
	}
	c.head.Set("X-Api-Key", "key-b")
	if res, err := user(t, c, nil).CallTool(t.Context(), askAll(first.RequestState, responses)); err == nil || strings.Contains(fmt.Sprint(err), "question") {
		t.Errorf("another user: result %s, %v", asJSON(t, res), err)
	}
	if res, err := a.CallTool(t.Context(), askAll(first.RequestState, responses)); err != nil || res.IsError {
		t.Errorf("the user who was asked: %s, %v", asJSON(t, res), err)
	}
}

// A call deletes its thread at the end. A state that names a conversation must not.
func TestRequestStateNamesNoConversation(t *testing.T) {
	c := startGraphs(t, newMemory(), nil, asking())
	thread := c.thread()
	c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"asking","input":{"questions":1,"typed":true}}`, nil)
	var kept struct {
		Interrupts map[string][]struct{ ID string }
	}
	c.ok("GET", "/threads/"+thread, "", &kept)
	state, responses := "", mcp.InputResponseMap{}
	for _, list := range kept.Interrupts {
		state = elicit.State(thread, []string{list[0].ID})
		responses[list[0].ID] = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"ok": true}}
	}
	if res, err := user(t, c, nil).CallTool(t.Context(), askAll(state, responses)); err == nil {
		t.Errorf("result %s", asJSON(t, res))
	}
	if n := threads(c); n != 1 {
		t.Errorf("%d threads are left", n)
	}
}

var callThread = regexp.MustCompile(`thread ([0-9a-f-]{36})`)

// A run that waits for a time or a signal continues on a thread that the client can follow.
func TestSleepingMCPCallContinues(t *testing.T) {
	effects := &counted{}
	c := startGraphs(t, newMemory(), &server.Options{MCP: &server.MCP{Sessions: true}}, shipping(t, effects))
	answer := func(*mcp.ElicitParams) *mcp.ElicitResult { return &mcp.ElicitResult{Action: "decline"} }
	var want []string
	for name, s := range map[string]*mcp.ClientSession{"elicits": user(t, c, answer), "does not elicit": connect(t, c)} {
		res, text := toolText(t, s, "shipping", map[string]any{"nap": 30, "log": []string{}})
		found := callThread.FindStringSubmatch(text)
		if !res.IsError || found == nil || !strings.Contains(text, "continues in the background at 20") {
			t.Fatalf("%s: result %s", name, asJSON(t, res))
		}
		thread := found[1]
		c.until(thread, "waiting for the signal", waitsFor("signal"))
		var row struct{ TTL any }
		if c.ok("GET", "/threads/"+thread+"?include=ttl", "", &row); row.TTL != nil {
			t.Errorf("%s: the thread of a run in the background expires: %v", name, row.TTL)
		}
		c.ok("POST", "/threads/"+thread+"/signals/paid", `{"value":"ada"}`, nil)
		equal(t, c.until(thread, "over", idle).Values.Log, []string{"slept", "paid by ada", "delivered by nobody"})
		want = append(want, thread+" slept", thread+" paid by ada", thread+" delivered by nobody")
	}
	effects.want(t, want...)
}

// A client that never answers must not leave a thread forever.
func TestAbandonedMCPQuestionExpires(t *testing.T) {
	c := startGraphs(t, newMemory(), nil, asking())
	first, err := user(t, c, nil).CallTool(t.Context(), askAll("", nil))
	if err != nil || len(first.InputRequests) != 2 {
		t.Fatalf("result %s, %v", asJSON(t, first), err)
	}
	thread, _, _ := strings.Cut(first.RequestState, ".")
	var row struct {
		TTL struct {
			Strategy string
			Expires  time.Time `json:"expires_at"`
		}
	}
	c.ok("GET", "/threads/"+thread+"?include=ttl", "", &row)
	if left := time.Until(row.TTL.Expires); row.TTL.Strategy != "delete" || left <= 0 || left > 7*24*time.Hour {
		t.Errorf("TTL %+v", row.TTL)
	}
}

func TestCallOfLeavingMCPClientIsForgotten(t *testing.T) {
	for _, protocol := range []string{"2026-07-28", "2025-11-25"} {
		h := newHelper()
		c := startGraphs(t, newMemory(), &server.Options{MCP: &server.MCP{Server: program(protocol), Sessions: true}}, h.graph(t))
		s := user(t, c, func(*mcp.ElicitParams) *mcp.ElicitResult { return &mcp.ElicitResult{Action: "decline"} })
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-h.waiting
			cancel()
		}()
		args := map[string]any{"messages": []any{map[string]any{"type": "human", "content": "wait"}}}
		if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "helper", Arguments: args}); err == nil {
			t.Fatal("the client did not leave")
		}
		<-h.left
		for threads(c) != 0 {
			if t.Context().Err() != nil {
				t.Fatal("the thread remains")
			}
		}
	}
}
