package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// counting is a server that counts its open connections.
type counting struct {
	mu     sync.Mutex
	open   int
	closed chan time.Time // when a connection was closed, for each
}

func (c *counting) serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	c.closed = make(chan time.Time, 16)
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch s {
		case http.StateNew:
			c.open++
		case http.StateClosed:
			c.open--
			c.closed <- time.Now()
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

func (c *counting) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// checkHistory reports what the strictest server would reject: a call without a
// result directly after it, or a result without a call.
func checkHistory(body []byte) error {
	var req wireRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return err
	}
	var due []string
	for i, m := range req.Messages {
		if m.Role == "tool" {
			if len(due) == 0 || due[0] != m.ToolCallID {
				return fmt.Errorf("message %d answers %s; due is %v", i, m.ToolCallID, due)
			}
			due = due[1:]
			continue
		}
		if len(due) > 0 {
			return fmt.Errorf("message %d comes before the results of %v", i, due)
		}
		for _, c := range m.ToolCalls {
			due = append(due, c.ID)
		}
	}
	if len(due) > 0 {
		return fmt.Errorf("missing results of %v", due)
	}
	return nil
}

// A turn that is canceled in the middle of a tool call closes its connection at
// once, and leaves a thread that goes on.
func TestThreadContinuesAfterCanceledTurn(t *testing.T) {
	pieces := []string{
		`data: {"choices":[{"index":0,"delta":{"content":"I look."}}]}`,
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}]}}]}`,
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_2","function":{"name":"get_weather","arguments":"{\"ci"}}]}}]}`,
	}
	var server counting
	turn := 0
	url := server.serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = checkHistory(body)
		}
		if err != nil {
			t.Errorf("%v in %s", err, body)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if turn++; turn == 2 {
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Sunny.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
			return
		}
		for _, p := range pieces {
			_, _ = io.WriteString(w, p+"\n\n")
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	model, err := openai.New("gpt-test", &openai.Options{BaseURL: url, Key: "a key"})
	if err != nil {
		t.Fatal(err)
	}
	thread := llm.Messages{llm.User("Weather?")}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var at time.Time
	var sofar llm.Chunk
	var last error
	for chunk, err := range llm.Stream(ctx, llm.With(model, llm.Tools(weather())), thread...) {
		last = err
		if err != nil {
			break
		}
		if sofar, err = sofar.Add(chunk); err != nil {
			t.Fatal(err)
		}
		if len(sofar.ToolCalls) == 2 {
			at = time.Now()
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Fatalf("the turn ended with %v, want context.Canceled", last)
	}
	select {
	case closed := <-server.closed:
		if took := closed.Sub(at); took > 10*time.Second {
			t.Errorf("the connection was open for %v after the cancel", took)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the connection was not closed")
	}
	if n := server.count(); n != 0 {
		t.Errorf("the server has %d open connections, want none", n)
	}
	thread, err = thread.Reduce(llm.Messages{sofar.Message(), llm.User("Well?")})
	if err != nil {
		t.Fatal(err)
	}
	m, err := llm.Generate(t.Context(), llm.With(model, llm.Tools(weather())), thread...)
	if err != nil || m.Text() != "Sunny." {
		t.Errorf("the next turn gave %q, %v", m.Text(), err)
	}
}
