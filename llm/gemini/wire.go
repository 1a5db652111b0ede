package gemini

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// heard contains data about a call that the SDK does not expose: where the request
// was sent, the response's status and header, and why its body was truncated.
type heard struct {
	at         *endpoint // nil if the SDK did not send the request
	status     int
	statusText string
	header     http.Header
	err        error
}

type heardKey struct{}

// listen returns a context whose calls are recorded.
func listen(ctx context.Context) (context.Context, *heard) {
	h := &heard{}
	return context.WithValue(ctx, heardKey{}, h), h
}

// listener is a transport that records responses.
type listener struct {
	next http.RoundTripper
	at   *endpoint
}

// RoundTrip implements [http.RoundTripper].
func (l *listener) RoundTrip(req *http.Request) (*http.Response, error) {
	h, ok := req.Context().Value(heardKey{}).(*heard)
	if ok {
		h.at = l.at
	}
	resp, err := l.next.RoundTrip(req)
	if ok && err == nil {
		h.status, h.statusText, h.header = resp.StatusCode, resp.Status, resp.Header
		resp.Body = &body{resp.Body, h}
	}
	return resp, err
}

// body ends where its connection breaks, and records why, because the SDK writes
// errors of a stream's body to the process's log. The response itself shows whether
// it is complete.
type body struct {
	io.ReadCloser
	heard *heard
}

// Read reports an error as the end of the body.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.heard.err, err = err, io.EOF
	}
	return n, err
}

// Close always returns nil, to hide errors from the SDK.
func (b *body) Close() error {
	_ = b.ReadCloser.Close() // everything relevant has been read
	return nil
}

// guard calls the SDK. The SDK panics if a response has undocumented types; guard
// returns an error instead.
func guard[T any](call func() (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("unexpected response format: %v", p)
		}
	}()
	return call()
}
