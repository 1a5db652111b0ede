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

func (c *call) ok() error {
	check, err := c.query().bool("check_db")
	if err != nil {
		return err
	}
	if check {
		_, err := c.s.ledger.NextDue(c.r.Context())
		if err == nil {
			err = c.s.runner.Trouble()
		}
		if err != nil {
			if status, detail := statusOf(err); status != http.StatusInternalServerError {
				return fail(status, "%s", detail)
			}
			return fail(http.StatusInternalServerError, "database check failed")
		}
	}
	if c.s.runner.Draining() {
		return fail(http.StatusServiceUnavailable, "server is shutting down")
	}
	return c.json(http.StatusOK, map[string]bool{"ok": true})
}

func (c *call) info() error {
	return c.json(http.StatusOK, map[string]any{
		"version": version(), "context": "treadle",
		"flags":    map[string]bool{"assistants": !c.s.o.disabled["assistants"], "crons": !c.s.o.disabled["runs"], "langsmith": false, "strict_resume": true},
		"metadata": map[string]any{},
	})
}
