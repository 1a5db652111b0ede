package server

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/runs"
	"github.com/treadle-go/treadle/store"
)

// httpError is an error with an HTTP status.
type httpError struct {
	status int
	detail string
}

func (e *httpError) Error() string { return e.detail }

func fail(status int, format string, args ...any) error {
	return &httpError{status, fmt.Sprintf(format, args...)}
}

// invalid returns an error about an invalid request field.
func invalid(field, format string, args ...any) error {
	return fail(http.StatusUnprocessableEntity, "%s: %s", field, fmt.Sprintf(format, args...))
}

// statusOf returns the HTTP status and text of an error for a client. The text contains no
// names of Go types.
func statusOf(err error) (int, string) {
	status, text := outcomeOf(err)
	return status, runs.Text(text)
}

func outcomeOf(err error) (int, string) {
	if e, ok := errors.AsType[*httpError](err); ok {
		return e.status, e.detail
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than %d bytes", e.Limit)
	}
	_, update := errors.AsType[*treadle.UpdateError](err)
	_, bad := errors.AsType[*store.InvalidError](err)
	switch {
	case errors.Is(err, ledger.ErrNotFound), errors.Is(err, checkpoint.ErrNotFound):
		return http.StatusNotFound, err.Error()
	case errors.Is(err, ledger.ErrExists), errors.Is(err, ledger.ErrBusy), errors.Is(err, checkpoint.ErrConflict), errors.Is(err, checkpoint.ErrFenced):
		return http.StatusConflict, err.Error()
	case errors.Is(err, syscall.ENOSPC):
		return http.StatusInsufficientStorage, "database disk full: free space and retry"
	case errors.Is(err, checkpoint.ErrUnavailable):
		return http.StatusServiceUnavailable, "database unavailable: retry"
	case errors.Is(err, runs.ErrStopped):
		return http.StatusServiceUnavailable, "server is shutting down: retry"
	case errors.Is(err, ledger.ErrFull):
		return http.StatusTooManyRequests, err.Error()
	case update, errors.Is(err, treadle.ErrNothingToContinue):
		return http.StatusBadRequest, err.Error()
	case bad:
		return http.StatusUnprocessableEntity, err.Error()
	}
	return http.StatusInternalServerError, "Internal Server Error"
}
