// Package config holds the settings and functions of a server that package server shares with
// package standalone but not with other programs.
package config

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// Extras are the settings that only the flags and the configuration file of a standalone
// program can set.
type Extras struct {
	Alone        bool              // no other process uses the database
	Quiet        bool              // serve only /ok, /info, and /metrics
	LogRequests  bool              // at level info instead of debug
	Descriptions map[string]string // graph descriptions by graph name
	Disabled     map[string]bool   // route groups
	Prefix       string            // path prefix of all routes
	Configurable *HeaderRule       // headers passed to nodes
	Logged       *HeaderRule       // logged headers
	ThreadTTL    *TTL              // for threads created without a TTL
	Sweep        time.Duration     // interval at which expired threads are removed; 0 means the default
	SweepLimit   int               // maximum number of threads removed at a time; 0 means the default
	StoreSweep   time.Duration     // interval at which expired items are removed; 0 means the default
	ClientTime   time.Duration     // timeout for a client to read or send one chunk; 0 means the default
	Components   http.Handler      // for /ui/ below Prefix; nil means none
	Security     Security          // replaces the schemes of Options.Auth in the OpenAPI document
}

// Security describes, in the terms of OpenAPI, the credentials that callers need.
type Security struct {
	Schemes  map[string]map[string]any                   // by name
	Required []map[string][]string                       // by all routes
	Paths    map[string]map[string][]map[string][]string // by path and method, instead of Required
}

// TTL is the lifetime of a thread.
type TTL struct {
	Minutes  float64
	Strategy string // "delete", which "" means, or "keep_latest"
}

// Usage describes the resources that a server uses.
type Usage struct {
	Runs  int   // active runs
	Cache int64 // bytes in caches
}

// Server gives package standalone access to package server, which sets the fields when it is
// initialized. The parameters are a *server.Options or a *server.Server.
var Server struct {
	// Extend adds extras to options.
	Extend func(options any, e *Extras)
	// OpenAPI returns the OpenAPI document of a server with the given options.
	OpenAPI func(options any) map[string]any
	// Usage returns the resources that a server uses now.
	Usage func(server any) Usage
}

// HeaderRule selects headers by name; * matches any text.
type HeaderRule struct{ Includes, Excludes []string }

// Selects reports whether r selects the header name, which is in lower case. A nil rule, or a
// rule that only excludes, selects the usual headers.
func (r *HeaderRule) Selects(name string, usual bool) bool {
	if r == nil {
		return usual
	}
	is := func(pattern string) bool {
		ok, err := path.Match(strings.ToLower(pattern), name)
		return ok && err == nil
	}
	switch {
	case slices.ContainsFunc(r.Excludes, is):
		return false
	case r.Includes == nil:
		return usual
	case IsSecret(name): // must be named exactly
		return slices.ContainsFunc(r.Includes, func(p string) bool { return strings.EqualFold(p, name) })
	}
	return slices.ContainsFunc(r.Includes, is)
}

// IsSecret reports whether a header carries a credential. Nodes do not receive it unless a
// [HeaderRule] names it.
func IsSecret(name string) bool {
	return name == "x-api-key" || name == "x-tenant-id" || name == "x-service-key"
}
