//go:build !unix

package postgres

import "net"

// spoken cannot tell here.
func spoken(net.Conn) bool { return false }
