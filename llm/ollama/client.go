package ollama

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/treadle-go/treadle/internal/adapter"
)

// client sends requests to a server.
type client struct {
	http      *http.Client
	base      *url.URL
	header    http.Header
	context   int
	keepAlive time.Duration
}

func connect(model string, opts *Options) (*client, error) {
	if opts == nil {
		opts = &Options{}
	}
	switch {
	case model == "":
		return nil, errors.New("empty model name")
	case opts.Context < 0:
		return nil, fmt.Errorf("invalid Options.Context %d: want 1 or more, or 0 for the server's default", opts.Context)
	}
	base, err := address(cmp.Or(opts.BaseURL, os.Getenv(hostName)))
	if err != nil {
		return nil, err
	}
	c := &client{http: adapter.HTTPClient(opts.HTTPClient, base.String()), base: base, context: opts.Context, keepAlive: opts.KeepAlive,
		header: http.Header{"Content-Type": {"application/json"}, "User-Agent": {"treadle"}}}
	if key := cmp.Or(opts.Key, os.Getenv(keyName)); key != "" {
		c.header.Set("Authorization", "Bearer "+key)
	}
	for name, values := range opts.Header {
		c.header.Del(name)
		for _, v := range values {
			c.header.Add(name, v)
		}
	}
	return c, nil
}

const (
	ownHost = "127.0.0.1"
	ownPort = "11434"
)

// address parses a server's address in the forms that Ollama accepts in
// OLLAMA_HOST: a URL, host:port, a host, or :port. It removes the path of the API,
// which addresses for OpenAI's clients contain.
func address(s string) (*url.URL, error) {
	s = strings.TrimSpace(s)
	full, short := s, !strings.Contains(s, "://")
	if short {
		full = "http://" + s
	}
	u, err := url.Parse(full)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || !short && u.Hostname() == "" {
		return nil, fmt.Errorf("invalid address %q: want host:port or http://host:port", s)
	}
	host, port := cmp.Or(u.Hostname(), ownHost), u.Port()
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = ownHost // the server listens on all addresses
	}
	switch {
	case short && host == "ollama.com":
		u.Scheme = "https"
	case short:
		port = cmp.Or(port, ownPort)
	}
	u.Host = host
	if port != "" {
		u.Host = net.JoinHostPort(host, port)
	} else if strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	u.Path = strings.TrimRight(u.Path, "/")
	for _, api := range []string{"/v1", "/api"} {
		u.Path = strings.TrimSuffix(u.Path, api)
	}
	return u, nil
}

// reportedError is a failure reported by the server.
type reportedError struct{ text string }

func (e *reportedError) Error() string { return e.text }

// maxReport is the maximum number of bytes read of an error response.
const maxReport = 1 << 20

// post sends a request. It returns a *reportedError if the server reports a
// failure. The response may be non-nil with other errors too. Its body is closed if
// there is an error.
func (c *client) post(ctx context.Context, path string, body any) (*http.Response, error) {
	var sent bytes.Buffer
	enc := json.NewEncoder(&sent)
	enc.SetEscapeHTML(false) // models read the text
	if err := enc.Encode(body); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath(path).String(), &sent)
	if err != nil {
		return nil, err
	}
	req.Header = c.header.Clone()
	resp, err := c.http.Do(req)
	if err != nil || resp.StatusCode < http.StatusBadRequest {
		return resp, err
	}
	report, err := io.ReadAll(io.LimitReader(resp.Body, maxReport))
	_ = resp.Body.Close()
	if err != nil {
		return resp, err
	}
	return resp, reported(report)
}

// reported returns the error in a response body.
func reported(body []byte) error {
	var report struct{ Error string }
	_ = json.Unmarshal(body, &report) // otherwise the body is the report
	return &reportedError{cmp.Or(report.Error, adapter.Excerpt(string(body)), "empty response")}
}

// maxLine is the maximum size of a line in bytes. The arguments of a tool call
// arrive in one line.
const maxLine = 32 << 20

// lines yields the JSON objects of a response, one on each line. It yields a
// *reportedError for a line that reports a failure, and an errNoEnd for a truncated
// line.
func lines(body io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		ended := false // the line ends with a newline
		scanner := bufio.NewScanner(body)
		scanner.Buffer(nil, maxLine)
		scanner.Split(func(data []byte, atEOF bool) (int, []byte, error) {
			n, line, err := bufio.ScanLines(data, atEOF)
			ended = n > len(line)
			return n, line, err
		})
		for scanner.Scan() {
			line := bytes.TrimSpace(scanner.Bytes())
			if len(line) == 0 {
				continue
			}
			err := check(line)
			if _, invalid := errors.AsType[*json.SyntaxError](err); invalid && !ended && line[0] == '{' {
				err = errNoEnd
			}
			if !yield(line, err) || err != nil {
				return
			}
		}
		if err := scanner.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// check returns the error that a line reports, or an error if the line is not JSON.
func check(line []byte) error {
	var report struct{ Error json.RawMessage }
	if err := json.Unmarshal(line, &report); err != nil {
		return fmt.Errorf("invalid line %q: %w", adapter.Excerpt(string(line)), err)
	}
	if len(report.Error) > 0 && string(report.Error) != "null" {
		return reported(line)
	}
	return nil
}
