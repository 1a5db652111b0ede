package mcptool_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle/mcptool"
)

// asking is an MCP server whose tool sends an elicitation on the server stream and
// answers the call after the client's response.
type asking struct {
	t       *testing.T
	stream  func(a *asking, w http.ResponseWriter, r *http.Request) // handles GET
	called  chan struct{}                                           // the tool was called
	replied chan string                                             // the client's response to the elicitation
	end     chan struct{}                                           // closed when the test ends
	once    sync.Once
}

func (a *asking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		a.stream(a, w, r)
		return
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var req struct {
		ID     json.RawMessage
		Method string
		Error  *struct{ Message string }
	}
	if json.Unmarshal(raw, &req) != nil {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	var result string
	switch req.Method {
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "s1")
		result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"asking","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		a.once.Do(func() { close(a.called) })
		select {
		case text := <-a.replied:
			result = fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text)
		case <-r.Context().Done():
			return
		case <-a.end:
			return
		}
	case "": // a response
		if req.Error != nil {
			a.replied <- req.Error.Message
		} else {
			a.replied <- "accepted"
		}
		w.WriteHeader(http.StatusAccepted)
		return
	default:
		if req.ID == nil {
			w.WriteHeader(http.StatusAccepted)
		} else {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, req.ID)
		}
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, result)
}

// elicit sends the elicitation when the tool is called.
func elicit(a *asking, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(w).Flush()
	select {
	case <-a.called:
	case <-r.Context().Done():
		return
	}
	fmt.Fprint(w, ": hello\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":99,\"method\":\"elicitation/create\",\"params\":{\"message\":\"name?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{}}}}\n\n")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func ask(t *testing.T, stream func(*asking, http.ResponseWriter, *http.Request)) (*asking, toolset) {
	t.Helper()
	a := &asking{t: t, stream: stream, called: make(chan struct{}), replied: make(chan string, 1), end: make(chan struct{})}
	h := httptest.NewServer(a)
	t.Cleanup(h.Close)
	t.Cleanup(func() { close(a.end) })
	_, tools := open(t, mcptool.Server{Name: "asking", URL: h.URL})
	return a, tools
}

func TestElicitationDuringCallIsRejected(t *testing.T) {
	_, tools := ask(t, elicit)
	if got := tools.says(t, "ask", ""); !strings.Contains(got, "elicitation") {
		t.Errorf("response to the elicitation: %q", got)
	}
}

// The server stream is optional, whatever the server responds.
func TestSessionSurvivesWithoutServerStream(t *testing.T) {
	for name, stream := range map[string]func(*asking, http.ResponseWriter, *http.Request){
		"405":     func(_ *asking, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) },
		"404":     func(_ *asking, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"500":     func(_ *asking, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"page":    func(_ *asking, w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"cut off": func(*asking, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"redirect": func(_ *asking, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.com/", http.StatusFound)
		},
		"silent": func(a *asking, _ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-a.end:
			}
		},
		"ended": func(_ *asking, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": bye\n\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, tools := ask(t, stream)
			for range 2 {
				a.replied <- "fine"
				if got := tools.says(t, "ask", ""); got != "fine" {
					t.Errorf("tool result: %q", got)
				}
			}
		})
	}
}

func TestToolCallsHaveTimeout(t *testing.T) {
	h := httptest.NewServer(&asking{t: t, stream: func(_ *asking, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) }})
	t.Cleanup(h.Close)
	for given, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Hour: time.Hour, -1: 0} {
		_, tools := open(t, mcptool.Server{Name: "asking", URL: h.URL, Timeout: given})
		for _, tool := range tools {
			if tool.Timeout != want {
				t.Errorf("Timeout %v: tool timeout %v, want %v", given, tool.Timeout, want)
			}
		}
	}
}
