package memorytest

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/test/pgtest"
)

// tests stops the Postgres server of the benchmarks before goleak checks for goroutines.
type tests struct{ *testing.M }

func (t tests) Run() int { return pgtest.Run(t.M) }

func TestMain(m *testing.M) {
	if path := os.Getenv(submitterEnv); path != "" {
		submitUntilKilled(path)
	}
	if path := os.Getenv(consolidatorEnv); path != "" {
		consolidateUntilKilled(path)
	}
	goleak.VerifyTestMain(tests{m})
}
