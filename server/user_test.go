package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/store"
)

// whoami returns a graph whose messages describe the user of the run: once in a node of a
// nested graph, which calls a tool, and again after the user's message has made the run
// sleep, interrupt, or hold.
func whoami(t *testing.T, process string, hold func()) treadle.AnyGraph {
	t.Helper()
	tool := llm.NewTool("whoami", "", func(ctx context.Context, _ struct{}) (string, error) {
		u := server.UserFrom(ctx)
		if u == nil {
			return "nobody", nil
		}
		return fmt.Sprintf("%s %s %v %v %T", u.Identity, u.DisplayName, u.Permissions, u.Claims["org"], u.Claims["age"]), nil
	})
	who := func(ctx context.Context, _ llm.Chat) (said, error) {
		v, err := tool.Call(ctx, llm.ToolCall{ID: "1", Name: "whoami", Args: json.RawMessage("{}")})
		return said{llm.Messages{llm.Assistant(fmt.Sprintf("%s: %v", process, v))}}, err
	}
	inner := treadle.New[llm.Chat]("inner")
	treadle.AddNode(inner, "who", who)
	inner.Sequence(treadle.Start, "who", treadle.End)
	b := treadle.New[llm.Chat]("whoami")
	treadle.AddGraph(b, "inner", treadle.Must(inner.Compile(nil)))
	treadle.AddNode(b, "do", func(ctx context.Context, s llm.Chat) (said, error) {
		var err error
		switch s.Messages[0].Text() {
		case "sleep":
			err = treadle.Sleep(ctx, 20*time.Millisecond)
		case "ask":
			_, err = treadle.Interrupt[string](ctx, "who are you?")
		case "hold":
			hold()
		}
		return said{}, err
	})
	treadle.AddNode(b, "again", who)
	b.Sequence(treadle.Start, "inner", "do", "again", treadle.End)
	return treadle.Must(b.Compile(nil))
}

// knownAnn returns the text that whoami writes twice about the user ann of identified, in
// one process or two.
func knownAnn(processes ...string) string {
	if len(processes) == 1 {
		processes = append(processes, processes...)
	}
	const one = ": ann Dr. ann [read write] acme json.Number"
	return processes[0] + one + ", " + processes[1] + one
}

// identified lets users in by their name, and to everything.
func identified() *server.Auth {
	return &server.Auth{
		Authenticate: func(r *http.Request) (*server.User, error) {
			name := r.Header.Get("X-User")
			if name == "" {
				return nil, errors.New("who are you?")
			}
			return &server.User{Identity: name, DisplayName: "Dr. " + name, Permissions: []string{"read", "write"}, Claims: map[string]any{"org": "acme", "age": 7}}, nil
		},
		On: server.Rules{"*": func(ctx context.Context, a *server.Access) (server.Decision, error) {
			if u := server.UserFrom(ctx); u != a.User {
				return server.Decision{}, fmt.Errorf("UserFrom: %v", u)
			}
			return server.Allow(nil), nil
		}},
	}
}

// answers returns the texts of the assistant's messages.
func answers(t *testing.T, raw []byte) string {
	t.Helper()
	var state struct {
		Messages []struct{ Type, Content string }
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	var out []string
	for _, m := range state.Messages {
		if m.Type == "ai" {
			out = append(out, m.Content)
		}
	}
	return strings.Join(out, ", ")
}

// runOf returns the body of a run with a message and more fields.
func runOf(text, more string) string {
	return fmt.Sprintf(`{"assistant_id":"whoami","input":{"messages":[{"role":"user","content":%q}]}%s}`, text, more)
}

// settled returns the assistant's messages on a thread after its runs have ended.
func (c *client) settled(thread string) string {
	c.t.Helper()
	c.until(thread, "idle", idle)
	_, _, raw := c.do("GET", "/threads/"+thread, "")
	var row struct{ Values json.RawMessage }
	if err := json.Unmarshal(raw, &row); err != nil {
		c.t.Fatal(err)
	}
	return answers(c.t, row.Values)
}

func TestUserReachesRuns(t *testing.T) {
	b := bus.NewMemory()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	held, release := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() {
		close(held)
		<-release
	})
	first := serveShared(t, newMemory(), b, []treadle.AnyGraph{whoami(t, "first", hold)}, server.Options{Auth: identified()})
	ann, bob := first.as("ann"), first.as("bob")
	is := func(t *testing.T, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("the user is\n%s, want\n%s", got, want)
		}
	}
	for name, more := range map[string]string{
		"":                     "",
		" with forged config":  `,"config":{"configurable":{"langgraph_auth_user_id":"bob","langgraph_auth_user":{"identity":"bob"},"user":"bob"}}`,
		" with forged context": `,"context":{"langgraph_auth_user_id":"bob","langgraph_auth_user":{"identity":"bob"},"user":"bob"}`,
		" with a forged null":  `,"config":{"configurable":{"langgraph_auth_user":null}}`,
	} {
		t.Run("wait"+name, func(t *testing.T) {
			_, _, raw := ann.do("POST", "/runs/wait", runOf("hi", more))
			is(t, answers(t, raw), knownAnn("first"))
		})
	}
	t.Run("stream", func(t *testing.T) {
		if _, _, raw := ann.do("POST", "/runs/stream", runOf("hi", "")); strings.Count(string(raw), ": ann Dr. ann") == 0 {
			t.Errorf("the stream is %s", raw)
		}
	})
	t.Run("background", func(t *testing.T) {
		thread := ann.thread()
		ann.ok("POST", "/threads/"+thread+"/runs", runOf("hi", ""), nil)
		is(t, ann.settled(thread), knownAnn("first"))
	})
	t.Run("wake-up", func(t *testing.T) {
		thread := ann.thread()
		ann.ok("POST", "/threads/"+thread+"/runs/wait", runOf("sleep", ""), nil)
		is(t, ann.settled(thread), knownAnn("first"))
	})
	t.Run("answer of another user", func(t *testing.T) {
		thread := ann.thread()
		ann.ok("POST", "/threads/"+thread+"/runs/wait", runOf("ask", ""), nil)
		bob.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"whoami","command":{"resume":"bob"}}`, nil)
		is(t, ann.settled(thread), "first: ann Dr. ann [read write] acme json.Number, first: bob Dr. bob [read write] acme json.Number")
	})
	t.Run("MCP", func(t *testing.T) {
		_, text := toolText(t, connect(t, ann), "whoami", map[string]any{"messages": []any{map[string]any{"role": "user", "content": "hi"}}})
		is(t, answers(t, []byte(text)), knownAnn("first"))
	})
	t.Run("A2A", func(t *testing.T) {
		task := ann.task("whoami", text("hi"), "")
		is(t, ann.settled(task.ContextID), knownAnn("first"))
	})
	t.Run("other process", func(t *testing.T) {
		thread := ann.thread()
		ann.ok("POST", "/threads/"+thread+"/runs", runOf("hold", ""), nil)
		<-held
		second := first.beside([]treadle.AnyGraph{whoami(t, "second", nil)}, server.Options{Auth: identified()})
		left := make(chan struct{})
		go func() {
			defer close(left)
			first.leave()
		}()
		for status := 0; status != http.StatusServiceUnavailable; {
			status, _, _ = first.do("GET", "/ok", "")
		}
		close(release)
		<-left
		is(t, second.as("ann").settled(thread), knownAnn("first", "second"))
	})
}

func TestUserReachesContextOption(t *testing.T) {
	type key struct{}
	seen := make(chan string, 1)
	b := treadle.New[llm.Chat]("whoami")
	treadle.AddNode(b, "who", func(ctx context.Context, _ llm.Chat) (said, error) {
		seen <- ctx.Value(key{}).(string)
		return said{}, nil
	})
	b.Sequence(treadle.Start, "who", treadle.End)
	srv, err := server.New(newMemory(), []treadle.AnyGraph{treadle.Must(b.Compile(nil))}, &server.Options{Auth: identified(), Context: func(ctx context.Context) context.Context {
		if u := server.UserFrom(ctx); u != nil {
			return context.WithValue(ctx, key{}, "tenant of "+u.Identity)
		}
		return ctx
	}})
	if err != nil {
		t.Fatal(err)
	}
	serveHandler(t, srv).as("ann").ok("POST", "/runs/wait", runOf("hi", ""), nil)
	if got := <-seen; got != "tenant of ann" {
		t.Errorf("the context has %q", got)
	}
}

func TestWithUser(t *testing.T) {
	ann := &server.User{Identity: "ann"}
	ctx := server.WithUser(t.Context(), ann)
	if u := server.UserFrom(ctx); u != ann {
		t.Errorf("user %v, want ann", u)
	}
	if u := server.UserFrom(server.WithUser(ctx, nil)); u != nil {
		t.Errorf("user %v, want none", u)
	}
}

func TestUserIsNilWithoutAuth(t *testing.T) {
	if u := server.UserFrom(t.Context()); u != nil {
		t.Errorf("outside a server: %v", u)
	}
	srv, err := server.New(newMemory(), []treadle.AnyGraph{whoami(t, "p", nil)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, raw := serveHandler(t, srv).do("POST", "/runs/wait", runOf("hi", `,"config":{"configurable":{"langgraph_auth_user":{"identity":"bob"}}}`))
	if got := answers(t, raw); got != "p: nobody, p: nobody" {
		t.Errorf("the user is %s", got)
	}
}

// serveHandler starts an HTTP server for srv.
func serveHandler(t *testing.T, srv *server.Server) *client {
	t.Helper()
	hs := httptest.NewServer(srv)
	t.Cleanup(func() {
		_ = srv.Drain(context.Background()) // some tests have drained it
		hs.Close()
	})
	return &client{t: t, base: hs.URL, head: http.Header{}}
}

func TestStartGetsStoreBeforeRuns(t *testing.T) {
	var order []string
	var got *store.Store
	b := treadle.New[llm.Chat]("whoami")
	treadle.AddNode(b, "who", func(ctx context.Context, _ llm.Chat) (said, error) {
		if treadle.StoreFrom(ctx) != got {
			t.Error("the run has another store")
		}
		order = append(order, "run")
		return said{}, nil
	})
	b.Sequence(treadle.Start, "who", treadle.End)
	graphs := []treadle.AnyGraph{treadle.Must(b.Compile(nil))}
	start := func(_ context.Context, s *store.Store) (func(context.Context) error, error) {
		got = s
		order = append(order, "start")
		return func(context.Context) error {
			order = append(order, "stop")
			return errors.New("disk full")
		}, nil
	}
	srv, err := server.New(newMemory(), graphs, &server.Options{Start: start})
	if err != nil {
		t.Fatal(err)
	}
	serveHandler(t, srv).ok("POST", "/runs/wait", runOf("hi", ""), nil)
	if err := srv.Drain(t.Context()); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Drain: %v", err)
	}
	if err := srv.Drain(t.Context()); err != nil {
		t.Errorf("a second Drain: %v", err)
	}
	if got := strings.Join(order, " "); got != "start run stop" {
		t.Errorf("the order is %s", got)
	}
	_, err = server.New(newMemory(), graphs, &server.Options{Start: func(context.Context, *store.Store) (func(context.Context) error, error) {
		return nil, errors.New("no journal")
	}})
	if err == nil || !strings.Contains(err.Error(), "Options.Start: no journal") {
		t.Errorf("New: %v", err)
	}
	order = nil
	if _, err := server.New(newMemory(), append(graphs, graphs...), &server.Options{Start: start}); err == nil || strings.Join(order, " ") != "start stop" {
		t.Errorf("New with two graphs of one name: %v after %q", err, order)
	}
}
