package thirdparty_test

import (
	"testing"

	"example.com/thirdparty"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

func openBackend(*testing.T) store.Backend { return thirdparty.NewBackend() }

func TestBackend(t *testing.T) { storetest.Run(t, openBackend) }

func TestBackendMatchesMemory(t *testing.T) { storetest.Differential(t, openBackend) }
