package thirdparty_test

import (
	"testing"

	"example.com/thirdparty"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/checkpoint/checkpointtest"
)

func TestSaver(t *testing.T) {
	checkpointtest.Run(t, func(*testing.T) checkpoint.Saver { return thirdparty.NewSaver() })
}

func TestSaverMatchesMemory(t *testing.T) {
	checkpointtest.Differential(t, func(*testing.T) func(testing.TB, int) *thirdparty.Saver {
		s := thirdparty.NewSaver()
		return func(testing.TB, int) *thirdparty.Saver { return s }
	}, nil)
}
