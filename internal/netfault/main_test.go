package netfault

import (
	"testing"

	"github.com/treadle-go/treadle/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
