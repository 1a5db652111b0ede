package workflows_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No run may leak a goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
