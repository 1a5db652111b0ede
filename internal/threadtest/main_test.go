package threadtest_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No run and no saver may leave a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
