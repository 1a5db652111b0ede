package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// Kinds of an [*Error], for use with errors.Is.
var (
	// ErrNotFound matches an error for an object that the server does not have or hides
	// (status 404).
	ErrNotFound = errors.New("client: not found")
	// ErrConflict matches an error for an object that already exists or a thread that
	// is busy (status 409).
	ErrConflict = errors.New("client: conflict")
	// ErrDenied matches an error for invalid or insufficient credentials (status 401 or
	// 403).
	ErrDenied = errors.New("client: denied")
)

// Error is an error response from the server.
type Error struct {
	Method, Path string
	Status       int    // HTTP status code
	Detail       string // the server's message
	// RetryAfter is the delay that the server requests before the next attempt; 0 if
	// none.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	text := fmt.Sprintf("client: %s %s: %d %s", e.Method, e.Path, e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Is reports whether target is the kind of the error.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.Status == http.StatusNotFound
	case ErrConflict:
		return e.Status == http.StatusConflict
	case ErrDenied:
		return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
	}
	return false
}

// StatusCode returns the HTTP status code, which [treadle.Retry] uses to decide whether
// to retry.
func (e *Error) StatusCode() int { return e.Status }

// RunError reports the failure of a run on the server.
type RunError struct {
	Thread, Run string // if known
	Class       string // error class, such as "ValueError"
	Message     string
}

func (e *RunError) Error() string {
	text := "client: run"
	if e.Run != "" {
		text += " " + e.Run
	}
	text += " failed: "
	if e.Class != "" {
		text += e.Class + ": "
	}
	return text + e.Message
}

// Is reports whether target is ErrNotFound and the run is unknown, which LangGraph's
// server reports as a run failure.
func (e *RunError) Is(target error) bool {
	return target == ErrNotFound && e.Class == "HTTPException" && strings.HasPrefix(e.Message, "404:")
}

// Failure is the error of a thread or a task.
type Failure struct {
	Class   string `json:"error"`
	Message string `json:"message"`
}

// UnmarshalJSON also accepts a string, which some servers send.
func (f *Failure) UnmarshalJSON(raw []byte) error {
	if text := bytes.TrimSpace(raw); len(text) > 0 && text[0] != '{' {
		return json.Unmarshal(raw, &f.Message)
	}
	type plain Failure
	return json.Unmarshal(raw, (*plain)(f))
}

// silentError reports that the server has sent nothing for too long.
type silentError struct{ after time.Duration }

func (e *silentError) Error() string { return fmt.Sprintf("server sent nothing for %s", e.after) }

// Timeout marks the error as transient.
func (*silentError) Timeout() bool { return true }

// lostError reports that the connection closed before the end of a response or a
// stream.
type lostError struct{ err error }

func (e *lostError) Error() string { return "connection lost: " + e.err.Error() }

func (e *lostError) Unwrap() error { return e.err }

// Temporary marks the error as transient.
func (*lostError) Temporary() bool { return true }

// maxShown limits how much of an unexpected response an error shows.
const maxShown = 200

// abridged returns the start of a text, on one line.
func abridged(raw []byte) string {
	text := strings.Join(strings.Fields(string(raw[:min(len(raw), 4*maxShown)])), " ")
	if len(text) <= maxShown {
		return text
	}
	end := maxShown
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// detailOf returns the message in the body of an error. Servers send it as detail,
// message, or error, or as plain text.
func detailOf(raw []byte) string {
	var fields struct {
		Detail  json.RawMessage `json:"detail"`
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"`
	}
	if json.Unmarshal(raw, &fields) == nil {
		for _, field := range []json.RawMessage{fields.Detail, fields.Message, fields.Error} {
			var text string
			if json.Unmarshal(field, &text) == nil && text != "" {
				return text
			}
			if len(field) > 0 && string(field) != "null" {
				return abridged(field)
			}
		}
	}
	return abridged(raw)
}
