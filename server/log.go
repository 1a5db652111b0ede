package server

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// logRequest logs a completed request.
func (s *Server) logRequest(w *watched, r *http.Request) {
	level := slog.LevelDebug
	if s.o.extras.LogRequests {
		level = slog.LevelInfo
	}
	if !s.log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Int("status", max(w.status, http.StatusOK)),
		slog.Int64("bytes", w.size), slog.String("took", took(w.began))}
	if s.o.extras.Logged != nil {
		for _, name := range sortedNames(r.Header) {
			if s.o.extras.Logged.Selects(strings.ToLower(name), false) {
				attrs = append(attrs, slog.String(strings.ToLower(name), r.Header.Get(name)))
			}
		}
	}
	s.log.LogAttrs(r.Context(), level, "request", attrs...)
}

func sortedNames(h http.Header) []string {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// took formats the time since began.
func took(began time.Time) string {
	d := time.Since(began)
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
