package gemini

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

var errNoEnd = errors.New("stream ended before the response was complete")

// failure returns the error of a call.
func failure(ctx context.Context, err error, h *heard) error {
	if ctx.Err() != nil {
		return adapter.Canceled(ctx)
	}
	if h.at == nil {
		return fmt.Errorf("gemini: request not sent: %w", err)
	}
	e := &llm.Error{Provider: h.at.provider, Status: h.status, RetryAfter: adapter.RetryAfter(h.header), Err: err}
	said, reported := errors.AsType[genai.APIError](err)
	switch {
	case reported:
		report(e, said, h)
	case h.err != nil: // whatever the SDK reported about a truncated response
		e.Cut, e.Err = true, h.err
	case h.status != 0:
		e.Cut, e.Message = true, adapter.Excerpt(err.Error())
	case h.at.location != "" && adapter.IsUnknownHost(err):
		e.Message = fmt.Sprintf("%v (check the location %q in Options.Location or %s)", err, h.at.location, locationName)
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
	e.Message = adapter.Excerpt(said.Message)
	if r := h.at.remedy(e); r != "" && e.Message != "" {
		e.Message += " (" + r + ")"
	}
	for _, detail := range said.Details {
		kind, _ := detail["@type"].(string)
		delay, _ := detail["retryDelay"].(string)
		if d, err := time.ParseDuration(delay); err == nil && strings.HasSuffix(kind, "google.rpc.RetryInfo") {
			e.RetryAfter = max(e.RetryAfter, d)
		}
	}
}

// remedy returns what to do about a failure, or "".
func (at *endpoint) remedy(e *llm.Error) string {
	text := strings.ToLower(e.Message)
	switch {
	case strings.Contains(text, "api key"):
		return "check Options.Key or the environment variable " + keyName
	case e.Status == http.StatusUnauthorized && at.token != nil:
		return "check that Options.Token returns a current token for the scope https://www.googleapis.com/auth/cloud-platform, or run gcloud auth application-default login"
	case e.Status == http.StatusForbidden && at.token != nil:
		return fmt.Sprintf("check that the project %s has enabled aiplatform.googleapis.com, and that the identity has the role roles/aiplatform.user", at.project)
	case e.Status == http.StatusNotFound && at.token != nil:
		return fmt.Sprintf("check the model name, and whether the location %s serves the model: Options.Location global serves most models", at.location)
	case e.Status == http.StatusNotFound:
		return "check the model name"
	case e.Status == http.StatusBadRequest && strings.Contains(text, "user location is not supported"):
		return "use Options.Vertex with a location that serves the model"
	case e.Status == http.StatusBadRequest:
		return adapter.Remedy(e.Message)
	}
	return ""
}
