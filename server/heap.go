package server

import (
	"os"
	"runtime"
)

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
