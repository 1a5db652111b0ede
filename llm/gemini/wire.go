package gemini

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// heard is what the SDK does not tell about a call: the response's status and
// header, and why its body broke off.
type heard struct {
	status     int
	statusText string
	header     http.Header
	err        error
}

type heardKey struct{}

// listen returns a context whose calls are listened to.
func listen(ctx context.Context) (context.Context, *heard) {
	h := &heard{}
	return context.WithValue(ctx, heardKey{}, h), h
}

// listener is a transport that notes what it hears.
type listener struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (l *listener) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(req)
	if h, ok := req.Context().Value(heardKey{}).(*heard); ok && err == nil {
		h.status, h.statusText, h.header = resp.StatusCode, resp.Status, resp.Header
		resp.Body = &body{resp.Body, h}
	}
	return resp, err
}

// body ends where its connection breaks, and notes why: the SDK writes errors of
// a stream's body to the process's log. Whether an answer is complete shows in the
// answer itself.
type body struct {
	io.ReadCloser
	heard *heard
}

// Read ends at an error as at the end.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.heard.err, err = err, io.EOF
	}
	return n, err
}

// Close never fails, as far as the SDK hears.
func (b *body) Close() error {
	_ = b.ReadCloser.Close() // all that counts has been read
	return nil
}

// guard calls the SDK. Where a response has other types than the documented ones,
// the SDK panics; to the caller it is a response that cannot be understood.
func guard[T any](call func() (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the response has an unexpected form: %v", p)
		}
	}()
	return call()
}
