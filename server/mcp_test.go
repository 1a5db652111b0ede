package server_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/server"
)

// connect connects the SDK's client to a server.
func connect(t *testing.T, c *client) *mcp.ClientSession { return connectWith(t, c, nil) }

func connectWith(t *testing.T, c *client, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	transport := &http.Transport{}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, o).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: c.base + "/mcp", HTTPClient: &http.Client{Transport: withHeaders{c.head.Clone(), transport}}, DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = session.Close()
		transport.CloseIdleConnections()
	})
	return session
}

// withHeaders adds headers to each request.
type withHeaders struct {
	head http.Header
	next http.RoundTripper
}

func (w withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, w.head)
	return w.next.RoundTrip(r)
}

// toolText calls a tool and returns the text of its answer.
func toolText(t *testing.T, s *mcp.ClientSession, name string, args any) (*mcp.CallToolResult, string) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("tool %s: %v", name, err)
	}
	return res, res.Content[0].(*mcp.TextContent).Text
}

func TestAssistantsAreTools(t *testing.T) {
	c := serve(t, nil)
	c.ok("POST", "/assistants", `{"graph_id":"configurable","name":"my tier","description":"Shows the tier","context":{"tier":"gold"}}`, nil)
	c.ok("POST", "/assistants", `{"graph_id":"router","name":"router"}`, nil)
	s := connect(t, c)
	var names []string
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
		switch tool.Name {
		case "my_tier":
			if tool.Annotations != nil {
				t.Errorf("the server claims to know what a graph does: %s", asJSON(t, tool.Annotations))
			}
			if tool.Title != "my tier" || tool.Description != "Shows the tier" {
				t.Errorf("tool %+v", tool)
			}
		case "router":
			raw := asJSON(t, tool.InputSchema)
			if !strings.Contains(raw, `"target"`) || tool.Description != "Tool based on the router assistant" {
				t.Errorf("tool %+v with %s", tool, raw)
			}
		}
	}
	if len(names) != 12 || !slices.Contains(names, "my_tier") || !slices.Contains(names, "agent") {
		t.Errorf("tools %q", names)
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != 12 {
		t.Errorf("two tools have one name: %q", names)
	}
	res, text := toolText(t, s, "router", map[string]any{"target": "right"})
	values, _ := res.StructuredContent.(map[string]any)
	if res.IsError || !strings.Contains(text, `"right"`) || values["target"] != "right" {
		t.Errorf("answer %+v: %s", values, text)
	}
	if _, text := toolText(t, s, "my_tier", nil); !strings.Contains(text, `"gold"`) {
		t.Errorf("the assistant's context did not reach the graph: %s", text)
	}
	var threads []any
	if c.ok("POST", "/threads/search", "{}", &threads); len(threads) != 0 {
		t.Errorf("calls left threads: %v", threads)
	}
}

func TestToolErrorsAreReported(t *testing.T) {
	c := serve(t, nil)
	s := connect(t, c)
	if res, text := toolText(t, s, "failing", map[string]any{"message": "m"}); !res.IsError || text != "Error: boom: m" {
		t.Errorf("answer %+v: %s", res, text)
	}
	if res, text := toolText(t, s, "router", map[string]any{"target": 5}); !res.IsError || !strings.Contains(text, "target") {
		t.Errorf("answer to a wrong type %+v: %s", res, text)
	}
	res, text := toolText(t, s, "hitl", map[string]any{"topic": "cats"})
	if !res.IsError || !strings.Contains(text, "approve?") || !strings.Contains(res.Content[1].(*mcp.TextContent).Text, "cannot answer") {
		t.Errorf("answer with a question %+v: %s", res, text)
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "nobody"}); err == nil || !strings.Contains(err.Error(), "unknown tool nobody") {
		t.Errorf("an unknown tool: %v", err)
	}
	for _, x := range []struct {
		method, accept, body string
		status               int
		has                  string
	}{
		{"GET", "text/event-stream", "", 405, "POST"},
		{"DELETE", "application/json", "", 404, "session"},
		{"POST", "text/html", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 400, "Accept"},
		{"POST", "application/json", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 200, `"result":{}`},
		{"POST", "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 200, `"result":{}`},
		{"POST", "text/event-stream", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 200, "event: message"},
		{"POST", "application/json", `{"jsonrpc":"2.0","id":7,"method":"no/such"}`, 200, "-32601"},
		{"POST", "application/json", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, ""},
		{"POST", "application/json", `{`, 400, "-32700"},
		{"POST", "application/json", `7`, 400, "-32600"},
		{"POST", "application/json", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, 400, "jsonrpc"},
	} {
		c.head.Set("Accept", x.accept)
		status, _, raw := c.do(x.method, "/mcp/", x.body)
		if status != x.status || !strings.Contains(string(raw), x.has) {
			t.Errorf("%s %s %s: %d %s", x.method, x.accept, x.body, status, raw)
		}
	}
}

func TestToolsAreFilteredByAuth(t *testing.T) {
	o := &server.Options{Auth: &server.Auth{
		Authenticate: server.APIKeys(map[string]*server.User{"key-a": {Identity: "a"}, "key-b": {Identity: "b"}}),
		On: server.Rules{
			"*": func(_ context.Context, a *server.Access) (server.Decision, error) {
				if m, ok := a.Value["metadata"].(map[string]any); ok {
					m["owner"] = a.User.Identity
				}
				return server.Allow(map[string]any{"owner": a.User.Identity}), nil
			},
		},
	}}
	c := serve(t, o)
	c.head.Set("X-Api-Key", "key-a")
	c.ok("POST", "/assistants", `{"graph_id":"router","name":"mine"}`, nil)
	s := connect(t, c)
	if _, text := toolText(t, s, "mine", map[string]any{"target": "left"}); !strings.Contains(text, `"left"`) {
		t.Errorf("answer %s", text)
	}
	c.head.Set("X-Api-Key", "key-b")
	other := connect(t, c)
	list, err := other.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 0 {
		t.Errorf("tools of another caller: %v, %v", list, err)
	}
	if _, err := other.CallTool(t.Context(), &mcp.CallToolParams{Name: "mine"}); err == nil {
		t.Error("another caller's assistant was run")
	}
	c.head.Set("X-Api-Key", "key-c")
	if status, _, raw := c.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); status != 401 {
		t.Errorf("an unknown key: %d %s", status, raw)
	}
}

func TestToolEndsWithItsClient(t *testing.T) {
	c := serve(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"count":100000,"delay_ms":20}}}`))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		done <- err
	}()
	c.counts("treadle_runs_active", nil, 1)
	cancel()
	if err := <-done; err == nil {
		t.Error("the client did not go")
	}
	c.counts("treadle_runs_active", nil, 0)
}

func TestMCPRejectsBatchesInJSON(t *testing.T) {
	c := serve(t, nil)
	for _, body := range []string{`[]`, `[null]`, `[{"jsonrpc":"2.0","id":1,"method":"ping"},{}]`} {
		status, head, raw := c.do("POST", "/mcp", body)
		if status != http.StatusBadRequest || !strings.HasPrefix(head.Get("Content-Type"), "application/json") || !strings.Contains(string(raw), "-32600") {
			t.Errorf("%s: %d %s %s", body, status, head.Get("Content-Type"), raw)
		}
	}
}

// Other clients reject a list of tools with the boolean schema true in it.
func TestSchemasHaveNoBooleans(t *testing.T) {
	type state struct {
		Extra any             `json:"extra"`
		Raw   json.RawMessage `json:"raw"`
		List  []any           `json:"list"`
	}
	b := treadle.New[state]("loose")
	treadle.ContextType[state](b)
	treadle.AddNode(b, "ask", func(ctx context.Context, s state) (state, error) {
		_, err := treadle.Interrupt[state](ctx, "what?")
		return s, err
	})
	b.Sequence(treadle.Start, "ask", treadle.End)
	whole := treadle.Must(treadle.NewWorkflow("whole", func(_ context.Context, in any) (any, error) { return in, nil }, nil))
	srv, err := server.New(newMemory(), []treadle.AnyGraph{treadle.Must(b.Compile(nil)), whole}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := serveHandler(t, srv)
	c.head.Set("Accept", "application/json")
	for path, want := range map[string]string{"/assistants/loose/schemas": `"extra":{}`, "/assistants/whole/schemas": `"input_schema":{}`} {
		if _, _, raw := c.do("GET", path, ""); !strings.Contains(string(raw), want) || strings.Contains(string(raw), "true") {
			t.Errorf("%s: %s", path, raw)
		}
	}
	_, _, raw := c.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var list struct {
		Result struct {
			Tools []struct{ InputSchema json.RawMessage }
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil || len(list.Result.Tools) != 2 {
		t.Fatalf("%v in %s", err, raw)
	}
	for _, tool := range list.Result.Tools {
		if s := string(tool.InputSchema); strings.Contains(s, "true") || !strings.Contains(s, "{}") {
			t.Errorf("the schema of a tool is %s", s)
		}
	}
}
