package server

import (
	"runtime"
	"testing"
)

// nextGC is the size of the heap that starts the next collection.
func nextGC() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NextGC
}

func TestASmallHeapGrowsByTheReserveBeforeItIsCollected(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := nextGC()
	release := reserveHeap()
	if with := nextGC(); with < before+heapReserve {
		t.Errorf("the next collection is at %d bytes, and was at %d without the reserve", with, before)
	}
	release()
}

func TestGOGCAndGOMEMLIMITReplaceTheReserve(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv("GOGC", "")
		t.Setenv("GOMEMLIMIT", "")
		t.Setenv(name, "100")
		before := nextGC()
		release := reserveHeap()
		if with := nextGC(); with >= before+heapReserve {
			t.Errorf("%s=100: the next collection is at %d bytes, and was at %d", name, with, before)
		}
		release()
	}
}
