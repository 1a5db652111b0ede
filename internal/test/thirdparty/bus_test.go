package thirdparty_test

import (
	"testing"

	"example.com/thirdparty"
	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/bus/bustest"
)

func TestBus(t *testing.T) {
	bustest.Run(t, func(t *testing.T, n int) []bus.Bus {
		x := thirdparty.NewExchange()
		all := make([]bus.Bus, n)
		for i := range all {
			all[i] = x.Connect()
			t.Cleanup(func() { _ = all[i].Close() })
		}
		return all
	})
}
