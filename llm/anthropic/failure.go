package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// failure converts the error of a call. begun reports whether part of the response
// had arrived.
func failure(ctx context.Context, err error, begun bool) error {
	if ctx.Err() != nil {
		return adapter.Canceled(ctx)
	}
	said, ok := errors.AsType[*sdk.Error](err)
	if !ok {
		// A whole response is read at once, so only the error shows that it was
		// truncated.
		return &llm.Error{Provider: provider, Cut: begun || errors.Is(err, io.ErrUnexpectedEOF), Err: err}
	}
	e := &llm.Error{Provider: provider, Status: said.StatusCode, Err: err}
	var body struct {
		Error struct{ Type, Status, Message string }
	}
	if json.Unmarshal([]byte(said.RawJSON()), &body) == nil {
		e.Code, e.Message = cmp.Or(body.Error.Type, body.Error.Status), body.Error.Message // Vertex AI has a status
	}
	e.Message = cmp.Or(e.Message, adapter.Excerpt(said.RawJSON()), http.StatusText(e.Status))
	if said.Response != nil {
		e.RetryAfter = adapter.RetryAfter(said.Response.Header)
	}
	if e.Status < http.StatusBadRequest {
		// An error in a stream follows a response with a success status.
		e.Status = statusOf[e.Code]
	}
	if r := remedy(e); r != "" {
		e.Message += " (" + r + ")"
	}
	return e
}

// remedy returns what to do about a failure, or "". The codes in upper case are those
// of Vertex AI.
func remedy(e *llm.Error) string {
	switch e.Code {
	case "authentication_error":
		return "check Options.Key or the environment variable ANTHROPIC_API_KEY"
	case "not_found_error":
		return "check the model name"
	case "UNAUTHENTICATED":
		return "check that Options.Token returns a current token for the scope https://www.googleapis.com/auth/cloud-platform, or run gcloud auth application-default login"
	case "PERMISSION_DENIED":
		return "check that the project has enabled aiplatform.googleapis.com and the model, and that the identity has the role roles/aiplatform.user"
	case "NOT_FOUND":
		return "check the model name, and whether the location serves the model"
	case "invalid_request_error", "INVALID_ARGUMENT":
		return adapter.Remedy(e.Message)
	}
	return ""
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
