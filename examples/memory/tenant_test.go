package memory_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

// A variable of a namespace is derived from the user, here the tenant in a claim.
func Example_tenants() {
	manager := treadle.Must(memory.NewStoreManager(llmtest.NewScript(), &memory.StoreManagerOptions{Namespace: []string{"orgs", "{org}"}}))
	g := treadle.Must(treadle.NewWorkflow("where", func(ctx context.Context, _ string) (string, error) {
		place, err := manager.Namespace(ctx)
		return strings.Join(place, "/"), err
	}, nil))
	allow := func(context.Context, *server.Access) (server.Decision, error) { return server.Allow(nil), nil }
	options := &server.Options{
		Auth: &server.Auth{
			Authenticate: server.APIKeys(map[string]*server.User{"ann's key": {Identity: "ann", Claims: map[string]any{"org": "acme"}}}),
			On:           server.Rules{"*": allow},
		},
		Context: func(ctx context.Context) context.Context {
			if u := server.UserFrom(ctx); u != nil {
				org, _ := u.Claims["org"].(string)
				return memory.WithVars(ctx, map[string]string{"org": org})
			}
			return ctx
		},
	}
	db := treadle.Must(sqlite.Open(":memory:", nil))
	srv := treadle.Must(server.New(db, []treadle.AnyGraph{g}, options))

	body := `{"assistant_id":"where","input":"","config":{"configurable":{"org":"other"}}}` // the client cannot choose
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/runs/wait", strings.NewReader(body))
	r.Header.Set("X-Api-Key", "ann's key")
	w := httptest.NewRecorder()
	srv.ServeHTTP(w, r)
	fmt.Println(w.Body)
	if err := srv.Drain(context.Background()); err != nil {
		fmt.Println(err)
	}
	if err := db.Close(); err != nil {
		fmt.Println(err)
	}
	// Output: "orgs/acme"
}
