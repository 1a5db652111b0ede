package natsbus

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/server/internal/natstest"
)

func TestMain(m *testing.M) {
	natstest.Serve()
	goleak.VerifyTestMain(m)
}
