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

	"github.com/treadle-go/treadle/studio"
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
		{"GET", "/ok", "", "", (*call).ok},
		{"GET", "/info", "", "", (*call).info},
		{"GET", "/openapi.json", "", "", (*call).openapi},
		{"GET", "/docs", "", "", (*call).docs},
		{"GET", "/metrics", "", "", (*call).showMetrics},

		{"POST", "/assistants", "assistants", "create", (*call).createAssistant},
		{"POST", "/assistants/search", "assistants", "search", (*call).searchAssistants},
		{"POST", "/assistants/count", "assistants", "search", (*call).countAssistants},
		{"GET", "/assistants/{assistant_id}", "assistants", "read", (*call).getAssistant},
		{"PATCH", "/assistants/{assistant_id}", "assistants", "update", (*call).patchAssistant},
		{"DELETE", "/assistants/{assistant_id}", "assistants", "delete", (*call).deleteAssistant},
		{"POST", "/assistants/{assistant_id}/versions", "assistants", "read", (*call).assistantVersions},
		{"POST", "/assistants/{assistant_id}/latest", "assistants", "update", (*call).setLatest},
		{"GET", "/assistants/{assistant_id}/graph", "assistants", "read", (*call).assistantGraph},
		{"GET", "/assistants/{assistant_id}/schemas", "assistants", "read", (*call).assistantSchemas},
		{"GET", "/assistants/{assistant_id}/subgraphs", "assistants", "read", (*call).assistantSubgraphs},
		{"GET", "/assistants/{assistant_id}/subgraphs/{namespace...}", "assistants", "read", (*call).assistantSubgraphs},

		{"POST", "/threads", "threads", "create", (*call).createThread},
		{"POST", "/threads/search", "threads", "search", (*call).searchThreads},
		{"POST", "/threads/count", "threads", "search", (*call).countThreads},
		{"POST", "/threads/prune", "threads", "delete", (*call).pruneThreads},
		{"GET", "/threads/{thread_id}", "threads", "read", (*call).getThread},
		{"PATCH", "/threads/{thread_id}", "threads", "update", (*call).patchThread},
		{"DELETE", "/threads/{thread_id}", "threads", "delete", (*call).deleteThread},
		{"POST", "/threads/{thread_id}/copy", "threads", "create", (*call).copyThread},
		{"GET", "/threads/{thread_id}/storage", "threads", "read", (*call).getStorage},
		{"GET", "/threads/{thread_id}/state", "threads", "read", (*call).getState},
		{"POST", "/threads/{thread_id}/state", "threads", "update", (*call).updateState},
		{"GET", "/threads/{thread_id}/state/{checkpoint_id}", "threads", "read", (*call).getState},
		{"POST", "/threads/{thread_id}/state/checkpoint", "threads", "read", (*call).getStateAt},
		{"GET", "/threads/{thread_id}/history", "threads", "read", (*call).getHistory},
		{"POST", "/threads/{thread_id}/history", "threads", "read", (*call).postHistory},
		{"POST", "/threads/{thread_id}/signals/{name}", "threads", "update", (*call).signalThread},
		{"GET", "/threads/{thread_id}/stream", "threads", "read", (*call).streamThread},
		{"POST", "/threads/{thread_id}/commands", "threads", "create_run", (*call).commands},
		{"POST", "/threads/{thread_id}/stream/events", "threads", "read", (*call).streamEvents},
		{"GET", "/threads/{thread_id}/stream/events", "threads", "read", (*call).webSocket},

		{"POST", "/threads/{thread_id}/runs", "threads", "create_run", (*call).createRun},
		{"POST", "/threads/{thread_id}/runs/stream", "threads", "create_run", (*call).streamRun},
		{"POST", "/threads/{thread_id}/runs/wait", "threads", "create_run", (*call).waitRun},
		{"GET", "/threads/{thread_id}/runs", "threads", "read", (*call).listRuns},
		{"GET", "/threads/{thread_id}/runs/{run_id}", "threads", "read", (*call).getRun},
		{"DELETE", "/threads/{thread_id}/runs/{run_id}", "threads", "delete", (*call).deleteRun},
		{"POST", "/threads/{thread_id}/runs/{run_id}/cancel", "threads", "update", (*call).cancelRun},
		{"GET", "/threads/{thread_id}/runs/{run_id}/join", "threads", "read", (*call).joinRun},
		{"GET", "/threads/{thread_id}/runs/{run_id}/stream", "threads", "read", (*call).joinStream},
		{"POST", "/runs", "threads", "create_run", (*call).createRun},
		{"POST", "/runs/stream", "threads", "create_run", (*call).streamRun},
		{"POST", "/runs/wait", "threads", "create_run", (*call).waitRun},
		{"POST", "/runs/batch", "threads", "create_run", (*call).batchRuns},
		{"POST", "/runs/cancel", "threads", "update", (*call).cancelRuns},
		{"GET", "/runs/{run_id}/stream", "threads", "read", (*call).joinStream},
		{"GET", "/runs/{run_id}/join", "threads", "read", (*call).joinRun},

		{"POST", "/runs/crons", "crons", "create", (*call).createCron},
		{"POST", "/threads/{thread_id}/runs/crons", "crons", "create", (*call).createCron},
		{"POST", "/runs/crons/search", "crons", "search", (*call).searchCrons},
		{"POST", "/runs/crons/count", "crons", "search", (*call).countCrons},
		{"GET", "/runs/crons/{cron_id}", "crons", "read", (*call).getCron},
		{"PATCH", "/runs/crons/{cron_id}", "crons", "update", (*call).patchCron},
		{"DELETE", "/runs/crons/{cron_id}", "crons", "delete", (*call).deleteCron},

		{"PUT", "/store/items", "store", "put", (*call).putItem},
		{"GET", "/store/items", "store", "get", (*call).getItem},
		{"DELETE", "/store/items", "store", "delete", (*call).deleteItem},
		{"GET", "/store/items/history", "store", "get", (*call).itemHistory},
		{"POST", "/store/items/search", "store", "search", (*call).searchItems},
		{"POST", "/store/namespaces", "store", "list_namespaces", (*call).listNamespaces},

		{"POST", "/mcp", "assistants", "search", (*call).serveMCP},
		{"GET", "/mcp", "assistants", "search", (*call).refuseGET},
		{"DELETE", "/mcp", "assistants", "search", (*call).refuseDELETE},
		{"GET", "/.well-known/agent-card.json", "assistants", "read", (*call).agentCard},
		{"POST", "/a2a/{assistant_id}", "assistants", "read", (*call).serveA2A},
	}
}

// routes returns the endpoints that the configuration has not disabled. A process that only
// executes runs serves /ok, /info, and /metrics.
func (s *Server) routes() []route {
	return slices.DeleteFunc(s.table(), func(rt route) bool {
		return s.o.disabled[groupOf(rt.path)] || s.o.quiet && !slices.Contains([]string{"/ok", "/info", "/metrics"}, rt.path)
	})
}

// groupOf returns the group of a route that the key http.disable_GROUP removes, or "" if none
// does.
func groupOf(path string) string {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "assistants", "runs", "store", "mcp", "a2a":
		return first
	case "threads":
		if _, of, _ := strings.Cut(rest, "/"); of == "commands" || of == "runs" || strings.HasPrefix(of, "runs/") {
			return "runs"
		}
		return first
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
	c.s.log.Error("a handler panicked", "path", c.r.URL.Path, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	c.answerError(fmt.Errorf("panic: %v", v))
}

// serveStudio serves the files of the studio and reports whether it did. They are not part of
// the API and need no key.
func (s *Server) serveStudio(w http.ResponseWriter, r *http.Request) bool {
	base := s.o.prefix + "/studio"
	if !s.o.Studio || s.o.disabled["ui"] || r.URL.Path != base && !strings.HasPrefix(r.URL.Path, base+"/") {
		return false
	}
	studio.Handler(base).ServeHTTP(w, r)
	return true
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = s.traced(r)
	seen := s.metrics.watch(w, r, s.o.clientTime)
	if r.ContentLength != 0 { // even if no handler reads the body
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.o.clientTime))
	}
	c := &call{s: s, w: seen, r: r}
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
	if path, ok := strings.CutPrefix(r.URL.Path, s.o.prefix); ok && (path == "" || path[0] == '/') {
		found = s.router.find(r, strings.Trim(path, "/"))
	}
	if found == nil {
		c.answerError(fail(http.StatusNotFound, "%s %s: there is no such endpoint", r.Method, r.URL.Path))
		return
	}
	if c.route = found.byMethod[r.Method]; c.route == nil {
		allowed := slices.Sorted(maps.Keys(found.byMethod))
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		c.answerError(fail(http.StatusMethodNotAllowed, "%s: the method is %s, not %s", r.URL.Path, strings.Join(allowed, " or "), r.Method))
		return
	}
	if err := c.serve(); err != nil {
		c.answerError(err)
	}
}
