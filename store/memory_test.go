package store_test

import (
	"testing"

	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

func TestMemoryIsABackend(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Backend { return store.NewMemoryBackend() })
}

// Memory agrees with itself: what Differential finds is due to the other.
func TestMemoryBehavesLikeMemory(t *testing.T) {
	storetest.Differential(t, func(*testing.T) store.Backend { return store.NewMemoryBackend() })
}

func BenchmarkMemory(b *testing.B) {
	storetest.Benchmark(b, func(*testing.B) store.Backend { return store.NewMemoryBackend() })
}
