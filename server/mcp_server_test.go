package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/server"
)

// program returns an MCP server of a program, for clients with a protocol, or all.
func program(protocols ...string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "program", Version: "v1"}, &mcp.ServerOptions{PageSize: 1, SupportedProtocolVersions: protocols})
	caller := func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		said := r.Extra.TokenInfo.UserID + " " + r.Extra.Header.Get("Authorization") + " "
		if u := server.UserFrom(ctx); u != nil {
			said += u.Identity
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}, nil
	}
	for _, name := range []string{"caller", "router"} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, caller)
	}
	s.AddPrompt(&mcp.Prompt{Name: "greet"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "hello"}}}}, nil
	})
	s.AddResource(&mcp.Resource{URI: "test://note", Name: "note"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://note", Text: "a note"}}}, nil
	})
	return s
}

func toolNames(t *testing.T, s *mcp.ClientSession) (names []string) {
	t.Helper()
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

func annAndBen() *server.Auth {
	return &server.Auth{Authenticate: server.APIKeys(map[string]*server.User{"key-a": {Identity: "ann"}, "key-b": {Identity: "ben"}}),
		On: server.Rules{"*": func(context.Context, *server.Access) (server.Decision, error) { return server.Allow(nil), nil }}}
}

func TestProgramAddsMCPFeatures(t *testing.T) {
	for _, protocol := range []string{"2026-07-28", "2025-11-25"} {
		c := serve(t, &server.Options{Auth: annAndBen(), MCP: &server.MCP{Server: program(protocol), Sessions: true}})
		for key, user := range map[string]string{"key-a": "ann", "key-b": "ben"} {
			s := connect(t, as(c, key))
			names := toolNames(t, s)
			if len(names) != 12 || names[0] != "caller" || names[1] != "router" || !slices.ContainsFunc(names[2:], func(n string) bool { return strings.HasPrefix(n, "router_") }) {
				t.Errorf("%s: tools %q", protocol, names)
			}
			if _, text := toolText(t, s, "caller", nil); text != user+"  "+user {
				t.Errorf("%s: caller %q, want %s", protocol, text, user)
			}
			if _, text := toolText(t, s, "router", map[string]any{"target": "right"}); text != user+"  "+user {
				t.Errorf("%s: an assistant replaced the program's tool: %s", protocol, text)
			}
			if _, text := toolText(t, s, names[slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, "router_") })], map[string]any{"target": "right"}); !strings.Contains(text, "right") {
				t.Errorf("%s: assistant: %s", protocol, text)
			}
			if p, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "greet"}); err != nil || len(p.Messages) != 1 {
				t.Errorf("%s: prompt %+v, %v", protocol, p, err)
			}
			if r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://note"}); err != nil || r.Contents[0].Text != "a note" {
				t.Errorf("%s: resource %+v, %v", protocol, r, err)
			}
		}
	}
}

// A server without tools of its own announces those of the assistants.
func TestMCPServerWithoutTools(t *testing.T) {
	c := serve(t, &server.Options{MCP: &server.MCP{Server: mcp.NewServer(&mcp.Implementation{Name: "empty"}, nil)}})
	if s := connect(t, c); s.InitializeResult().Capabilities.Tools == nil || len(toolNames(t, s)) == 0 {
		t.Errorf("capabilities %s", asJSON(t, s.InitializeResult().Capabilities))
	}
}

// as returns a client with an API key.
func as(c *client, key string) *client {
	out := *c
	out.head = http.Header{"X-Api-Key": {key}}
	return &out
}

func TestSessionAnswersQuestionsOfAssistant(t *testing.T) {
	c := startGraphs(t, newMemory(), &server.Options{MCP: &server.MCP{Server: program("2025-11-25"), Sessions: true}}, asking())
	var said []string // the server asks one question after the other
	s := user(t, c, func(p *mcp.ElicitParams) *mcp.ElicitResult {
		said = append(said, p.Message)
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"ok": true, "note": p.Message}}
	})
	res, err := s.CallTool(t.Context(), askAll("", nil))
	if err != nil || res.IsError || len(said) != 2 || !strings.Contains(asJSON(t, res.StructuredContent), `"{true question 0}","{true question 1}"`) {
		t.Errorf("result %s, %v after %q", asJSON(t, res), err, said)
	}
	s = user(t, c, func(*mcp.ElicitParams) *mcp.ElicitResult { return &mcp.ElicitResult{Action: "decline"} })
	if res, err = s.CallTool(t.Context(), askAll("", nil)); err != nil || !res.IsError || !strings.Contains(asJSON(t, res), "did not answer") {
		t.Errorf("result without answers %s, %v", asJSON(t, res), err)
	}
	if n := threads(c); n != 0 {
		t.Errorf("calls left %d threads", n)
	}
}

func TestMCPSessionBelongsToUser(t *testing.T) {
	c := serve(t, &server.Options{Auth: annAndBen(), MCP: &server.MCP{Server: program("2025-11-25"), Sessions: true}})
	id := connect(t, as(c, "key-a")).ID()
	if id == "" {
		t.Fatal("no session")
	}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		for key, want := range map[string]int{"key-b": http.StatusForbidden, "": http.StatusUnauthorized} {
			r, err := http.NewRequestWithContext(t.Context(), method, c.base+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Mcp-Session-Id": {id}, "X-Api-Key": {key}, "Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s with key %q: status %d, want %d", method, key, resp.StatusCode, want)
			}
		}
	}
}

// A client that starts sessions without end must not use up the server's memory, nor lock out other users.
func TestMCPSessionFloodIsLimited(t *testing.T) {
	own := program("2025-11-25")
	c := serve(t, &server.Options{Auth: annAndBen(), MCP: &server.MCP{Server: own, Sessions: true, MaxSessions: 5, MaxUserSessions: 3}})
	send := func(method, key, session, body string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, c.base+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"X-Api-Key": {key}, "Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}}
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp
	}
	start := func(key string) *http.Response {
		return send("POST", key, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	}
	var ids []string
	flood := func(key string, open, status int) {
		t.Helper()
		for i := range 20 {
			resp := start(key)
			want := status
			if i < open {
				want = http.StatusOK
				ids = append(ids, resp.Header.Get("Mcp-Session-Id"))
			}
			if resp.StatusCode != want || (want != http.StatusOK) != (resp.Header.Get("Retry-After") == "60") {
				t.Errorf("session %d of %s: status %d, want %d", i, key, resp.StatusCode, want)
			}
		}
	}
	flood("key-a", 3, http.StatusTooManyRequests)
	flood("key-b", 2, http.StatusServiceUnavailable)
	n := 0
	for range own.Sessions() {
		n++
	}
	if n != 5 {
		t.Errorf("%d sessions are open", n)
	}
	if resp := send("POST", "key-a", ids[0], `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); resp.StatusCode != http.StatusOK {
		t.Errorf("request of an open session: status %d", resp.StatusCode)
	}
	if resp := send("DELETE", "key-a", ids[0], ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("status %d", resp.StatusCode)
	}
	if resp := start("key-b"); resp.StatusCode != http.StatusOK {
		t.Errorf("after a session ended: status %d", resp.StatusCode)
	}
}

// Drain would otherwise leave the streams of sessions open, and the process could not end.
func TestDrainEndsMCPSessions(t *testing.T) {
	own := program("2025-11-25")
	srv, err := server.New(newMemory(), []treadle.AnyGraph{asking()}, &server.Options{MCP: &server.MCP{Server: own, Sessions: true}})
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(srv)
	defer hs.Close()
	s := connect(t, &client{t: t, base: hs.URL, head: http.Header{}})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, hs.URL+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Mcp-Session-Id": {s.ID()}, "Accept": {"text/event-stream"}}
	stream, err := http.DefaultClient.Do(r)
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatalf("%+v, %v", stream, err)
	}
	defer func() { _ = stream.Body.Close() }()
	if err := srv.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(stream.Body); err != nil {
		t.Error(err)
	}
	for range own.Sessions() {
		t.Error("a session is open")
	}
}

// A handler around the server may verify tokens. Tools of the program see what it found.
func TestMCPToolsSeeTokenInfo(t *testing.T) {
	expires := time.Now().Add(-time.Second).UTC().Truncate(time.Second) // within the tolerance of the handler
	own := mcp.NewServer(&mcp.Implementation{Name: "own"}, nil)
	own.AddTool(&mcp.Tool{Name: "token", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		info := r.Extra.TokenInfo
		text := fmt.Sprintf("%s %s %t %s", info.UserID, info.Scopes, info.Expiration.Equal(expires), info.Extra["tenant"])
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	})
	srv, err := server.New(newMemory(), []treadle.AnyGraph{asking()}, &server.Options{Auth: annAndBen(), MCP: &server.MCP{Server: own, Sessions: true}})
	if err != nil {
		t.Fatal(err)
	}
	verify := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "subject", Scopes: []string{"run"}, Expiration: expires, Extra: map[string]any{"tenant": "owls"}}, nil
	}
	hs := httptest.NewServer(auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{ClockSkew: time.Hour})(srv))
	defer hs.Close()
	defer func() { _ = srv.Drain(context.Background()) }()
	s := connect(t, &client{t: t, base: hs.URL, head: http.Header{"X-Api-Key": {"key-a"}, "Authorization": {"Bearer t"}}})
	if _, text := toolText(t, s, "token", nil); text != "ann [run] true owls" {
		t.Errorf("token %q", text)
	}
}
