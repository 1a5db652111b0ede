package studiotest_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/browsertest"
	"github.com/treadle-go/treadle/internal/servertest"
	"github.com/treadle-go/treadle/internal/studiotest"
	"github.com/treadle-go/treadle/server"
)

// serve starts a server with the studio.
func serve(t *testing.T) string {
	t.Helper()
	return servertest.Start(t, &server.Options{Studio: true}, treadle.Must(studiotest.Graphs()))
}

func TestFlows(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("flows/*.mjs")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".mjs"), func(t *testing.T) {
			t.Parallel() // as many at a time as there are processors
			browsertest.Run(t, script, serve(t))
		})
	}
}
