package server

import (
	"log/slog"
	"net/http"
)

// call is one request and its response.
type call struct {
	request
	response
}

// newCall returns the call of a request. w is nil if the server itself calls.
func newCall(s *Server, w http.ResponseWriter, r *http.Request) *call {
	return &call{request{s: s, r: r, rw: w}, response{w}}
}

// answerError writes an error response.
func (c *call) answerError(err error) {
	status, detail := statusOf(err)
	if status >= 500 && c.r.Context().Err() == nil {
		level := slog.LevelError
		if status == http.StatusServiceUnavailable && c.s.runner.Draining() {
			level = slog.LevelDebug // expected: probes fail during a shutdown
		}
		c.s.log.Log(c.r.Context(), level, "request failed", "method", c.r.Method, "path", c.r.URL.Path, "error", err)
	}
	_ = c.json(status, map[string]string{"detail": detail})
}
