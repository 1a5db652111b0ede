package server

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/server/studio"
)

// route is one endpoint. The resource and action select the Auth handler; a route without a
// resource is public.
type route struct {
	method, path     string
	resource, action string
	handle           func(*call) error
}

// table returns all endpoints. The access tests and the OpenAPI document are derived from it.
func (s *Server) table() []route {
	return []route{
		{"GET", "/ok", "", "", s.system().ok},
		{"GET", "/info", "", "", s.system().info},
		{"GET", "/openapi.json", "", "", s.system().openapi},
		{"GET", "/docs", "", "", s.system().docs},
		{"GET", "/metrics", "", "", s.system().showMetrics},

		{"POST", "/assistants", "assistants", "create", s.assistants().create},
		{"POST", "/assistants/search", "assistants", "search", s.assistants().search},
		{"POST", "/assistants/count", "assistants", "search", s.assistants().count},
		{"GET", "/assistants/{assistant_id}", "assistants", "read", s.assistants().get},
		{"PATCH", "/assistants/{assistant_id}", "assistants", "update", s.assistants().patch},
		{"DELETE", "/assistants/{assistant_id}", "assistants", "delete", s.assistants().remove},
		{"POST", "/assistants/{assistant_id}/versions", "assistants", "read", s.assistants().versions},
		{"POST", "/assistants/{assistant_id}/latest", "assistants", "update", s.assistants().setLatest},
		{"GET", "/assistants/{assistant_id}/graph", "assistants", "read", s.assistants().graph},
		{"GET", "/assistants/{assistant_id}/schemas", "assistants", "read", s.assistants().schemas},
		{"GET", "/assistants/{assistant_id}/subgraphs", "assistants", "read", s.assistants().subgraphs},
		{"GET", "/assistants/{assistant_id}/subgraphs/{namespace...}", "assistants", "read", s.assistants().subgraphs},

		{"POST", "/threads", "threads", "create", s.threads().create},
		{"POST", "/threads/search", "threads", "search", s.threads().search},
		{"POST", "/threads/count", "threads", "search", s.threads().count},
		{"POST", "/threads/prune", "threads", "delete", s.threads().prune},
		{"GET", "/threads/{thread_id}", "threads", "read", s.threads().get},
		{"PATCH", "/threads/{thread_id}", "threads", "update", s.threads().patch},
		{"DELETE", "/threads/{thread_id}", "threads", "delete", s.threads().remove},
		{"POST", "/threads/{thread_id}/copy", "threads", "create", s.threads().copy},
		{"GET", "/threads/{thread_id}/storage", "threads", "read", s.threads().storage},
		{"GET", "/threads/{thread_id}/state", "threads", "read", s.states().get},
		{"POST", "/threads/{thread_id}/state", "threads", "update", s.states().update},
		{"GET", "/threads/{thread_id}/state/{checkpoint_id}", "threads", "read", s.states().get},
		{"POST", "/threads/{thread_id}/state/checkpoint", "threads", "read", s.states().getAt},
		{"GET", "/threads/{thread_id}/history", "threads", "read", s.states().history},
		{"POST", "/threads/{thread_id}/history", "threads", "read", s.states().postHistory},
		{"GET", "/threads/{thread_id}/overview", "threads", "read", s.states().overview},
		{"POST", "/threads/{thread_id}/subgraphs", "threads", "read", s.states().subgraphs},
		{"POST", "/threads/{thread_id}/signals/{name}", "threads", "update", s.threads().signal},
		{"GET", "/threads/{thread_id}/stream", "threads", "read", s.protocol().streamThread},
		{"POST", "/threads/{thread_id}/commands", "threads", "create_run", s.protocol().commands},
		{"POST", "/threads/{thread_id}/stream/events", "threads", "read", s.protocol().streamEvents},
		{"GET", "/threads/{thread_id}/stream/events", "threads", "read", s.protocol().webSocket},

		{"POST", "/threads/{thread_id}/runs", "threads", "create_run", s.runs().create},
		{"POST", "/threads/{thread_id}/runs/stream", "threads", "create_run", s.runs().createAndStream},
		{"POST", "/threads/{thread_id}/runs/wait", "threads", "create_run", s.runs().createAndWait},
		{"GET", "/threads/{thread_id}/runs", "threads", "read", s.runs().list},
		{"GET", "/threads/{thread_id}/runs/{run_id}", "threads", "read", s.runs().get},
		{"DELETE", "/threads/{thread_id}/runs/{run_id}", "threads", "delete", s.runs().remove},
		{"POST", "/threads/{thread_id}/runs/{run_id}/cancel", "threads", "update", s.runs().cancel},
		{"GET", "/threads/{thread_id}/runs/{run_id}/join", "threads", "read", s.runs().join},
		{"GET", "/threads/{thread_id}/runs/{run_id}/stream", "threads", "read", s.runs().joinStream},
		{"GET", "/threads/{thread_id}/runs/{run_id}/spans", "threads", "read", s.spans().list},
		{"GET", "/threads/{thread_id}/runs/{run_id}/spans/{span_id}", "threads", "read", s.spans().get},
		{"POST", "/runs", "threads", "create_run", s.runs().create},
		{"POST", "/runs/stream", "threads", "create_run", s.runs().createAndStream},
		{"POST", "/runs/wait", "threads", "create_run", s.runs().createAndWait},
		{"POST", "/runs/batch", "threads", "create_run", s.runs().batch},
		{"POST", "/runs/cancel", "threads", "update", s.runs().cancelMany},
		{"GET", "/runs/{run_id}/stream", "threads", "read", s.runs().joinStream},
		{"GET", "/runs/{run_id}/join", "threads", "read", s.runs().join},

		{"POST", "/search/threads", "threads", "search", s.threads().searchText},
		{"POST", "/search/runs", "threads", "search", s.runs().search},

		{"POST", "/runs/crons", "crons", "create", s.crons().create},
		{"POST", "/threads/{thread_id}/runs/crons", "crons", "create", s.crons().create},
		{"POST", "/runs/crons/search", "crons", "search", s.crons().search},
		{"POST", "/runs/crons/count", "crons", "search", s.crons().count},
		{"GET", "/runs/crons/{cron_id}", "crons", "read", s.crons().get},
		{"PATCH", "/runs/crons/{cron_id}", "crons", "update", s.crons().patch},
		{"DELETE", "/runs/crons/{cron_id}", "crons", "delete", s.crons().remove},

		{"PUT", "/store/items", "store", "put", s.items().put},
		{"GET", "/store/items", "store", "get", s.items().get},
		{"DELETE", "/store/items", "store", "delete", s.items().remove},
		{"GET", "/store/items/history", "store", "get", s.items().history},
		{"POST", "/store/items/search", "store", "search", s.items().search},
		{"POST", "/store/namespaces", "store", "list_namespaces", s.items().namespaces},

		{"POST", "/mcp", "assistants", "search", s.mcp().serve},
		{"GET", "/mcp", "assistants", "search", s.mcp().listen},
		{"DELETE", "/mcp", "assistants", "search", s.mcp().leave},
		{"GET", "/.well-known/agent-card.json", "assistants", "read", s.a2a().card},
		{"POST", "/a2a/{assistant_id}", "assistants", "read", s.a2a().serve},
		{"GET", "/a2a/{assistant_id}", "assistants", "read", s.a2a().card},
		{"GET", "/a2a/{assistant_id}/.well-known/agent-card.json", "assistants", "read", s.a2a().card},
		{"POST", "/a2a/{assistant_id}/v1", "assistants", "read", v1Only(s.a2a().serve)},
		{"GET", "/a2a/{assistant_id}/v1/.well-known/agent-card.json", "assistants", "read", v1Only(s.a2a().card)},
		{"POST", "/agui/{assistant_id}", "assistants", "read", s.agui().serve},
		{"GET", "/agui/{assistant_id}/capabilities", "assistants", "read", s.agui().capabilities},
	}
}

// routes returns the endpoints that the configuration has not disabled. A process that only
// executes runs serves /ok, /info, and /metrics.
func (s *Server) routes() []route {
	return slices.DeleteFunc(s.table(), func(rt route) bool {
		return s.o.extras.Disabled[groupOf(rt.path)] || s.o.extras.Quiet && !slices.Contains([]string{"/ok", "/info", "/metrics"}, rt.path)
	})
}

// groupOf returns the group of a route that the key http.disable_GROUP removes, or "" if none
// does.
func groupOf(path string) string {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "assistants", "runs", "store", "mcp", "a2a", "agui":
		return first
	case "threads":
		if _, of, _ := strings.Cut(rest, "/"); of == "commands" || of == "runs" || strings.HasPrefix(of, "runs/") {
			return "runs"
		}
		return first
	case "search":
		return rest
	case "info", "metrics", "docs", "openapi.json":
		return "meta"
	case ".well-known":
		return "a2a"
	}
	return ""
}

// router finds the route of a request. http.ServeMux is unsuitable: it rejects
// "/runs/crons/{cron_id}" alongside "/runs/{run_id}/stream". In this router, a literal part
// takes precedence over a parameter.
type router struct {
	literal  map[string]*router
	name     string // parameter name
	param    *router
	rest     *router // parameter that matches all remaining parts
	byMethod map[string]*route
}

func newRouter(table []route) *router {
	root := &router{}
	for i := range table {
		at := root
		for part := range strings.SplitSeq(strings.TrimPrefix(table[i].path, "/"), "/") {
			at = at.child(part)
		}
		if at.byMethod == nil {
			at.byMethod = map[string]*route{}
		}
		at.byMethod[table[i].method] = &table[i]
	}
	return root
}

func (n *router) child(part string) *router {
	name, isParam := strings.CutPrefix(part, "{")
	switch {
	case !isParam:
		if n.literal == nil {
			n.literal = map[string]*router{}
		}
		if n.literal[part] == nil {
			n.literal[part] = &router{}
		}
		return n.literal[part]
	case strings.HasSuffix(name, "...}"):
		n.rest = &router{name: strings.TrimSuffix(name, "...}")}
		return n.rest
	case n.param == nil:
		n.param = &router{name: strings.TrimSuffix(name, "}")}
	}
	return n.param
}

// find returns the node of a path and sets the request's parameters.
func (n *router) find(r *http.Request, path string) *router {
	if path == "" {
		if n.byMethod == nil {
			return nil
		}
		return n
	}
	part, rest, _ := strings.Cut(path, "/")
	if next := n.literal[part]; next != nil {
		if found := next.find(r, rest); found != nil {
			return found
		}
	}
	if n.param != nil && part != "" {
		if found := n.param.find(r, rest); found != nil {
			r.SetPathValue(n.param.name, part)
			return found
		}
	}
	if n.rest != nil {
		r.SetPathValue(n.rest.name, path)
		return n.rest
	}
	return nil
}

// serve authenticates the caller, unless the route is public, and calls the handler.
func (c *call) serve() error {
	if c.route.resource != "" {
		if err := c.identify(); err != nil {
			return err
		}
	}
	return c.route.handle(c)
}

// recover responds to a request whose handler panicked. It passes on http.ErrAbortHandler,
// which net/http uses to close a connection.
func (c *call) recover() {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	c.s.log.Error("handler panicked", "path", c.r.URL.Path, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	c.answerError(fmt.Errorf("panic: %v", v))
}

// serveStudio serves the files of the studio and reports whether it did. They are not part of
// the API and need no key.
func (s *Server) serveStudio(w http.ResponseWriter, r *http.Request) bool {
	base := s.o.extras.Prefix + "/studio"
	if !s.o.Studio || s.o.extras.Disabled["ui"] || r.URL.Path != base && !strings.HasPrefix(r.URL.Path, base+"/") {
		return false
	}
	studio.Handler(base).ServeHTTP(w, r)
	return true
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = s.traced(r)
	seen := s.metrics.watch(w, r, s.o.extras.ClientTime)
	if r.ContentLength != 0 { // even if no handler reads the body
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.o.extras.ClientTime))
	}
	c := newCall(s, seen, r)
	defer func() {
		seen.done(r, c.route)
		s.logRequest(seen, r)
	}()
	if err := s.guard(r); err != nil {
		c.answerError(err)
		return
	}
	if s.cors(seen, r) {
		return
	}
	defer c.recover()
	if s.serveStudio(seen, r) {
		return
	}
	var found *router
	if path, ok := strings.CutPrefix(r.URL.Path, s.o.extras.Prefix); ok && (path == "" || path[0] == '/') {
		found = s.router.find(r, strings.Trim(path, "/"))
	}
	if found == nil {
		c.answerError(fail(http.StatusNotFound, "%s %s: unknown endpoint", r.Method, r.URL.Path))
		return
	}
	if c.route = found.byMethod[r.Method]; c.route == nil {
		allowed := slices.Sorted(maps.Keys(found.byMethod))
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		c.answerError(fail(http.StatusMethodNotAllowed, "%s: want method %s, not %s", r.URL.Path, strings.Join(allowed, " or "), r.Method))
		return
	}
	if err := c.serve(); err != nil {
		c.answerError(err)
	}
}
