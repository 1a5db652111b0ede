//go:build unix

package database

import (
	"errors"
	"net"
	"syscall"
)

// spoken reports whether unexpected input, including EOF, has arrived on an idle
// connection. It takes one system call and does not block.
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
	// Do not use raw.Read: it would wait for any pending read, and pgx may have left one.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
	})
	return err != nil || !quiet
}
