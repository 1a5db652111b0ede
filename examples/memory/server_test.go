package memory_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// A server whose agent remembers each of its users. {user} is the authenticated user,
// regardless of what the client sends. The graph, the manager, and the recaller are built
// without a store: the server provides it and passes it to Start, where the reflector that
// extracts memories in the background gets its journal.
func Example_serverWithUsers() {
	extractor := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("Memory", memory.Memory{Content: "Ann is allergic to nuts"})))
	model := llmtest.NewScript(llmtest.Say("Noted."), llmtest.Say("Not the one with nuts."), llmtest.Say("Any of them."))
	allow := func(context.Context, *server.Access) (server.Decision, error) { return server.Allow(nil), nil }
	auth := &server.Auth{
		Authenticate: server.APIKeys(map[string]*server.User{"ann's key": {Identity: "ann"}, "bob's key": {Identity: "bob"}}),
		On:           server.Rules{"threads": allow, "assistants:read": allow},
	}

	place := []string{"memories", "{user}"}
	manager := treadle.Must(memory.NewStoreManager(extractor, &memory.StoreManagerOptions{Namespace: place}))
	recaller := treadle.Must(memory.NewRecaller(&memory.RecallerOptions{Namespace: place}))
	reflector := treadle.Must(memory.NewReflector(manager.ReflectOn, nil))
	chat := treadle.Must(agent.New(model, &agent.Options{Name: "chat", Middleware: []*agent.Middleware{
		memory.Middleware(&memory.MiddlewareOptions{Recall: recaller, Manager: manager, Reflector: reflector, After: time.Minute}),
	}}))
	options := &server.Options{
		Auth: auth,
		Start: func(ctx context.Context, s *store.Store) (func(context.Context) error, error) {
			return reflector.Close, reflector.Open(ctx, s, store.Namespace{"pending"})
		},
	}
	db := treadle.Must(sqlite.Open(":memory:", nil))
	srv := treadle.Must(server.New(db, []treadle.AnyGraph{chat}, options)) // a program calls standalone.Main(options, chat)

	ask := func(key, text, more string) {
		body := fmt.Sprintf(`{"assistant_id":"chat","input":{"messages":[{"role":"user","content":%q}]}%s}`, text, more)
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/runs/wait", strings.NewReader(body))
		r.Header.Set("X-Api-Key", key)
		srv.ServeHTTP(httptest.NewRecorder(), r)
	}
	ask("ann's key", "I am allergic to nuts", "")
	if err := reflector.Flush(context.Background()); err != nil { // instead of waiting a minute
		fmt.Println(err)
	}
	ask("ann's key", "Which cake has no nuts?", "")
	ask("bob's key", "Which cake has no nuts?", `,"config":{"configurable":{"user":"ann","langgraph_auth_user_id":"ann"}}`)
	for i, req := range model.Requests() {
		fmt.Printf("%d: %v\n", i+1, strings.Contains(req.Messages[0].Text(), "Ann is allergic to nuts"))
	}
	if err := srv.Drain(context.Background()); err != nil {
		fmt.Println(err)
	}
	if err := db.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1: false
	// 2: true
	// 3: false
}
