package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"github.com/treadle-go/treadle/ledger"
)

// Auth authenticates callers and authorizes their requests.
type Auth struct {
	// Authenticate returns the caller of a request. If it returns an error, the request is
	// rejected: with the status and detail of a [*StatusError], or otherwise with 401. The text
	// of other errors is logged but not sent, because it can reveal internal details such as
	// the address of a database.
	Authenticate func(*http.Request) (*User, error)
	// On maps resources and actions to handlers, as in "threads:create", "threads",
	// "*:create", or "*". The most specific handler decides. Requests without a matching
	// handler are denied. An error from a handler is treated like an error from Authenticate,
	// but with 403.
	//
	// The resources and their actions are assistants (create, read, update, delete, search),
	// threads (create, read, update, delete, search, create_run), crons (create, read, update,
	// delete, search), and store (put, get, search, list_namespaces, delete).
	On map[string]func(context.Context, *Access) (Decision, error)
}

// A User is an authenticated caller.
type User struct {
	Identity    string         `json:"identity"`
	DisplayName string         `json:"display_name,omitempty"`
	Permissions []string       `json:"permissions"`
	Claims      map[string]any `json:"claims,omitempty"` // further attributes
}

// Access describes the operation that a caller requests.
type Access struct {
	User             *User
	Resource, Action string
	// Value contains the request's parameters, such as "metadata", "thread_id", and
	// "namespace". A handler's changes to "metadata", and to the "namespace" of the store, are
	// stored.
	Value map[string]any
}

// Decision is the result of a handler. The zero Decision denies access.
type Decision struct {
	Allow bool
	// Filter restricts the caller to rows whose metadata contains these values. For a value of
	// type [Contains], the metadata value must be a list with those elements. The store rejects
	// decisions with a filter: its handlers change the namespace instead.
	Filter map[string]any
}

// Contains is a value of a [Decision]'s Filter. It matches if the metadata value is a list that
// contains all of these elements.
type Contains []any

// Allow permits the operation on rows whose metadata contains the values in filter; nil means
// all rows.
func Allow(filter map[string]any) Decision { return Decision{Allow: true, Filter: filter} }

// StatusError is an error from an Auth function that sets the HTTP status.
type StatusError struct {
	Status int
	Detail string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Detail) }

// denial is an error from this package's Authenticate functions. Its text is sent to the
// caller.
type denial struct{ text string }

func (e *denial) Error() string { return e.text }

// denied returns the response to a caller rejected by an Auth function. It sends only texts
// meant for callers and logs the others.
func (c *call) denied(status int, err error) error {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return fail(e.Status, "%s", e.Detail)
	}
	if e, ok := errors.AsType[*denial](err); ok {
		return fail(status, "%s", e.text)
	}
	if e, ok := errors.AsType[*keysError](err); ok {
		if e.cause != nil { // otherwise logged at the last attempt
			c.s.log.Error("failed to read issuer keys", "error", e.cause)
		}
		return fail(http.StatusServiceUnavailable, "%s", e.Error())
	}
	c.s.log.Info("access denied", "method", c.r.Method, "path", c.r.URL.Path, "status", status, "error", passwords.ReplaceAllString(err.Error(), "://$1:***@"))
	return fail(status, "%s", http.StatusText(status))
}

// passwords matches passwords in URLs.
var passwords = regexp.MustCompile(`://([^\s/:@]*):[^\s/]*@`)

// authenticate identifies the caller.
func (c *call) authenticate() error {
	a := c.s.o.Auth
	if a == nil || a.Authenticate == nil {
		return nil
	}
	user, err := a.Authenticate(c.r)
	if err != nil {
		return c.denied(http.StatusUnauthorized, err)
	}
	if user == nil {
		return fail(http.StatusUnauthorized, "the caller is unknown")
	}
	c.user = user
	c.r = c.r.WithContext(withUser(c.r.Context(), user))
	return nil
}

// allow checks whether the caller may make the request. It returns the filter of the rows that
// the caller may access.
func (c *call) allow(value map[string]any) (*ledger.Filter, error) {
	return c.may(c.route.resource, c.route.action, value)
}

func (c *call) may(resource, action string, value map[string]any) (*ledger.Filter, error) {
	a := c.s.o.Auth
	if a == nil || c.own {
		return nil, nil
	}
	for _, key := range []string{resource + ":" + action, resource, "*:" + action, "*"} {
		handler := a.On[key]
		if handler == nil {
			continue
		}
		d, err := handler(c.r.Context(), &Access{User: c.user, Resource: resource, Action: action, Value: value})
		if err != nil {
			return nil, c.denied(http.StatusForbidden, err)
		}
		if !d.Allow {
			return nil, fail(http.StatusForbidden, "Forbidden")
		}
		return conditions(d.Filter), nil
	}
	return nil, fail(http.StatusForbidden, "Forbidden")
}

// conditions converts a decision's filter to a ledger filter.
func conditions(filter map[string]any) *ledger.Filter {
	if len(filter) == 0 {
		return nil
	}
	f := &ledger.Filter{}
	for key, v := range filter {
		cond := ledger.Condition{Key: key, Values: []any{v}}
		if all, ok := v.(Contains); ok {
			cond.Contains, cond.Values = true, slices.Clone(all)
		}
		f.Auth = append(f.Auth, cond)
	}
	return f
}

// metadataOf returns the metadata after a handler that may have changed it.
func metadataOf(value map[string]any, old ledger.Object) ledger.Object {
	switch m := value["metadata"].(type) {
	case map[string]any:
		return m
	case ledger.Object:
		return m
	}
	return old
}
