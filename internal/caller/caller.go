// Package caller carries the authenticated user of a run or request from the server to
// packages that do not depend on it.
package caller

import "context"

// Caller is the user on whose behalf a run or request acts on a server with
// authentication. The zero Caller means no user.
type Caller struct {
	Identity string
	User     any // the *server.User, or nil
}

type key struct{}

// With returns a context whose caller is c.
func With(ctx context.Context, c Caller) context.Context { return context.WithValue(ctx, key{}, c) }

// From returns the caller of ctx; ok is false outside a server with authentication.
func From(ctx context.Context) (c Caller, ok bool) {
	c, ok = ctx.Value(key{}).(Caller)
	return c, ok
}
