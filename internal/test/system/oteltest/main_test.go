package oteltest

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var updating = flag.Bool("update", false, "write the trace into docs/observability.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
