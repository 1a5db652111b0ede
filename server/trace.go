package server

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/internal/observe"
)

// traced returns the request with the context that Options.Context derives. It is a
// part of the trace that the request's headers name, unless a handler around the
// server has begun a span.
func (s *Server) traced(r *http.Request) *http.Request {
	if s.o.Context == nil {
		return r
	}
	ctx := s.o.Context(r.Context())
	if t := observe.TracerOf(ctx); t != nil && len(t.Inject(ctx)) == 0 {
		ctx = t.Join(ctx, r.Header.Get)
	}
	return r.WithContext(ctx)
}

// trace is the place of the request in its trace, which is stored with the runs that
// it creates: another process may execute them.
func (c *call) trace() map[string]string {
	if c.r == nil {
		return nil // a cron
	}
	if t := observe.TracerOf(c.r.Context()); t != nil {
		return t.Inject(c.r.Context())
	}
	return nil
}

// tracedMCP returns the call as a part of the trace that the data of an MCP request
// names.
func (c *call) tracedMCP(meta mcp.Meta) *call {
	t := observe.TracerOf(c.r.Context())
	if t == nil || len(meta) == 0 {
		return c
	}
	own := *c // a batch has several requests
	own.r = c.r.WithContext(t.Join(c.r.Context(), func(name string) string {
		v, _ := meta[name].(string)
		return v
	}))
	return &own
}
