package retrievaltest

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(syncerEnv); path != "" {
		syncUntilKilled(path)
	}
	goleak.VerifyTestMain(m)
}
