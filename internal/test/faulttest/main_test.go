// Package faulttest tests graphs whose dependencies fail: the user's functions, and
// savers, stores, and caches.
package faulttest_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Whatever fails, no goroutine may leak.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
