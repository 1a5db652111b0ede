package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

type said struct{ Messages llm.Messages }

// echo is a graph that repeats the last message.
func echo() (treadle.AnyGraph, error) {
	b := treadle.New[llm.Chat]("echo")
	treadle.AddNode(b, "echo", func(_ context.Context, s llm.Chat) (said, error) {
		return said{llm.Messages{llm.Assistant("You said: " + s.Messages[len(s.Messages)-1].Text())}}, nil
	})
	b.Sequence(treadle.Start, "echo", treadle.End)
	return b.Compile(nil)
}

// owner gives each user the rows that it has made, and nothing of others.
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

// Users with keys have threads of their own, and share the assistants.
func ExampleAPIKeys() {
	auth := &server.Auth{
		Authenticate: server.APIKeys(map[string]*server.User{
			"key of ann": {Identity: "ann"},
			"key of bob": {Identity: "bob"},
		}),
		On: map[string]func(context.Context, *server.Access) (server.Decision, error){
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

// A tool acts for the authenticated user, whatever the client or the model says.
func ExampleUserFrom() {
	orders := map[string][]string{"ann": {"a teapot"}, "bob": {"a bicycle"}}
	list := llm.NewTool("list_orders", "List the user's orders.", func(ctx context.Context, _ struct{}) ([]string, error) {
		return orders[server.UserFrom(ctx).Identity], nil
	})
	b := treadle.New[llm.Chat]("shop")
	treadle.AddNode(b, "list", func(ctx context.Context, _ llm.Chat) (said, error) {
		found, err := list.Call(ctx, llm.ToolCall{ID: "1", Name: "list_orders", Args: []byte("{}")})
		return said{llm.Messages{llm.Assistant(fmt.Sprint("You ordered ", found))}}, err
	})
	b.Sequence(treadle.Start, "list", treadle.End)
	srv, err := server.New(newMemory(), []treadle.AnyGraph{treadle.Must(b.Compile(nil))}, &server.Options{Auth: &server.Auth{
		Authenticate: server.APIKeys(map[string]*server.User{"key of ann": {Identity: "ann"}}),
		On:           map[string]func(context.Context, *server.Access) (server.Decision, error){"*": anybody},
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

// Main is the whole program of most servers. Here it only prints its help.
func ExampleMain() {
	os.Args = []string{"shop", "--help"}
	server.Main(nil, treadle.Must(echo()))
	// Output:
	// Usage: shop [command] [flags]
	//
	// Commands:
	//   serve     serve the graphs (the default)
	//   dev       serve them for development: open to local web pages, private webhooks, a log of requests
	//   openapi   print the description of the API
	//
	// Flags:
	//   --allow A,B        further hosts and origins, A,B, such as agents.test or https://app.test, that may call a server without Auth on a loopback address
	//   --config FILE      FILE with the configuration (default treadle.json, or else langgraph.json, if it is there)
	//   --db FILE          the database, a FILE, or postgres://… for several processes (default treadle.db)
	//   --grace TIME       the TIME that runs may take to end their step at shutdown (default 30s)
	//   --graphs A,B       the graphs whose runs this process executes, A,B; all if it is empty
	//   --host HOST        the HOST to listen at (default 127.0.0.1)
	//   --log FORMAT       the FORMAT of the log: auto, json, text or pretty (default auto)
	//   --log-requests     log each request
	//   --memory SIZE      memory limit of the server's caches, a SIZE such as 64MiB or 1GiB (default a share of the machine's memory)
	//   --nats ADDRESSES   the ADDRESSES of NATS, nats://a,nats://b, that connects processes on one Postgres
	//   --port PORT        the PORT; 0 takes a free one (default 2024)
	//   --revision N       the number of this deploy, N: a thread goes on with the same or a greater one (default 0)
	//   --role ROLE        the ROLE of this process: all, api (executes no runs) or worker (answers no clients) (default all)
	//   --studio           serve the studio, a web page to run and inspect the graphs, at /studio/
}
