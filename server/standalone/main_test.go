package standalone_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// tooLong is the timeout of a test that waits for an event.
const tooLong = 2 * time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output collects the text that a program has written so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// client calls a server over HTTP.
type client struct {
	t    *testing.T
	base string
	host string // of the Host header; "" means the server's address
	head http.Header
}

// do sends a request and returns the status, headers, and body of the response.
func (c *client) do(method, path, body string) (int, http.Header, []byte) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header = c.head.Clone()
	if c.host != "" {
		req.Host = c.host
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, raw
}

// ok sends a request that must succeed and decodes the response.
func (c *client) ok(method, path, body string, into any) http.Header {
	c.t.Helper()
	status, head, raw := c.do(method, path, body)
	if status >= 300 {
		c.t.Fatalf("%s %s %s: %d %s", method, path, body, status, raw)
	}
	if into != nil {
		if err := json.Unmarshal(raw, into); err != nil {
			c.t.Fatalf("%s %s: %v in %s", method, path, err, raw)
		}
	}
	return head
}

// thread creates a thread.
func (c *client) thread() string {
	c.t.Helper()
	var t struct {
		ID string `json:"thread_id"`
	}
	c.ok("POST", "/threads", "{}", &t)
	return t.ID
}
