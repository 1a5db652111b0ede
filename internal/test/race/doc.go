// Package race reports to tests whether the race detector is enabled.
//
// With the race detector, tests on databases take several times as long, and ten times as
// long if SQLite is instrumented too. A test that mostly waits for a database therefore
// runs a sample under the detector: everything that involves several goroutines of this
// module, and a part of the rest. Such tests run again without the detector, in the
// packages that the Makefile lists. The command in again finds them.
package race

import "os"

// Runs reports whether a variant of a test should run. Under the race detector, only the
// first variant runs; the others run when make test LONG=1 repeats the test without it. A
// plain go test runs all variants.
func Runs(first bool) bool {
	if Enabled {
		return first
	}
	return !first || os.Getenv("TREADLE_AGAIN") == ""
}
