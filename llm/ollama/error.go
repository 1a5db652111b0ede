package ollama

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// errNoEnd reports a stream without its last line.
var errNoEnd = errors.New("stream ended before the response was complete")

// failure returns the error of a call to a model. begun reports whether part of the
// response had arrived.
func (c *client) failure(ctx context.Context, model string, err error, resp *http.Response, begun bool) error {
	if ctx.Err() != nil {
		return adapter.Canceled(ctx)
	}
	e := &llm.Error{Provider: provider, Err: err, Cut: begun || errors.Is(err, errNoEnd) || resp != nil && errors.Is(err, io.ErrUnexpectedEOF)}
	if resp != nil {
		e.Status = resp.StatusCode
		e.RetryAfter = adapter.RetryAfter(resp.Header)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		e.Message = fmt.Sprintf("%v: start the server with ollama serve, or set OLLAMA_HOST to its address", err)
	}
	report, ok := errors.AsType[*reportedError](err)
	if !ok {
		return e
	}
	e.Err = nil // it contains nothing else
	if e.Status < http.StatusBadRequest {
		// The report follows a success status. The server uses this status for
		// failures of the model.
		e.Status = http.StatusInternalServerError
	}
	e.Message = report.text + remedy(e.Status, report.text, model)
	if strings.Contains(report.text, tooLong) {
		return &llm.ContextError{Err: e}
	}
	return e
}

// tooLong is a part of the message about a conversation that exceeds the context
// window.
const tooLong = "exceeds the context length"

// remedy returns what to do about a failure, to be appended to its text.
func remedy(status int, text, model string) string {
	switch {
	case status == http.StatusUnauthorized:
		return ": set the environment variable OLLAMA_API_KEY or Options.Key, or run ollama signin"
	case status == http.StatusNotFound && strings.Contains(text, "model") && strings.Contains(text, "not found"):
		return fmt.Sprintf(": download it with ollama pull %s, or with ollama.Pull", model)
	case strings.Contains(text, "does not support tools"):
		return ": remove the tools, or use a model whose capabilities in ollama show include tools"
	case strings.Contains(text, "does not support thinking"):
		return ": remove llm.Reasoning, or use a model whose capabilities in ollama show include thinking"
	case strings.Contains(text, tooLong):
		return ": shorten it, or set Options.Context to a larger window"
	}
	return ""
}
