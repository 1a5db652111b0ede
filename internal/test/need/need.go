// Package need lets a test name the programs that it needs in addition to Go.
//
// A test that needs a missing program fails, so that a passing run has run every test.
// The exception is make test without LONG=1, which leaves out programs: it lists them in
// TREADLE_TEST_WITHOUT, and the tests that need them are skipped. Command testreport
// accepts these skips and no others, and counts them in its report.
package need

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Env is the environment variable that lists the programs to do without, separated by
// spaces.
const Env = "TREADLE_TEST_WITHOUT"

// The programs that tests need.
const (
	Postgres = "Postgres"
	Node     = "Node.js"
	Python   = "Python"
	Chromium = "Chromium"
)

const skipped = "left out: needs "

// Program skips the test if TREADLE_TEST_WITHOUT lists the program.
func Program(t testing.TB, name string) {
	t.Helper()
	if slices.Contains(Without(), name) {
		t.Skip(skipped + name)
	}
}

// Without returns the programs that TREADLE_TEST_WITHOUT lists.
func Without() []string { return strings.Fields(os.Getenv(Env)) }

// Skipped returns the program named by a line of output that Program wrote, or "" if the
// line has another origin.
func Skipped(line string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "+skipped) // after the file and line
	return name
}
