package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/treadle-go/treadle/internal/origin"
)

// HTTPClient returns a copy of c that follows redirects only within the host of home,
// and whose requests are [Replayable]. A nil c means [http.DefaultClient].
func HTTPClient(c *http.Client, home string) *http.Client {
	c = origin.Only(c, home)
	c.Transport = replaying{cmp.Or[http.RoundTripper](c.Transport, http.DefaultTransport)}
	return c
}

type replaying struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t replaying) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.next.RoundTrip(Replayable(req))
}

// CloseIdleConnections is called by [http.Client.CloseIdleConnections].
func (t replaying) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Replayable returns a copy of a request that package http sends again if it used a
// connection that the server has closed in the meantime. Servers close connections that
// were idle for some time, and a request may be sent at that moment. A model call has no
// effects, so it is safe to repeat, but package http does not know that of a POST.
func Replayable(req *http.Request) *http.Request {
	out := *req
	out.Header = maps.Clone(req.Header)
	if out.Header == nil {
		out.Header = http.Header{}
	}
	if _, ok := out.Header["Idempotency-Key"]; !ok {
		out.Header["Idempotency-Key"] = nil // means replayable, and is not sent
	}
	return &out
}

// RetryAfter returns the wait that a response requests, in seconds, in milliseconds, or
// as a time. It returns 0 if there is none.
func RetryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return max(0, time.Duration(s*float64(time.Second)))
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// Authorized returns a transport that adds an access token to each request. If the
// server rejects the token, and token then returns another one, the transport sends the
// request once more.
func Authorized(next http.RoundTripper, token func(context.Context) (string, error)) http.RoundTripper {
	return authorized{next, token}
}

type authorized struct {
	next  http.RoundTripper
	token func(context.Context) (string, error)
}

// RoundTrip implements [http.RoundTripper].
func (a authorized) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := a.token(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, fmt.Errorf("access token: %w", err)
	}
	resp, err := a.send(req, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || req.GetBody == nil {
		return resp, err
	}
	again, err := a.token(req.Context())
	if err != nil || again == token {
		return resp, nil //nolint:nilerr // the response says that the first token is invalid
	}
	body, err := req.GetBody()
	if err != nil {
		return resp, nil //nolint:nilerr // see above
	}
	_ = resp.Body.Close()
	req = req.WithContext(req.Context()) // a copy, because a RoundTripper must not change the request
	req.Body = body
	return a.send(req, again)
}

func (a authorized) send(req *http.Request, token string) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	return a.next.RoundTrip(req)
}

// IsUnknownHost reports whether a host name does not exist.
func IsUnknownHost(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && e.IsNotFound
}
