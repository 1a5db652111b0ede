package server

import (
	"net/http"
	"runtime/debug"
	"sync"
)

// version returns the version of this module in the program's build information.
var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	const module = "github.com/treadle-go/treadle"
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return "unknown"
})

func (s systemAPI) ok(c *call) error {
	check, err := c.query().bool("check_db")
	if err != nil {
		return err
	}
	if check {
		_, err := s.ledger.NextDue(c.r.Context())
		if err == nil {
			err = s.runner.Trouble()
		}
		if err != nil {
			if status, detail := statusOf(err); status != http.StatusInternalServerError {
				return fail(status, "%s", detail)
			}
			return fail(http.StatusInternalServerError, "database check failed")
		}
	}
	if s.runner.Draining() {
		return fail(http.StatusServiceUnavailable, "server is shutting down")
	}
	return c.json(http.StatusOK, map[string]bool{"ok": true})
}

func (s systemAPI) info(c *call) error {
	return c.json(http.StatusOK, map[string]any{
		"version": version(), "context": "treadle",
		"flags": map[string]bool{
			"assistants":    !s.o.extras.Disabled["assistants"],
			"crons":         !s.o.extras.Disabled["runs"],
			"langsmith":     false,
			"strict_resume": true,
			"search":        !s.o.extras.Disabled["threads"],
			"spans":         !s.o.extras.Disabled["runs"],
		},
		"metadata": map[string]any{},
		"treadle": map[string]any{
			"spans": map[string]bool{"recording": s.o.Spans != nil, "content": s.o.Spans != nil && !s.o.Spans.NoContent && !s.noContent,
				"redacted": s.o.Spans != nil && s.o.Spans.Redact != nil},
			"search": map[string]bool{"text": !s.texts.NamesOnly},
		},
	})
}
