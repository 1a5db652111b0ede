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

// cancelled is why the context ended: its own error, and the cause that its
// owner gave.
func cancelled(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

var errNoEnd = errors.New("the response ended before the answer was complete")

// failure is the error of a call.
func failure(ctx context.Context, err error, h *heard) error {
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	e := &llm.Error{Provider: provider, Status: h.status, RetryAfter: retryAfter(h.header), Err: err}
	said, reported := errors.AsType[genai.APIError](err)
	switch {
	case reported:
		report(e, said, h)
	case h.err != nil: // whatever the SDK made of half a response
		e.Cut, e.Err = true, h.err
	case h.status != 0:
		e.Cut, e.Message = true, abridge(err.Error())
	}
	return e
}

// report takes over what the API said. An error in the middle of a stream has a
// status of its own.
func report(e *llm.Error, said genai.APIError, h *heard) {
	if said.Code >= http.StatusBadRequest {
		e.Status = said.Code
	}
	if said.Status != h.statusText { // which the SDK puts there if the body is no JSON
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

// retryAfter is how long a response asks to wait: a number of seconds, or a time.
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

// abridge keeps errors readable where a proxy answers with a page of HTML.
func abridge(s string) string {
	const most = 500
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
