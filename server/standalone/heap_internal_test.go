package standalone

import (
	"runtime"
	"testing"
)

// nextGC returns the heap size that starts the next collection.
func nextGC() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NextGC
}

func TestReserveDelaysGarbageCollection(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := nextGC()
	release := reserveHeap()
	if with := nextGC(); with < before+heapReserve {
		t.Errorf("the next collection is at %d bytes, and was at %d without the reserve", with, before)
	}
	release()
}

func TestGOGCAndGOMEMLIMITDisableReserve(t *testing.T) {
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

func TestMemoryIsReleasedOncePerLoad(t *testing.T) {
	const mib = 1 << 20
	var i idleness
	allocated, released := uint64(0), 0
	run := func(seconds int, rate uint64, kept int64) int {
		before := released
		for range seconds {
			allocated += rate
			if i.second(allocated, kept) {
				released++
			}
		}
		return released - before
	}
	if n := run(100, 1000, 0); n != 0 {
		t.Errorf("released %d times before the first load", n)
	}
	if n := run(20, 100*mib, 50*mib); n != 0 {
		t.Errorf("released %d times under load", n)
	}
	if n := run(quietSeconds-1, 1000, 50*mib); n != 0 {
		t.Errorf("released %d times in a short pause", n)
	}
	if n := run(600, 10_000, 50*mib); n != 1 {
		t.Errorf("released %d times after a load, want once", n)
	}
	if n := run(60, 10_000, 10*mib); n != 1 {
		t.Errorf("released %d times after caches became smaller, want once", n)
	}
	if n := run(60, 10_000, 9*mib); n != 0 {
		t.Errorf("released %d times for little", n)
	}
}
