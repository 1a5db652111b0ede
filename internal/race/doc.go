// Package race tells tests whether the race detector is on.
//
// Under it, tests on databases take several times as long, and ten times where
// SQLite is instrumented as well. A test that mostly waits for a database
// therefore runs a sample under the race detector: everything in which
// goroutines of this module meet, and a part of the rest. All of it runs once
// more without the detector, in the packages that the Makefile lists.
package race
