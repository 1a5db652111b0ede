package oteltreadle_test

import (
	"flag"
	"testing"

	"go.opentelemetry.io/otel"
	"go.uber.org/goleak"
)

var updating = flag.Bool("update", false, "write the trace into docs/observability.md")

// No run and no exporter may leave a goroutine behind.
func TestMain(m *testing.M) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {})) // a test has an exporter that fails
	goleak.VerifyTestMain(m)
}
