package server

import "context"

// ownerKey is the metadata key that names the owner of a row, as in LangGraph's examples.
const ownerKey = "owner"

// OwnerRules returns handlers for [Auth].On that let each user access only their own threads,
// runs, assistants, crons, and store items. For other users, they do not exist, even if a
// request names their ID.
//
// The handlers set the metadata key "owner" of everything that a user creates or changes to the
// user's identity, whatever the request contains, and hide rows with another owner. Assistants
// without an owner, such as the default assistant of each graph, are shared: every user can read
// and run them, but not change them. In the store, the handlers add the identity in front of
// each namespace that does not start with it. They deny requests of users without an identity.
//
// To change a rule, replace its entry or add a more specific one:
//
//	rules := server.OwnerRules()
//	rules["assistants:create"] = func(_ context.Context, a *server.Access) (server.Decision, error) {
//		return server.Decision{Allow: slices.Contains(a.User.Permissions, "admin")}, nil
//	}
//
// A handler that replaces an entry must set the owner itself. Calling the original handler from
// it is the easiest way.
func OwnerRules() Rules {
	return Rules{
		"assistants:read":   sharedRows,
		"assistants:search": sharedRows,
		"assistants":        ownRows,
		"threads":           ownRows,
		"crons":             ownRows,
		"store":             ownNamespace,
	}
}

// identified reports whether the request has a user whose identity can name an owner. "*"
// cannot: in a namespace, it matches every label.
func identified(a *Access) bool {
	return a.User != nil && a.User.Identity != "" && a.User.Identity != "*"
}

// ownRows sets the owner of rows that the request stores, and allows access to the user's rows.
func ownRows(_ context.Context, a *Access) (Decision, error) {
	if !identified(a) {
		return Decision{}, nil
	}
	switch a.Action {
	case "create", "update", "create_run":
		metadata, _ := a.Value["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
			a.Value["metadata"] = metadata
		}
		metadata[ownerKey] = a.User.Identity
	}
	return Allow(map[string]any{ownerKey: a.User.Identity}), nil
}

// sharedRows allows access to the user's rows and to rows without an owner.
func sharedRows(_ context.Context, a *Access) (Decision, error) {
	if !identified(a) {
		return Decision{}, nil
	}
	return Allow(map[string]any{ownerKey: IfSet{a.User.Identity}}), nil
}

// ownNamespace confines the request to the part of the store that belongs to the user.
func ownNamespace(_ context.Context, a *Access) (Decision, error) {
	if !identified(a) {
		return Decision{}, nil
	}
	ns, _ := a.Value["namespace"].([]string)
	if len(ns) == 0 || ns[0] != a.User.Identity {
		a.Value["namespace"] = append([]string{a.User.Identity}, ns...)
	}
	return Allow(nil), nil
}
