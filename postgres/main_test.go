package postgres

import (
	"log/slog"
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that pgtest uses
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/test/pgtest"
)

// tests end the cluster before goroutines are counted.
type tests struct{ *testing.M }

func (t tests) Run() int { return pgtest.Run(t.M) }

// No database may leave a goroutine behind.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // faults are injected, so warnings are expected
	if os.Getenv(writerEnv) != "" {
		writeUntilKilled()
	}
	goleak.VerifyTestMain(tests{m})
}
