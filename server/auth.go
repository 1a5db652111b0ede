package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/auth"
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
	//
	// [OwnerRules] returns handlers that let users access only their own data.
	On Rules
	// Schemes describes the credentials that Authenticate accepts, by a name, for the cards of A2A
	// agents and /openapi.json. A caller needs one of them. The server does not check requests against Schemes.
	Schemes map[string]SecurityScheme
}

// SecurityScheme describes one kind of credentials, with the fields of OpenAPI.
type SecurityScheme struct {
	Type             string `json:"type"` // "apiKey", "http", or "openIdConnect"
	Description      string `json:"description,omitempty"`
	In               string `json:"in,omitempty"`               // of an apiKey: "header", "query", or "cookie"
	Name             string `json:"name,omitempty"`             // of the header, parameter, or cookie of an apiKey
	Scheme           string `json:"scheme,omitempty"`           // of http, such as "bearer"
	BearerFormat     string `json:"bearerFormat,omitempty"`     // of http, such as "JWT"
	OpenIDConnectURL string `json:"openIdConnectUrl,omitempty"` // of openIdConnect
}

// Rules maps resources and actions to the handlers of [Auth].
type Rules map[string]func(context.Context, *Access) (Decision, error)

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
	// type [Contains], the metadata value must be a list with those elements; for a value of
	// type [IfSet], the key may also be missing. The store rejects decisions with a filter: its
	// handlers change the namespace instead.
	Filter map[string]any
}

// Contains is a value of a [Decision]'s Filter. It matches if the metadata value is a list that
// contains all of these elements.
type Contains []any

// IfSet is a value of a [Decision]'s Filter. It matches if the metadata value equals Value or
// if the metadata has no such key.
type IfSet struct{ Value any }

// Allow permits the operation on rows whose metadata contains the values in filter; nil means
// all rows.
func Allow(filter map[string]any) Decision { return Decision{Allow: true, Filter: filter} }

// StatusError is an error from an Auth function that sets the HTTP status.
type StatusError struct {
	Status int
	Detail string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Detail) }

// denied returns the response to a caller rejected by an Auth function. It sends only texts
// meant for callers and logs the others.
func (q *request) denied(status int, err error) error {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return fail(e.Status, "%s", e.Detail)
	}
	if e, ok := errors.AsType[*auth.DenialError](err); ok {
		return fail(status, "%s", e.Text)
	}
	if e, ok := errors.AsType[*auth.KeysError](err); ok {
		if e.Cause != nil { // otherwise logged at the last attempt
			q.s.log.Error("failed to read issuer keys", "error", e.Cause)
		}
		return fail(http.StatusServiceUnavailable, "%s", e.Error())
	}
	q.s.log.Info("access denied", "method", q.r.Method, "path", q.r.URL.Path, "status", status, "error", passwords.ReplaceAllString(err.Error(), "://$1:***@"))
	return fail(status, "%s", http.StatusText(status))
}

// passwords matches passwords in URLs.
var passwords = regexp.MustCompile(`://([^\s/:@]*):[^\s/]*@`)

// authenticate identifies the caller.
func (q *request) authenticate() error {
	a := q.s.o.Auth
	if a == nil || a.Authenticate == nil {
		return nil
	}
	user, err := a.Authenticate(q.r)
	if err != nil {
		return q.denied(http.StatusUnauthorized, err)
	}
	if user == nil {
		return fail(http.StatusUnauthorized, "unknown caller")
	}
	q.user = user
	q.r = q.r.WithContext(WithUser(q.r.Context(), user))
	return nil
}

// allow checks whether the caller may make the request. It returns the filter of the rows that
// the caller may access.
func (q *request) allow(value map[string]any) (*ledger.Filter, error) {
	return q.may(q.route.resource, q.route.action, value)
}

func (q *request) may(resource, action string, value map[string]any) (*ledger.Filter, error) {
	a := q.s.o.Auth
	if a == nil || q.own {
		return nil, nil
	}
	for _, key := range []string{resource + ":" + action, resource, "*:" + action, "*"} {
		handler := a.On[key]
		if handler == nil {
			continue
		}
		d, err := handler(q.r.Context(), &Access{User: q.user, Resource: resource, Action: action, Value: value})
		if err != nil {
			return nil, q.denied(http.StatusForbidden, err)
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
		if v, ok := v.(IfSet); ok {
			cond.Optional, cond.Values[0] = true, v.Value
		}
		if all, ok := cond.Values[0].(Contains); ok {
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
