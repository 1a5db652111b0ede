package server

import (
	"context"

	"github.com/treadle-go/treadle/internal/caller"
)

// UserFrom returns the authenticated user of the run or request in ctx. It works in nodes,
// tools, and middleware of a served graph at any depth, in the handlers of [Auth].On, and, for
// runs, in [Options].Context. It returns nil outside a server and if the server has no [Auth].
//
// A run acts for the user who created it, whichever process executes it. A cron's run acts for
// the user who created the cron, and a run that continues a thread automatically acts for the
// user of the thread's last run. A run's user is decoded from JSON, so numbers in Claims are
// json.Number. The user must not be modified.
func UserFrom(ctx context.Context) *User {
	c, _ := caller.From(ctx)
	u, _ := c.User.(*User)
	return u
}

// WithUser returns a context whose user is u, for [UserFrom]. Use it to test a tool or a node
// without a server. In a run, the server sets the user. A nil u removes the user.
func WithUser(ctx context.Context, u *User) context.Context {
	if u == nil {
		return caller.With(ctx, caller.Caller{})
	}
	return caller.With(ctx, caller.Caller{Identity: u.Identity, User: u})
}

// storedUser returns the user that the server stored in a run's configurable values when it
// created the run, or nil. It is the inverse of userMap.
func storedUser(conf map[string]any) *User {
	fields, ok := conf["langgraph_auth_user"].(map[string]any)
	if !ok {
		return nil
	}
	u := &User{Claims: map[string]any{}}
	for key, v := range fields {
		switch key {
		case "identity":
			u.Identity, _ = v.(string)
		case "display_name":
			u.DisplayName, _ = v.(string)
		case "permissions":
			list, _ := v.([]any)
			for _, p := range list {
				if text, ok := p.(string); ok {
					u.Permissions = append(u.Permissions, text)
				}
			}
		case "is_authenticated":
		default:
			u.Claims[key] = v
		}
	}
	return u
}
