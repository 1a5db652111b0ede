package threadtest

import (
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
)

// A Suite contains the tests for one aspect of threads. open opens an empty saver and
// closes it with t.Cleanup.
type Suite []struct {
	name string
	kind kind
	run  func(t *testing.T, open func(*testing.T) checkpoint.Saver)
}

// A kind determines which tests a database runs under the race detector.
type kind bool

const (
	// sequential tests do one thing at a time, so they run under the race detector only
	// with the in-memory saver, and on databases without it.
	sequential kind = false
	// concurrent tests use the saver from several goroutines, or represent their suite.
	concurrent kind = true
)

// Run runs all tests.
func (s Suite) Run(t *testing.T, open func(*testing.T) checkpoint.Saver) {
	t.Helper()
	for _, test := range s {
		t.Run(test.name, func(t *testing.T) { test.run(t, open) })
	}
}

// RunConcurrent runs the tests that databases run under the race detector. Every suite
// has some.
func (s Suite) RunConcurrent(t *testing.T, open func(*testing.T) checkpoint.Saver) {
	t.Helper()
	ran := false
	for _, test := range s {
		if test.kind == concurrent {
			ran = true
			t.Run(test.name, func(t *testing.T) { test.run(t, open) })
		}
	}
	if !ran {
		t.Error("suite has no test for databases under the race detector")
	}
}
