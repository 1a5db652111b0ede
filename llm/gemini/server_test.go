package gemini_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// server is a fake API for tests of what only this provider has. It gives each
// request the next of its answers and keeps what it was asked.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	answers []http.HandlerFunc
	asked   []asked
	conns   map[net.Conn]struct{} // that are open
	closed  chan struct{}         // has a value for each that was closed
}

type asked struct {
	path   string
	header http.Header
	body   []byte
}

func serve(t *testing.T, answers ...http.HandlerFunc) *server {
	s := &server{answers: answers, conns: map[net.Conn]struct{}{}, closed: make(chan struct{}, 100)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		s.mu.Lock()
		s.asked = append(s.asked, asked{r.URL.Path, r.Header, body})
		n := len(s.asked)
		s.mu.Unlock()
		if err != nil || n > len(answers) {
			t.Errorf("request %d is unexpected (%v): %s", n, err, body)
			http.Error(w, "unexpected", http.StatusTeapot)
			return
		}
		answers[n-1](w, r)
	}))
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch state {
		case http.StateNew:
			s.conns[c] = struct{}{}
		case http.StateClosed, http.StateHijacked:
			delete(s.conns, c)
			s.closed <- struct{}{}
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// last returns the last request.
func (s *server) last() asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1]
}

// open returns the number of open connections.
func (s *server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// says responds with a body, unchanged.
func says(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// ok answers with a whole response of these parts.
func ok(parts ...object) http.HandlerFunc {
	return says(http.StatusOK, string(marshal(object{"responseId": "resp-1", "modelVersion": "gemini-test-001", "candidates": []object{
		{"content": object{"role": "model", "parts": parts}, "finishReason": "STOP"}}})))
}

// streams answers with these responses, one event each.
func streams(responses ...object) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, r := range responses {
			_, _ = w.Write(append(append([]byte("data: "), marshal(r)...), "\r\n\r\n"...))
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// event is a response of a stream.
func event(finish string, parts ...object) object {
	c := object{"content": object{"role": "model", "parts": parts}, "index": 0}
	if finish != "" {
		c["finishReason"] = finish
	}
	return object{"responseId": "resp-1", "modelVersion": "gemini-test-001", "candidates": []object{c}}
}

func text(s string) object { return object{"text": s} }

// indented returns JSON for people to read.
func indented(t *testing.T, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out) + "\n"
}
