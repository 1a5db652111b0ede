package server

import (
	"net/http"
	"runtime/debug"
	"sync"
)

// version is that of the module, as the program was built with it.
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
		if _, err := c.s.ledger.NextDue(c.r.Context()); err != nil {
			return fail(http.StatusInternalServerError, "the database does not answer")
		}
	}
	if c.s.runner.Draining() {
		return fail(http.StatusServiceUnavailable, "the server is shutting down")
	}
	return c.json(http.StatusOK, map[string]bool{"ok": true})
}

func (c *call) info() error {
	return c.json(http.StatusOK, map[string]any{
		"version": version(), "context": "treadle",
		"flags":    map[string]bool{"assistants": !c.s.o.disabled["assistants"], "crons": !c.s.o.disabled["runs"], "langsmith": false},
		"metadata": map[string]any{},
	})
}
