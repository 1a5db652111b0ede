package gemini_test

import (
	"testing"

	"go.uber.org/goleak"
)

// OpenCensus, which the SDK's code for other credentials brings along, starts a
// goroutine for the whole process when it is linked.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
