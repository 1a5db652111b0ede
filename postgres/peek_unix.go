//go:build unix

package postgres

import (
	"errors"
	"net"
	"syscall"
)

// spoken reports whether something has come on a connection on which nothing is
// awaited, the end of it included. It takes a system call and waits for nothing.
func spoken(c net.Conn) bool {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = over.NetConn()
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	quiet := false
	// Not raw.Read: it would wait for a read that is under way, and pgx may have
	// left one.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
	})
	return err != nil || !quiet
}
