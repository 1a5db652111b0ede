package erasetest

import (
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that pgtest uses
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/test/pgtest"
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
