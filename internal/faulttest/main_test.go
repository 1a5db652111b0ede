// Package faulttest holds tests that have what a graph depends on fail: the
// functions that a user gives it, and what it stores to.
package faulttest_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Whatever fails, no goroutine may be left behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
