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

// Kinds of an [*Error], for errors.Is.
var (
	// ErrNotFound says that the server does not have an object, or hides it (status 404).
	ErrNotFound = errors.New("client: not found")
	// ErrConflict says that an object exists already or that a thread is busy (status 409).
	ErrConflict = errors.New("client: conflict")
	// ErrDenied says that the credentials are wrong or do not suffice (status 401 or 403).
	ErrDenied = errors.New("client: denied")
)

// Error is an answer with which the server refuses a request.
type Error struct {
	Method, Path string
	Status       int    // of HTTP
	Detail       string // what the server says about it
	// RetryAfter is how long the server asks to wait before the next attempt; 0 if it does
	// not ask.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	text := fmt.Sprintf("client: %s %s: %d %s", e.Method, e.Path, e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Is makes errors.Is find the kind of the error.
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

// StatusCode returns the status of HTTP, so that [treadle.Retry] knows which errors are
// worth another attempt.
func (e *Error) StatusCode() int { return e.Status }

// RunError is the failure of a run on the server.
type RunError struct {
	Thread, Run string // as far as they are known
	Class       string // of the error, such as "ValueError"
	Message     string
}

func (e *RunError) Error() string {
	text := "client: the run"
	if e.Run != "" {
		text += " " + e.Run
	}
	text += " failed: "
	if e.Class != "" {
		text += e.Class + ": "
	}
	return text + e.Message
}

// Is makes errors.Is find ErrNotFound: LangGraph's server reports an unknown run as the
// failure of a run.
func (e *RunError) Is(target error) bool {
	return target == ErrNotFound && e.Class == "HTTPException" && strings.HasPrefix(e.Message, "404:")
}

// Failure is the error of a thread or of a task.
type Failure struct {
	Class   string `json:"error"`
	Message string `json:"message"`
}

// UnmarshalJSON also reads a text, which some servers send.
func (f *Failure) UnmarshalJSON(raw []byte) error {
	if text := bytes.TrimSpace(raw); len(text) > 0 && text[0] != '{' {
		return json.Unmarshal(raw, &f.Message)
	}
	type plain Failure
	return json.Unmarshal(raw, (*plain)(f))
}

// silentError says that the server has sent nothing for too long.
type silentError struct{ after time.Duration }

func (e *silentError) Error() string { return fmt.Sprintf("the server was silent for %s", e.after) }

// Timeout makes the error a transient one.
func (*silentError) Timeout() bool { return true }

// lostError says that the connection ended before the answer, or a stream, did.
type lostError struct{ err error }

func (e *lostError) Error() string { return "the connection was lost: " + e.err.Error() }

func (e *lostError) Unwrap() error { return e.err }

// Temporary makes the error a transient one.
func (*lostError) Temporary() bool { return true }

// maxShown bounds how much of an unexpected answer is shown.
const maxShown = 200

// abridged is the beginning of a text, on one line.
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

// detailOf is what the body of an error says. Servers send it as detail, message or error, or
// as plain text.
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
