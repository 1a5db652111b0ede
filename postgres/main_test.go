package postgres

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/pgtest"
)

// tests end the cluster before goroutines are counted.
type tests struct{ *testing.M }

func (t tests) Run() int { return pgtest.Run(t.M) }

// No database may leave a goroutine behind.
func TestMain(m *testing.M) {
	if os.Getenv(writerEnv) != "" {
		writeUntilKilled()
	}
	if at := os.Getenv(ledgerWriterEnv); at != "" {
		runUntilKilled(at)
	}
	goleak.VerifyTestMain(tests{m})
}
