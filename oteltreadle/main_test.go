package oteltreadle_test

import (
	"testing"

	"go.opentelemetry.io/otel"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {})) // the exporter of a test fails
	goleak.VerifyTestMain(m)
}
