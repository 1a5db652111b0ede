package erasetest

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/pgtest"
)

// tests end the Postgres server before goroutines are counted.
type tests struct{ *testing.M }

func (t tests) Run() int { return pgtest.Run(t.M) }

func TestMain(m *testing.M) {
	if path := os.Getenv(eraserEnv); path != "" {
		eraseUntilKilled(path)
	}
	goleak.VerifyTestMain(tests{m})
}
