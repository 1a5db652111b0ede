package server_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/server"
)

// A client gets neither the name of the node nor the stack of a panic, so the log has both.
func TestFailedRunsAreLogged(t *testing.T) {
	type state struct{ N int }
	b := treadle.New[state]("fragile")
	treadle.AddNode(b, "breaks", func(_ context.Context, s state) (state, error) {
		if s.N == 1 {
			panic("no")
		}
		return state{}, errors.New("disk full")
	})
	b.Edge(treadle.Start, "breaks")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	for input, want := range map[string][]string{
		`{"N":1}`: {`level=ERROR msg="run panicked" run=`, ` thread=`, `node \"breaks\"`, `stack="goroutine `, "log_test.go"},
		`{"N":2}`: {`level=WARN msg="run failed" run=`, ` thread=`, `node \"breaks\"`, `disk full`},
	} {
		var log bytes.Buffer
		srv, err := server.New(newMemory(), []treadle.AnyGraph{g}, &server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(srv)
		c := &client{t: t, base: web.URL, head: http.Header{}}
		c.do("POST", "/runs/wait", `{"assistant_id":"fragile","input":`+input+`}`)
		if err := srv.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		web.Close()
		for _, part := range want {
			if !strings.Contains(log.String(), part) {
				t.Errorf("log after input %s lacks %s: %s", input, part, log.String())
			}
		}
	}
}
