package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/treadle-go/treadle/llm"
)

// failure converts the error of a call. begun reports whether part of the response
// had arrived.
func failure(ctx context.Context, err error, begun bool) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	said, ok := errors.AsType[*sdk.Error](err)
	if !ok {
		// A whole response is read at once, so only the error shows that it was
		// truncated.
		return &llm.Error{Provider: provider, Cut: begun || errors.Is(err, io.ErrUnexpectedEOF), Err: err}
	}
	e := &llm.Error{Provider: provider, Status: said.StatusCode, Err: err}
	var body struct {
		Error struct{ Type, Message string }
	}
	if json.Unmarshal([]byte(said.RawJSON()), &body) == nil {
		e.Code, e.Message = body.Error.Type, body.Error.Message
	}
	e.Message = cmp.Or(e.Message, excerpt(said.RawJSON()), http.StatusText(e.Status))
	if said.Response != nil {
		e.RetryAfter = retryAfter(said.Response.Header)
	}
	if e.Status < http.StatusBadRequest {
		// An error in a stream follows a response with a success status.
		e.Status = statusOf[e.Code]
	}
	return e
}

// statusOf maps error types to HTTP status codes, as documented by Anthropic, for
// errors in a stream.
var statusOf = map[string]int{
	"invalid_request_error": http.StatusBadRequest,
	"authentication_error":  http.StatusUnauthorized,
	"billing_error":         http.StatusPaymentRequired,
	"permission_error":      http.StatusForbidden,
	"not_found_error":       http.StatusNotFound,
	"request_too_large":     http.StatusRequestEntityTooLarge,
	"rate_limit_error":      http.StatusTooManyRequests,
	"api_error":             http.StatusInternalServerError,
	"timeout_error":         http.StatusGatewayTimeout,
	"overloaded_error":      529,
}

// retryAfter returns the wait that a response requests, in seconds or as a time.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(v, 64); err == nil {
		return max(0, time.Duration(seconds*float64(time.Second)))
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// excerpt returns the start of a body that is not the API's, such as a proxy's
// error page.
func excerpt(body string) string {
	const most = 500
	body = strings.TrimSpace(body)
	if len(body) > most {
		body = strings.ToValidUTF8(body[:most], "") + "…"
	}
	return body
}
