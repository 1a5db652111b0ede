package server

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/internal/observe"
)

// traced returns the request with the context derived by Options.Context. It joins the trace
// named in the request's headers, unless an outer handler has started a span.
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

// trace returns the request's trace context, which is stored with the runs it creates, because
// another process may execute them.
func (q *request) trace() map[string]string {
	if q.r == nil {
		return nil // a cron
	}
	if t := observe.TracerOf(q.r.Context()); t != nil {
		return t.Inject(q.r.Context())
	}
	return nil
}

// tracedMCP returns the call as part of the trace named in an MCP request's metadata.
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
