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

// Auth says who the callers are and what they may do.
type Auth struct {
	// Authenticate returns the caller of a request. If it returns an error, the caller is
	// rejected: with the status and detail of a [*StatusError], or else with 401 and
	// without the text of the error, which the server logs. That text can reveal
	// internal details, such as the address of a database.
	Authenticate func(*http.Request) (*User, error)
	// On has handlers by what they decide about: "threads:create", "threads",
	// "*:create" or "*". The most specific one decides. What no handler decides
	// about is refused. An error of a handler is like an error of Authenticate, with 403.
	//
	// The resources and their actions are assistants (create, read, update, delete,
	// search), threads (create, read, update, delete, search, create_run), crons
	// (create, read, update, delete, search) and store (put, get, search,
	// list_namespaces, delete).
	On map[string]func(context.Context, *Access) (Decision, error)
}

// User is a caller.
type User struct {
	Identity    string         `json:"identity"`
	DisplayName string         `json:"display_name,omitempty"`
	Permissions []string       `json:"permissions"`
	Claims      map[string]any `json:"claims,omitempty"` // what else is known
}

// Access is what a caller is about to do.
type Access struct {
	User             *User
	Resource, Action string
	// Value is what the request says: "metadata", "thread_id", "namespace" and the
	// like. What a handler changes in "metadata", and in "namespace" of the store, is
	// stored.
	Value map[string]any
}

// Decision is what a handler says. The zero Decision is a refusal.
type Decision struct {
	Allow bool
	// Filter are values that the metadata of a row must have for the caller to see
	// it. A list as the value of the metadata must contain the filter's value if that
	// is a [Contains]. The store refuses decisions with a filter: its handlers change
	// the namespace instead.
	Filter map[string]any
}

// Contains is a value of a [Decision]'s Filter: the metadata has a list at the key,
// and all of these are in it.
type Contains []any

// Allow lets a caller do what it is about to do, with the rows whose metadata have
// the given values; nil means with all rows.
func Allow(filter map[string]any) Decision { return Decision{Allow: true, Filter: filter} }

// StatusError is an error of an Auth function with a status of its own.
type StatusError struct {
	Status int
	Detail string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Detail) }

// denial is an error of this package's Authenticate functions. Its text is for callers.
type denial struct{ text string }

func (e *denial) Error() string { return e.text }

// denied returns the response to a caller that a function of Auth has rejected. Only texts
// meant for callers are shown; others are logged.
func (c *call) denied(status int, err error) error {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return fail(e.Status, "%s", e.Detail)
	}
	if e, ok := errors.AsType[*denial](err); ok {
		return fail(status, "%s", e.text)
	}
	if e, ok := errors.AsType[*keysError](err); ok {
		if e.cause != nil { // otherwise it was logged at the last attempt
			c.s.log.Error("failed to read issuer keys", "error", e.cause)
		}
		return fail(http.StatusServiceUnavailable, "%s", e.Error())
	}
	c.s.log.Info("access denied", "method", c.r.Method, "path", c.r.URL.Path, "status", status, "error", passwords.ReplaceAllString(err.Error(), "://$1:***@"))
	return fail(status, "%s", http.StatusText(status))
}

// passwords matches the passwords of URLs.
var passwords = regexp.MustCompile(`://([^\s/:@]*):[^\s/]*@`)

// authenticate finds out who the caller is.
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

// allow asks whether the caller may do what the request is about. It returns the
// filter of the rows that it may do it with.
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

// conditions are a decision's filter in the ledger's form.
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

// metadataOf is the metadata that a handler may have changed.
func metadataOf(value map[string]any, old ledger.Object) ledger.Object {
	switch m := value["metadata"].(type) {
	case map[string]any:
		return m
	case ledger.Object:
		return m
	}
	return old
}
