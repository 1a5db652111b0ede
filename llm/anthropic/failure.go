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

// failure is what a call's error is for the caller. With begun, there was a part
// of the answer before it.
func failure(ctx context.Context, err error, begun bool) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	said, ok := errors.AsType[*sdk.Error](err)
	if !ok {
		// What is read of a whole answer is read at once, so that it broke off shows
		// only in the error.
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
		// An error in a stream came behind a response that said all was well.
		e.Status = statusOf[e.Code]
	}
	return e
}

// statusOf is the HTTP status that goes with an error's type, as Anthropic
// documents it, for errors that come in a stream.
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

// retryAfter is how long a response asks to wait: a number of seconds, or a time.
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

// excerpt is the beginning of a body that is not the API's, such as a proxy's
// page.
func excerpt(body string) string {
	const most = 500
	body = strings.TrimSpace(body)
	if len(body) > most {
		body = strings.ToValidUTF8(body[:most], "") + "…"
	}
	return body
}
