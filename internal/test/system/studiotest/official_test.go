//go:build unix

package studiotest_test

import (
	"testing"

	"github.com/treadle-go/treadle/internal/test/browsertest"
	"github.com/treadle-go/treadle/internal/test/langgraphtest"
)

// The studio works with LangGraph's own server, opened with ?baseUrl=.
func TestStudioOnLangGraphsServer(t *testing.T) {
	t.Parallel()
	url := langgraphtest.Start(t, "../../../../examples/platform/conformance/official")
	browsertest.Run(t, "official.mjs", serve(t, "official"), url)
}
