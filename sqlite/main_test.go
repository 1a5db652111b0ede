package sqlite

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// No database may leave a goroutine behind.
func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		writeUntilKilled(dir)
	}
	if path := os.Getenv(openAs); path != "" {
		openAsNobody(path)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
