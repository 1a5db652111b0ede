package memtest_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Nothing of this package may leave a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
