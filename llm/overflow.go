package llm

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ContextError reports that a request has more tokens than the model's context
// window. [Generate], [Stream], and [Object] return it for the models of all
// providers. Shorten the conversation and try again.
type ContextError struct {
	// Limit is the size of the window and Used the size of the request, in tokens;
	// 0 if the provider did not report them.
	Limit, Used int
	Err         error // usually an [*Error]
}

// Error returns a message with the provider's reason.
func (e *ContextError) Error() string {
	if e.Limit > 0 && e.Used > 0 {
		return fmt.Sprintf("llm: request of %d tokens exceeds the context window of %d: %v", e.Used, e.Limit, e.Err)
	}
	return fmt.Sprintf("llm: request exceeds the context window: %v", e.Err)
}

// Unwrap returns the provider's error.
func (e *ContextError) Unwrap() error { return e.Err }

// Temporary returns false: the same request would fail again.
func (e *ContextError) Temporary() bool { return false }

// overflows are parts of the messages with which providers and servers report an
// overflow, in lower case.
var overflows = []string{
	"context_length_exceeded",
	"contextwindowexceedederror",
	"current length is", // with "while limit is"
	"exceed context limit",
	"exceed model maximum",
	"exceed_context_size_error",
	"exceeds the available context size",
	"exceeds the context window",
	"exceeds the maximum number of tokens allowed",
	"input is too long",
	"input tokens exceed the configured limit",
	"input tokens exceeded",
	"input too long",
	"is longer than the model's context length",
	"maximum context length",
	"maximum context limit",
	"prompt is too long",
	"requested token count exceeds",
	"too many input tokens",
	"`inputs` tokens + `max_new_tokens` must be",
}

// otherOverflows are messages about a text that is too long although the context
// window is not exceeded.
var otherOverflows = []string{"string_above_max_length", "string too long"}

// overflow returns a [*ContextError] if err, or one of the errors that it joins,
// reports that the request exceeds the context window, and otherwise err.
func overflow(err error) error {
	if _, done := errors.AsType[*ContextError](err); done {
		return err
	}
	e := findOverflow(err)
	if e == nil {
		return err
	}
	limit, used := sizes(e.said())
	return &ContextError{Limit: limit, Used: used, Err: err}
}

// findOverflow returns the first provider error in the tree of err that reports an
// overflow, or nil. [Fallback] joins the errors of several providers.
func findOverflow(err error) *Error {
	if e, ok := err.(*Error); ok && e.overflows() { //nolint:errorlint // findOverflow walks the tree
		return e
	}
	switch e := err.(type) { //nolint:errorlint // see above
	case interface{ Unwrap() error }:
		return findOverflow(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if found := findOverflow(err); found != nil {
				return found
			}
		}
	}
	return nil
}

// said returns the provider's code and message in lower case.
func (e *Error) said() string { return strings.ToLower(e.Code + " " + e.Message) }

// overflows reports whether the request exceeds the context window. An error within
// a stream has a success status, or none.
func (e *Error) overflows() bool {
	if e.Status >= http.StatusBadRequest &&
		e.Status != http.StatusBadRequest && e.Status != http.StatusRequestEntityTooLarge && e.Status != http.StatusUnprocessableEntity {
		return false
	}
	text := e.said()
	in := func(part string) bool { return strings.Contains(text, part) }
	return !slices.ContainsFunc(otherOverflows, in) && slices.ContainsFunc(overflows, in)
}

var tokenNumber = regexp.MustCompile(`\d[\d,]{2,}`)

// sizes returns the two numbers in a provider's message: the window is the smaller
// one. It returns zeros if the message does not contain exactly two.
func sizes(text string) (limit, used int) {
	found := tokenNumber.FindAllString(text, -1)
	if len(found) != 2 {
		return 0, 0
	}
	a, err := strconv.Atoi(strings.ReplaceAll(found[0], ",", ""))
	b, err2 := strconv.Atoi(strings.ReplaceAll(found[1], ",", ""))
	if err != nil || err2 != nil || a == b {
		return 0, 0
	}
	return min(a, b), max(a, b)
}
