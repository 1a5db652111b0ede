package main

import (
	"context"
	"slices"

	"github.com/treadle-go/treadle/server"
)

// newAuth returns the users and their permissions.
func newAuth() *server.Auth {
	rules := server.OwnerRules()
	for _, action := range []string{"read", "search", "create_run"} {
		rules["threads:"+action] = orManager(rules["threads"])
	}
	return &server.Auth{
		Authenticate: server.APIKeys(map[string]*server.User{
			"key-of-ann": {Identity: "ann"},
			"key-of-bob": {Identity: "bob"},
			"key-of-mia": {Identity: "mia", Permissions: []string{"approve"}},
		}),
		On: rules,
	}
}

// orManager lets managers access the threads of all users.
func orManager(rule func(context.Context, *server.Access) (server.Decision, error)) func(context.Context, *server.Access) (server.Decision, error) {
	return func(ctx context.Context, a *server.Access) (server.Decision, error) {
		if slices.Contains(a.User.Permissions, "approve") {
			return server.Allow(nil), nil
		}
		return rule(ctx, a)
	}
}
