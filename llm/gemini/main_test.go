package gemini_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No call may leak a goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
