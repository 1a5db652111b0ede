//go:build unix

package clienttest

import (
	"testing"

	"github.com/treadle-go/treadle/internal/test/langgraphtest"
)

// officialDir has LangGraph's own Python server with the ten graphs.
const officialDir = "../../../../examples/platform/conformance/official"

// The client works with LangGraph's own server as with ours.
func TestLangGraphsServer(t *testing.T) {
	url := langgraphtest.Start(t, officialDir)
	s := &suite{Client: connect(t, url, nil), url: url, langgraph: true}
	t.Run("suite", s.run)
}
