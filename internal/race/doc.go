// Package race tells tests whether the race detector is on.
//
// Under it, tests on databases take several times as long, and ten times where
// SQLite is instrumented as well. A test that mostly waits for a database
// therefore runs a sample under the race detector: everything in which
// goroutines of this module meet, and a part of the rest. Such tests run once
// more without the detector, in the packages that the Makefile lists. The command
// in again finds them.
package race

import "os"

// Runs reports whether a variant of a test is to run. Under the race detector only the
// first variant is, and the others are when make test LONG=1 runs the test again without it.
// A plain go test runs all of them.
func Runs(first bool) bool {
	if Enabled {
		return first
	}
	return !first || os.Getenv("TREADLE_AGAIN") == ""
}
