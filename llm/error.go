package llm

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ErrEmpty reports a response that ended before its first chunk.
var ErrEmpty = errors.New("llm: empty response")

// Error is a failure that a provider reported, or a failure to reach the provider.
type Error struct {
	Provider string // such as "openai"
	// Status is the HTTP status code, or 0 if there was no response.
	Status int
	// Code is the provider's error code, such as "rate_limit_exceeded" or
	// "overloaded_error".
	Code    string
	Message string
	// RetryAfter is the wait that the provider requests; 0 means that it specified
	// none.
	RetryAfter time.Duration
	// Cut is set if the connection broke or sent invalid data after the response
	// had started.
	Cut bool
	// Err is the cause, an error of the network or of the provider's SDK. It may be
	// nil.
	Err error
}

// Error returns a message with the provider and its reason.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Provider)
	if e.Status != 0 {
		fmt.Fprintf(&b, ": %d %s", e.Status, http.StatusText(e.Status))
	}
	if e.Code != "" {
		b.WriteString(": " + e.Code)
	}
	switch {
	case e.Message != "":
		b.WriteString(": " + e.Message)
	case e.Err != nil:
		b.WriteString(": " + e.Err.Error())
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, " (retry after %v)", e.RetryAfter)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether the same request may succeed later: if the provider was
// busy, failed, requested a wait, or could not be reached, or if the connection
// broke. An exhausted quota is not temporary, although OpenAI reports it like a rate
// limit, and neither is a request that exceeds the context window; see
// [ContextError].
func (e *Error) Temporary() bool {
	switch {
	case e.Code == "insufficient_quota" || e.Code == "billing_hard_limit_reached":
		return false
	case e.overflows():
		return false
	case e.Cut || e.RetryAfter > 0:
		return true
	case e.Status == 0:
		return true
	}
	return e.Status == http.StatusRequestTimeout || e.Status == http.StatusConflict ||
		e.Status == http.StatusTooManyRequests || e.Status >= 500
}
