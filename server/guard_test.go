package server_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/treadle-go/treadle/server"
)

// sendAs sends a request with a Host and headers.
func (c *client) sendAs(host, method, path, body string, head http.Header) (int, http.Header, string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header = head.Clone()
	if host != "" {
		req.Host = host
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(raw)
}

const guardedRun = `{"assistant_id":"router","input":{"target":"left"}}`

func TestLoopbackServerChecksHostAndOrigin(t *testing.T) {
	all := func(*http.Request) (*server.User, error) { return &server.User{Identity: "ann"}, nil }
	allow := func(context.Context, *server.Access) (server.Decision, error) { return server.Allow(nil), nil }
	on := server.Rules{"*": allow}
	for name, o := range map[string]*server.Options{
		"plain":  nil,
		"listed": {Hosts: []string{"agents.test", "*.corp.test", "ported.test:2024"}, CORS: &server.CORS{Origins: []string{"https://app.test", "null"}}},
		"any":    {Hosts: []string{"*"}},
		"open":   {CORS: &server.CORS{Origins: []string{"*"}}},
		"auth":   {Auth: &server.Auth{Authenticate: all, On: on}},
		"noname": {Auth: &server.Auth{On: on}}, // handlers without authentication
	} {
		c := serve(t, o)
		own := strings.TrimPrefix(c.base, "http://")
		for _, x := range []struct {
			host, origin string
			accepted     string // the names of the servers that accept it
		}{
			{own, "", "plain listed any open auth noname"},
			{"localhost", "", "plain listed any open auth noname"},
			{"localhost:1", "", "plain listed any open auth noname"},
			{"agents.localhost:2024", "", "plain listed any open auth noname"},
			{"[::1]:2024", "", "plain listed any open auth noname"},
			{"[::1]", "", "plain listed any open auth noname"},
			{"127.8.8.8:2024", "", "plain listed any open auth noname"},
			{"10.0.0.7:2024", "", "plain listed any open auth noname"},
			{own, "http://" + own, "plain listed any open auth noname"},
			{own, "http://localhost:5173", "plain listed any open auth noname"},
			{own, "http://127.0.0.1:3000", "plain listed any open auth noname"},
			{own, "http://[::1]:3000", "plain listed any open auth noname"},

			{"rebind.evil.test:2024", "", "any auth"},
			{"localhost.evil.test", "", "any auth"},
			{"notlocalhost", "", "any auth"},
			{"127.0.0.1.nip.io", "", "any auth"},
			{"rebind.evil.test:2024", "http://rebind.evil.test:2024", "any auth"},
			{"agents.test:2024", "", "listed any auth"},
			{"AGENTS.test", "", "listed any auth"},
			{"a.corp.test", "", "listed any auth"},
			{"corp.test", "", "any auth"},
			{"ported.test:9", "", "listed any auth"},
			{"agents.test", "https://agents.test", "listed any auth"},
			{own, "https://agents.test", "listed open auth"},
			{own, "https://app.test", "listed open auth"},
			{own, "https://app.test:8443", "open auth"},
			{own, "https://evil.test", "open auth"},
			{own, "http://localhost.evil.test", "open auth"},
			{own, "http://127.0.0.1.evil.test", "open auth"},
			{own, "http://10.0.0.7:2024", "open auth"},
			{own, "null", "listed open auth"},
			{own, "chrome-extension://localhost", "open auth"},
			{own, "file://localhost", "open auth"},
		} {
			want := slices.Contains(strings.Fields(x.accepted), name)
			head := http.Header{"Content-Type": {"text/plain"}}
			if x.origin != "" {
				head.Set("Origin", x.origin)
			}
			for _, rt := range []struct{ method, path, body string }{
				{"POST", "/runs/wait", guardedRun},
				{"GET", "/ok", ""},
				{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
				{"POST", "/threads", `{}`},
			} {
				status, _, answer := c.sendAs(x.host, rt.method, rt.path, rt.body, head)
				if ok := status == http.StatusOK; ok != want || !ok && status != http.StatusForbidden {
					t.Errorf("%s: Host %q, Origin %q: %s: %d %s", name, x.host, x.origin, rt.path, status, answer)
				}
			}
		}
	}
}

// A web page must not get an answer to its preflight, nor a WebSocket, nor the studio.
func TestLoopbackServerRejectsPagesEverywhere(t *testing.T) {
	c := serve(t, &server.Options{Studio: true})
	evil := http.Header{"Origin": {"https://evil.test"}, "Access-Control-Request-Method": {"POST"}}
	if status, head, _ := c.sendAs("", "OPTIONS", "/runs/wait", "", evil); status != http.StatusForbidden || head.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight: %d %v", status, head)
	}
	if status, _, _ := c.sendAs("rebind.evil.test", "GET", "/studio/", "", nil); status != http.StatusForbidden {
		t.Errorf("studio: %d", status)
	}
	thread := c.thread()
	_, resp, err := websocket.Dial(t.Context(), c.base+"/threads/"+thread+"/stream/events", &websocket.DialOptions{Host: "rebind.evil.test", HTTPHeader: http.Header{"Origin": {"http://rebind.evil.test"}}}) //nolint:bodyclose // Dial returns a body that needs no Close
	if err == nil || resp == nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("WebSocket: %v %v", resp, err)
	}
	if status, _, page := c.sendAs("", "GET", "/studio/", "", nil); status != http.StatusOK || !strings.Contains(page, "<html") {
		t.Errorf("studio of this machine: %d", status)
	}
	same := http.Header{"Origin": {c.base}}
	if status, _, answer := c.sendAs("", "POST", "/runs/wait", guardedRun, same); status != http.StatusOK {
		t.Errorf("a page of the server: %d %s", status, answer)
	}
}
