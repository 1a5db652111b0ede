package standalone

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	rtmetrics "runtime/metrics"
	"time"

	"github.com/treadle-go/treadle/internal/budget"
)

// Main, Serve, and ServeFile, unlike server.New, change settings of the whole process: how often
// garbage is collected, and when free memory is returned to the system.

// heapReserve is the amount of garbage that a server may hold in addition to Go's default.
const heapReserve = 64 << 20

// reserveHeap makes the garbage collector count heapReserve more bytes as live, so that it does
// not run constantly while a server has little data. The bytes are never touched: they use
// address space but no memory. If GOGC or GOMEMLIMIT is set, reserveHeap does nothing. The
// reserve lasts until release is called.
func reserveHeap() (release func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	reserve := make([]byte, heapReserve)
	return func() { runtime.KeepAlive(reserve) }
}

// limitHeap makes Go collect garbage sooner when the process approaches the memory limit of its
// control group. It leaves a quarter for memory that Go does not manage, such as SQLite's page
// cache. It does nothing if GOMEMLIMIT is set or there is no limit.
func limitHeap() (release func()) {
	limit, ok := budget.CgroupLimit()
	if !ok || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetMemoryLimit(limit - limit/4)
	return func() { debug.SetMemoryLimit(before) }
}

// releaseIdle returns free memory to the system whenever the process becomes idle, until ctx
// ends. By default, Go keeps the memory used under load until the next garbage collection,
// which in an idle process is minutes away.
func releaseIdle(ctx context.Context, cached func() int64) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	allocated := []rtmetrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	var i idleness
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		rtmetrics.Read(allocated)
		if i.second(allocated[0].Value.Uint64(), cached()) {
			debug.FreeOSMemory()
		}
	}
}

// idleness decides when releasing memory is worthwhile.
type idleness struct {
	last     uint64 // bytes allocated a second ago
	quiet    int    // seconds with few allocations
	released uint64 // bytes allocated when memory was last released
	kept     int64  // bytes in caches at that time
}

const (
	quietBytes   = 1 << 20 // a second with fewer allocated bytes is quiet
	quietSeconds = 2
	worthBytes   = 32 << 20 // allocated bytes that are worth a collection
	worthKept    = 8 << 20  // bytes dropped from caches that are worth a collection
)

// second reports whether to release memory now. It expects one call per second, with the
// total bytes ever allocated and the bytes in caches.
func (i *idleness) second(allocated uint64, kept int64) bool {
	i.quiet++
	if allocated-i.last > quietBytes {
		i.quiet = 0
	}
	i.last = allocated
	if i.quiet < quietSeconds || allocated-i.released < worthBytes && i.kept-kept < worthKept {
		return false
	}
	i.released, i.kept = allocated, kept
	return true
}
