package server_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A test that waits for longer gives up. It is long because packages are tested at the same time, on machines with
// other work: only what never happens should fail.
const tooLong = 2 * time.Minute

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Fprintln(os.Stderr, child(dir))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
