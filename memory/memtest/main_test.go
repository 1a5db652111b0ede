package memtest_test

import (
	"testing"

	"go.uber.org/goleak"
)

// This package may not leak a goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
