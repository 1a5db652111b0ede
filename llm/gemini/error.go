package gemini

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genai"

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

var errNoEnd = errors.New("the response ended before the answer was complete")

// failure returns the error of a call.
func failure(ctx context.Context, err error, h *heard) error {
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	e := &llm.Error{Provider: provider, Status: h.status, RetryAfter: retryAfter(h.header), Err: err}
	said, reported := errors.AsType[genai.APIError](err)
	switch {
	case reported:
		report(e, said, h)
	case h.err != nil: // whatever the SDK reported about a truncated response
		e.Cut, e.Err = true, h.err
	case h.status != 0:
		e.Cut, e.Message = true, abridge(err.Error())
	}
	return e
}

// report copies the API's error. An error in the middle of a stream has its own
// status.
func report(e *llm.Error, said genai.APIError, h *heard) {
	if said.Code >= http.StatusBadRequest {
		e.Status = said.Code
	}
	if said.Status != h.statusText { // the SDK's value if the body is not JSON
		e.Code = said.Status
	}
	e.Message = abridge(strings.TrimSpace(said.Message))
	for _, detail := range said.Details {
		kind, _ := detail["@type"].(string)
		delay, _ := detail["retryDelay"].(string)
		if d, err := time.ParseDuration(delay); err == nil && strings.HasSuffix(kind, "google.rpc.RetryInfo") {
			e.RetryAfter = max(e.RetryAfter, d)
		}
	}
}

// retryAfter returns the wait that a response requests, in seconds or as a time.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// abridge keeps errors readable when a proxy responds with an HTML page.
func abridge(s string) string {
	const most = 500
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
