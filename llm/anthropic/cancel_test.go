package anthropic_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// connections counts the open connections of a server.
type connections struct {
	opened chan struct{}
	closed chan time.Time
}

func count(s *httptest.Server) *connections {
	c := &connections{make(chan struct{}, 10), make(chan time.Time, 10)}
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			c.opened <- struct{}{}
		case http.StateClosed:
			c.closed <- time.Now()
		}
	}
	return c
}

func (c *connections) open() int { return len(c.opened) - len(c.closed) }

// A turn that is canceled in the middle of a tool call ends its connection, and
// the thread continues with the received text.
func TestCanceledTurnClosesConnection(t *testing.T) {
	calls := []llmtest.Call{{ID: "toolu_1", Name: "get_weather", Args: []string{`{"city":`, `"Oslo"}`}}, {ID: "toolu_2", Name: "get_weather", Args: []string{`{"ci`, `ty":"Rome"}`}}}
	first := writeStream(llmtest.Reply{Reasoning: []string{"Hm."}, Signature: "c2ln", Text: []string{"Let me", " see."}, Calls: calls, Stop: llm.StopTools})
	turn := 0
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got, err := readRequest(r, body)
		if err == nil {
			err = llm.Check(got.Messages)
		}
		if err != nil {
			t.Errorf("the API would refuse: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if turn++; turn > 1 {
			text("json", http.StatusOK, string(writeWhole(llmtest.Reply{Text: []string{fmt.Sprint(len(got.Messages), " messages")}, Stop: llm.StopEnd})))(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range first[:len(first)-4] { // in the middle of the second call
			_, _ = w.Write(e)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	})
	s := httptest.NewUnstartedServer(handler)
	conns := count(s)
	s.Start()
	t.Cleanup(s.Close)
	model := open(t, s.URL)

	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stop := errors.New("the user pressed stop")
	history := llm.Messages{llm.User("Weather?")}
	var said llm.Chunk
	var last error
	var at time.Time
	for chunk, err := range llm.Stream(ctx, llm.With(model, llm.Tools(weather(nil))), history...) {
		if err != nil {
			last = err
			break
		}
		if said, err = said.Add(chunk); err != nil {
			t.Fatal(err)
		}
		if len(said.ToolCalls) == 2 && at.IsZero() {
			if n := conns.open(); n != 1 {
				t.Errorf("while the answer is streamed %d connections are open, want 1", n)
			}
			at = time.Now()
			cancel(stop)
		}
	}
	if !errors.Is(last, stop) {
		t.Errorf("the canceled call ended with %v, want the cause", last)
	}
	select {
	case closed := <-conns.closed:
		if took := closed.Sub(at); took > 10*time.Second {
			t.Errorf("the connection was open for %v after the cancel", took)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the connection was not closed")
	}

	history = append(history, said.Message(), llm.User("Go on."))
	m := generate(t, llm.With(model, llm.NoStream(), llm.Tools(weather(nil))), history...)
	if m.Text() != "5 messages" { // question, answer, two results, question
		t.Errorf("the next turn says %q, want that the API got 5 messages", m.Text())
	}
}
