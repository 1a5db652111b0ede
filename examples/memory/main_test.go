package memory_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No run may leave a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
