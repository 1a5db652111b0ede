package threadtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/test/pgtest"
)

// tests end the Postgres server before goroutines are counted.
type tests struct{ *testing.M }

func (t tests) Run() int { return pgtest.Run(t.M) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }
