package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/treadle-go/treadle/llm"
)

// cancelled returns why the context ended: its error, and the cause if that
// differs.
func cancelled(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// failure returns the error of a call. begun reports whether part of the response
// had arrived.
func (c *client) failure(ctx context.Context, err error, resp *http.Response, begun bool) error {
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	e := &llm.Error{Provider: c.provider, Err: err, Cut: begun || resp != nil && errors.Is(err, io.ErrUnexpectedEOF)}
	if resp != nil {
		e.Status = resp.StatusCode
		e.RetryAfter = retryAfter(resp.Header, time.Now())
	}
	if told, ok := errors.AsType[*toldError](err); ok {
		e.Err = nil // it contains nothing else
		report(e, told.body)
	} else if errors.Is(err, errNoEnd) {
		e.Cut = true
		if kind := resp.Header.Get("Content-Type"); !begun && !strings.HasPrefix(kind, "text/event-stream") {
			e.Cut = false
			e.Message = fmt.Sprintf("the request asked for a stream, but the response has the content type %q: use llm.NoStream", kind)
		}
	}
	return e
}

// noAnswer returns the error for a response without choices. Some servers report
// failures with a success status.
func (c *client) noAnswer(raw []byte, resp *http.Response) error {
	e := &llm.Error{Provider: c.provider, Status: resp.StatusCode, Message: "the response has no choices: " + abridge(string(raw))}
	var body struct{ Error json.RawMessage }
	if json.Unmarshal(raw, &body) == nil && len(body.Error) > 0 && string(body.Error) != "null" {
		report(e, raw)
	}
	return e
}

// report sets the code and the message from a server's JSON: OpenAI's {"error":
// {…}}, the same in a list (Google), without an envelope, a string in its place, or
// a detail (FastAPI). Any other body becomes the message.
func report(e *llm.Error, body []byte) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 && list[0][0] == '{' {
		body = list[0]
	}
	var outer struct {
		Error  json.RawMessage
		Detail json.RawMessage
	}
	var inner struct{ Code, Type, Status, Message any }
	_ = json.Unmarshal(body, &outer)
	switch {
	case len(outer.Error) > 0 && json.Unmarshal(outer.Error, &e.Message) == nil:
	case len(outer.Error) > 0:
		_ = json.Unmarshal(outer.Error, &inner)
	case len(outer.Detail) > 0 && json.Unmarshal(outer.Detail, &e.Message) != nil:
		e.Message = abridge(string(outer.Detail))
	default:
		_ = json.Unmarshal(body, &inner)
	}
	kind, _ := inner.Type.(string)
	if kind == "" {
		kind, _ = inner.Status.(string) // Google's error code
	}
	e.Code = kind
	switch code := inner.Code.(type) {
	case string:
		e.Code = code
	case float64: // some servers put the status there
		if kind == "" {
			e.Code = strconv.Itoa(int(code))
		}
		if e.Status < http.StatusBadRequest && code >= 400 && code < 600 {
			e.Status = int(code)
		}
	}
	if text, ok := inner.Message.(string); ok {
		e.Message = text
	}
	if e.Status < http.StatusBadRequest {
		e.Status = statusOf(kind+" "+e.Code, e.Status)
	}
	if e.Message == "" {
		e.Message = abridge(string(bytes.TrimSpace(body)))
	}
}

// statusOf returns the status that an error would have had if it had been known
// before the response started.
func statusOf(words string, known int) int {
	switch {
	case strings.Contains(words, "rate_limit"):
		return http.StatusTooManyRequests
	case strings.Contains(words, "server_error"), strings.Contains(words, "overloaded"), strings.Contains(words, "timeout"):
		return http.StatusInternalServerError
	}
	return known
}

// abridge keeps errors readable when a server responds with an HTML page.
func abridge(s string) string {
	const most = 400
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// retryAfter returns the wait that the server requests.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
