package gemini_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No call may leave a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
