package memory_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Nothing of this package may leave a goroutine behind.
func TestMain(m *testing.M) {
	if path := os.Getenv(submitterEnv); path != "" {
		submitUntilKilled(path)
	}
	if path := os.Getenv(consolidatorEnv); path != "" {
		consolidateUntilKilled(path)
	}
	goleak.VerifyTestMain(m)
}
