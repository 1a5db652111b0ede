package main

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/server"
)

// auth returns an Auth with two users who may write, alice and bob, and one who may not,
// viewer. Their tokens are their names followed by "-token".
func auth() *server.Auth {
	users := map[string]*server.User{
		"alice-token":  {Identity: "alice", Permissions: []string{"write"}},
		"bob-token":    {Identity: "bob", Permissions: []string{"write"}},
		"viewer-token": {Identity: "viewer", Permissions: []string{}},
	}
	return &server.Auth{
		Authenticate: func(r *http.Request) (*server.User, error) {
			if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && users[token] != nil {
				return users[token], nil
			}
			return nil, &server.StatusError{Status: http.StatusUnauthorized, Detail: "invalid token"}
		},
		On: server.Rules{
			"threads:create":    createThread,
			"threads:delete":    deleteThread,
			"assistants:read":   everything,
			"assistants:search": everything,
			"store":             ownNamespace,
			"*":                 ownRows,
		},
	}
}

// createThread lets users with write permission create their own threads.
func createThread(ctx context.Context, a *server.Access) (server.Decision, error) {
	if !slices.Contains(a.User.Permissions, "write") {
		return server.Decision{}, nil
	}
	return ownRows(ctx, a)
}

func deleteThread(context.Context, *server.Access) (server.Decision, error) {
	return server.Decision{}, &server.StatusError{Status: http.StatusTeapot, Detail: "deleting is not allowed here"}
}

func everything(context.Context, *server.Access) (server.Decision, error) {
	return server.Allow(nil), nil
}

// ownNamespace gives each user a separate part of the store.
func ownNamespace(_ context.Context, a *server.Access) (server.Decision, error) {
	ns, _ := a.Value["namespace"].([]string)
	if len(ns) == 0 || ns[0] != a.User.Identity {
		a.Value["namespace"] = append([]string{a.User.Identity}, ns...)
	}
	return server.Allow(nil), nil
}

// ownRows adds the user as the owner of stored rows, and shows only the user's rows.
func ownRows(_ context.Context, a *server.Access) (server.Decision, error) {
	metadata, _ := a.Value["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		a.Value["metadata"] = metadata
	}
	metadata["owner"] = a.User.Identity
	return server.Allow(map[string]any{"owner": a.User.Identity}), nil
}
