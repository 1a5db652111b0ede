package server

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	rtmetrics "runtime/metrics"
	"time"

	"github.com/treadle-go/treadle/internal/budget"
)

// Main, Serve and ServeFile change settings of the whole process, which New does not do:
// how often garbage is collected, and when free memory goes back to the system.

// heapReserve is how much more garbage a server may hold than Go's default allows.
const heapReserve = 64 << 20

// reserveHeap makes the garbage collector count heapReserve more bytes as used, so that
// it does not run all the time while a server's data are few. The bytes are never
// touched: they take addresses and no memory. Whoever sets GOGC or GOMEMLIMIT decides
// instead. The reserve lasts until release is called.
func reserveHeap() (release func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	reserve := make([]byte, heapReserve)
	return func() { runtime.KeepAlive(reserve) }
}

// limitHeap makes Go collect garbage sooner when the process comes near to the memory limit
// of its control group. A quarter is left for memory that Go does not manage, such as the
// pages that SQLite caches. It does nothing if GOMEMLIMIT is set or there is no limit.
func limitHeap() (release func()) {
	limit, ok := budget.CgroupLimit()
	if !ok || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetMemoryLimit(limit - limit/4)
	return func() { debug.SetMemoryLimit(before) }
}

// releaseIdle returns free memory to the system whenever the process has become idle, until
// ctx ends. Go by itself keeps what a load has needed until garbage is collected the next
// time, which in an idle process is minutes later.
func releaseIdle(ctx context.Context, b *budget.Budget) {
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
		if i.second(allocated[0].Value.Uint64(), b.Used()) {
			debug.FreeOSMemory()
		}
	}
}

// idleness finds out when it is worth to release memory.
type idleness struct {
	last     uint64 // bytes allocated a second ago
	quiet    int    // seconds with few allocations
	released uint64 // bytes allocated when memory was last released
	kept     int64  // and the bytes of caches then
}

const (
	quietBytes   = 1 << 20 // a second with less is quiet
	quietSeconds = 2
	worthBytes   = 32 << 20 // so many allocated bytes are worth a collection
	worthKept    = 8 << 20  // and so many that caches have dropped
)

// second is called once a second, with all bytes that were ever allocated and those that
// caches have. It reports whether memory is to be released now.
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
