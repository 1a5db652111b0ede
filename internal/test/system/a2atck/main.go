// Command a2atck serves the agent that A2A's test kits require. docs/a2a.md explains how to run the kits.
//
//	go run ./internal/test/system/a2atck -addr 127.0.0.1:2024 -kit 1.0
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

// state has the fields whose values become parts of an artifact.
type state struct {
	Messages llm.Messages   `json:"messages"`
	Response map[string]any `json:"structured_response,omitempty"`
}

type answer struct {
	Messages llm.Messages    `json:"messages"`
	Response *map[string]any `json:"structured_response"`
}

func main() {
	addr := flag.String("addr", "127.0.0.1:2024", "the `address` to listen on")
	kit := flag.String("kit", "0.3", "the `version` of the kit, 0.3 or 1.0")
	key := flag.String("key", "", "the bearer `token` that calls must have, but not requests for the card; empty means none")
	card := flag.Bool("extended", false, "have an extended card, also without credentials, which the kits do not send")
	push := flag.Bool("push", true, "send push notifications")
	flag.Parse()
	if err := serve(*addr, *kit, *key, *card, *push); err != nil {
		log.Fatal(err)
	}
}

func serve(addr, kit, key string, card, push bool) error {
	b := treadle.New[state]("tck")
	work := treadle.AddNode(b, "work", respond)
	wait := treadle.AddNode(b, "wait", func(ctx context.Context, s state) (answer, error) { return ask(ctx, s, kit) })
	b.Edge(treadle.Start, work)
	b.Edge(work, wait)
	treadle.AddBranch(b, wait, func(_ context.Context, s state) (treadle.Goto, error) {
		if last(s).Role == llm.RoleHuman {
			return treadle.To(work), nil
		}
		return treadle.To(treadle.End), nil
	}, work, treadle.End)
	g, err := b.Compile(nil)
	if err != nil {
		return err
	}
	db, err := sqlite.Open(":memory:", nil)
	if err != nil {
		return err
	}
	o := &server.Options{Webhooks: &server.Webhooks{AllowLoopback: true, Disable: !push}}
	if key != "" || card {
		user := &server.User{Identity: "tck"}
		o.Auth = &server.Auth{Authenticate: func(r *http.Request) (*server.User, error) {
			if card || r.Method == http.MethodGet || r.Header.Get("Authorization") == "Bearer "+key {
				return user, nil
			}
			return nil, errors.New("want the key")
		}, On: server.OwnerRules(), Schemes: map[string]server.SecurityScheme{"key": {Type: "http", Scheme: "bearer"}}}
	}
	h, err := server.New(db, []treadle.AnyGraph{g}, o)
	if err != nil {
		return err
	}
	return (&http.Server{Addr: addr, Handler: h, ReadHeaderTimeout: time.Minute}).ListenAndServe()
}

func last(s state) llm.Message { return s.Messages[len(s.Messages)-1] }

// respond does what the ID of the user's message asks for.
func respond(ctx context.Context, s state) (answer, error) {
	is := func(prefix string) bool { return strings.HasPrefix(last(s).ID, prefix) }
	m := llm.Assistant("Hello from TCK")
	out := answer{}
	switch {
	case is("test-resubscribe-message-id"):
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return out, ctx.Err()
		}
	case is("tck-artifact-text"):
		m = llm.Assistant("Generated text content")
	case is("tck-artifact-file-url"):
		file := llm.File("output.txt", "text/plain", nil)
		file.URL = "https://example.com/output.txt"
		m = llm.Message{Role: llm.RoleAI, Blocks: []llm.Block{file}}
	case is("tck-artifact-file"):
		m = llm.Message{Role: llm.RoleAI, Blocks: []llm.Block{llm.File("output.txt", "text/plain", []byte("hello"))}}
	case is("tck-message-response"):
		m = llm.Message{Role: llm.RoleAI, Content: "Direct message response", Metadata: map[string]any{"a2a": "message"}}
	case is("tck-artifact-data"):
		m = llm.Assistant("")
		out.Response = &map[string]any{"key": "value", "count": 42}
	}
	out.Messages = llm.Messages{m}
	return out, nil
}

// ask waits for another message. Kit 0.3 expects this of every task, kit 1.0 of those whose first
// message says so, and after further messages with this text.
func ask(ctx context.Context, s state, kit string) (answer, error) {
	var said llm.Message
	for _, m := range s.Messages {
		if m.Role == llm.RoleHuman {
			said = m
		}
	}
	if kit == "1.0" && !strings.HasPrefix(said.ID, "tck-input-required") && !strings.HasPrefix(said.Text(), "TCK history message") {
		return answer{}, nil
	}
	text, err := treadle.Interrupt[string](ctx, "What else?")
	if err != nil {
		return answer{}, err
	}
	return answer{Messages: llm.Messages{llm.User(text)}}, nil
}
