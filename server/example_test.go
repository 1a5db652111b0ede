package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

type said struct{ Messages llm.Messages }

// echo returns a graph that repeats the last message.
func echo() (treadle.AnyGraph, error) {
	b := treadle.New[llm.Chat]("echo")
	treadle.AddNode(b, "echo", func(_ context.Context, s llm.Chat) (said, error) {
		return said{llm.Messages{llm.Assistant("You said: " + s.Messages[len(s.Messages)-1].Text())}}, nil
	})
	b.Sequence(treadle.Start, "echo", treadle.End)
	return b.Compile(nil)
}

// owner lets users access only the rows that they created.
func owner(_ context.Context, a *server.Access) (server.Decision, error) {
	metadata, _ := a.Value["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		a.Value["metadata"] = metadata
	}
	metadata["owner"] = a.User.Identity
	return server.Allow(map[string]any{"owner": a.User.Identity}), nil
}

func anybody(context.Context, *server.Access) (server.Decision, error) {
	return server.Allow(nil), nil
}

// Each user accesses only their own data, even if they guess the ID of another user's thread.
func ExampleOwnerRules() {
	auth := &server.Auth{
		Authenticate: server.APIKeys(map[string]*server.User{
			"key of ann": {Identity: "ann"},
			"key of bob": {Identity: "bob"},
		}),
		On: server.OwnerRules(),
	}

	srv, err := server.New(newMemory(), []treadle.AnyGraph{treadle.Must(echo())}, &server.Options{Auth: auth})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = srv.Drain(context.Background()) }()
	send := func(key, method, path, body string) int {
		r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
		r.Header.Set("X-Api-Key", key)
		w := httptest.NewRecorder()
		srv.ServeHTTP(w, r)
		return w.Code
	}
	const thread = "3f0d0e0c-7d1f-4c59-9b0a-6c1e2f3a4b5c"
	fmt.Println("no key:", send("no key", "POST", "/threads", `{}`))
	fmt.Println("ann creates a thread:", send("key of ann", "POST", "/threads", `{"thread_id":"`+thread+`"}`))
	fmt.Println("ann runs a graph:", send("key of ann", "POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"echo","input":{"messages":[{"role":"user","content":"hi"}]}}`))
	fmt.Println("bob reads the thread:", send("key of bob", "GET", "/threads/"+thread, ""))
	fmt.Println("bob deletes the thread:", send("key of bob", "DELETE", "/threads/"+thread, ""))
	// Output:
	// no key: 401
	// ann creates a thread: 200
	// ann runs a graph: 200
	// bob reads the thread: 404
	// bob deletes the thread: 404
}

// Custom handlers: users own their threads, share the assistants, and cannot use the store.
func ExampleRules() {
	auth := &server.Auth{
		Authenticate: server.APIKeys(map[string]*server.User{
			"key of ann": {Identity: "ann"},
			"key of bob": {Identity: "bob"},
		}),
		On: server.Rules{
			"assistants:read":   anybody,
			"assistants:search": anybody,
			"threads":           owner,
		},
	}

	srv, err := server.New(newMemory(), []treadle.AnyGraph{treadle.Must(echo())}, &server.Options{Auth: auth})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = srv.Drain(context.Background()) }()
	ask := func(key, method, path, body string) int {
		r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
		r.Header.Set("X-Api-Key", key)
		w := httptest.NewRecorder()
		srv.ServeHTTP(w, r)
		return w.Code
	}
	const thread = "3f0d0e0c-7d1f-4c59-9b0a-6c1e2f3a4b5c"
	fmt.Println(ask("no key", "POST", "/threads", `{}`))
	fmt.Println(ask("key of ann", "POST", "/threads", `{"thread_id":"`+thread+`"}`))
	fmt.Println(ask("key of ann", "GET", "/threads/"+thread, ""))
	fmt.Println(ask("key of bob", "GET", "/threads/"+thread, ""))
	fmt.Println(ask("key of ann", "PUT", "/store/items", `{"namespace":["a"],"key":"k","value":{}}`)) // no handler decides about the store
	// Output:
	// 401
	// 200
	// 200
	// 404
	// 403
}

// A tool acts for the authenticated user, regardless of the client and the model.
func ExampleUserFrom() {
	orders := map[string][]string{"ann": {"a teapot"}, "bob": {"a bicycle"}}
	list := llm.NewTool("list_orders", "List the user's orders.", func(ctx context.Context, _ struct{}) ([]string, error) {
		user := server.UserFrom(ctx)
		if user == nil { // no Auth, or not on a server
			return nil, errors.New("no user")
		}
		return orders[user.Identity], nil
	})
	b := treadle.New[llm.Chat]("shop")
	treadle.AddNode(b, "list", func(ctx context.Context, _ llm.Chat) (said, error) {
		found, err := list.Call(ctx, llm.ToolCall{ID: "1", Name: "list_orders", Args: []byte("{}")})
		return said{llm.Messages{llm.Assistant(fmt.Sprint("You ordered ", found))}}, err
	})
	b.Sequence(treadle.Start, "list", treadle.End)
	srv, err := server.New(newMemory(), []treadle.AnyGraph{treadle.Must(b.Compile(nil))}, &server.Options{Auth: &server.Auth{
		Authenticate: server.APIKeys(map[string]*server.User{"key of ann": {Identity: "ann"}}),
		On:           server.Rules{"*": anybody},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = srv.Drain(context.Background()) }()
	body := `{"assistant_id":"shop","input":{"messages":[]},"context":{"user":"bob"},"config":{"configurable":{"langgraph_auth_user_id":"bob"}}}`
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/runs/wait", strings.NewReader(body))
	r.Header.Set("X-Api-Key", "key of ann")
	w := httptest.NewRecorder()
	srv.ServeHTTP(w, r)
	fmt.Println(strings.Contains(w.Body.String(), "a teapot"), strings.Contains(w.Body.String(), "a bicycle"))
	// Output: true false
}

// A server is a handler of a program that has other routes too.
func ExampleNew() {
	db, err := sqlite.Open(":memory:", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	srv, err := server.New(db, []treadle.AnyGraph{treadle.Must(echo())}, &server.Options{MaxRunTime: 10 * time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/agents/", http.StripPrefix("/agents", srv))

	hs := httptest.NewServer(mux)
	body := strings.NewReader(`{"assistant_id":"echo","input":{"messages":[{"role":"user","content":"hi"}]}}`)
	resp, err := http.Post(hs.URL+"/agents/runs/wait", "application/json", body) //nolint:noctx // it is an example
	if err != nil {
		fmt.Println(err)
		return
	}
	raw, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	fmt.Println(strings.Contains(string(raw), "You said: hi"))

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = srv.Drain(ctx) // runs end their step and continue at the next start
	hs.Close()
	_ = db.Close()
	// Output: true
}

// Card numbers are replaced before a span is stored, and spans are deleted after a day.
func ExampleSpanOptions() {
	cards := regexp.MustCompile(`\b(?:\d{4}[ -]?){3}\d{4}\b`)
	opts := &server.Options{Spans: &server.SpanOptions{
		Redact: func(text string) string { return cards.ReplaceAllString(text, "[card]") },
		Age:    24 * time.Hour,
	}}
	fmt.Println(opts.Spans.Redact("Charge 4111 1111 1111 1111."))
	// Output: Charge [card].
}

// MCP clients that log their user in find the login page through the metadata of the endpoint. The token
// must have been issued for this server: otherwise, another service could use the tokens that its users send.
func ExampleMCP_authorization() {
	const resource = "https://agents.example.com/mcp"
	type token struct {
		user, audience string
		scopes         []string
	}
	issued := map[string]token{
		"token-of-ann":   {"ann", resource, []string{"agents:run"}},
		"token-for-mail": {"ann", "https://mail.example.com", []string{"agents:run"}},
	}
	authenticate := func(r *http.Request) (*server.User, error) { // usually server.JWT, with resource as the Audience
		t, ok := issued[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		if !ok || t.audience != resource {
			return nil, errors.New("invalid token")
		}
		return &server.User{Identity: t.user, Permissions: t.scopes, Claims: map[string]any{"exp": time.Now().Add(time.Hour)}}, nil
	}
	srv, err := server.New(newMemory(), []treadle.AnyGraph{treadle.Must(echo())},
		&server.Options{Auth: &server.Auth{Authenticate: authenticate, On: server.Rules{"*": anybody}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = srv.Drain(context.Background()) }()

	const metadata = "/.well-known/oauth-protected-resource"
	verify := func(_ context.Context, _ string, r *http.Request) (*auth.TokenInfo, error) {
		user, err := authenticate(r)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", auth.ErrInvalidToken, err)
		}
		expires, _ := user.Claims["exp"].(time.Time)
		return &auth.TokenInfo{UserID: user.Identity, Scopes: user.Permissions, Expiration: expires}, nil
	}
	checked := auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{
		ResourceMetadataURL: "https://agents.example.com" + metadata, Scopes: []string{"agents:run"}})
	mux := http.NewServeMux()
	mux.Handle("/", srv)
	mux.Handle("/mcp", checked(srv))
	mux.Handle(metadata, auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: resource, AuthorizationServers: []string{"https://id.example.com"}, ScopesSupported: []string{"agents:run"}}))

	call := func(token string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
	for _, token := range []string{"old-token", "token-for-mail"} {
		w := call(token)
		fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"))
	}
	tools := call("token-of-ann")
	fmt.Println(tools.Code, strings.Contains(tools.Body.String(), `"name":"echo"`))
	// Output:
	// 401 Bearer resource_metadata="https://agents.example.com/.well-known/oauth-protected-resource", scope="agents:run"
	// 401 Bearer resource_metadata="https://agents.example.com/.well-known/oauth-protected-resource", scope="agents:run"
	// 200 true
}

// Tokens of an identity provider are checked with its published keys.
func ExampleJWT() {
	authenticate, err := server.JWT(&server.JWTOptions{
		JWKS:     "https://id.example.com/.well-known/jwks.json",
		Issuer:   "https://id.example.com/",
		Audience: "shop",
	})
	fmt.Println(authenticate != nil, err)
	// Output: true <nil>
}
