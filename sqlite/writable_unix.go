//go:build linux || darwin || freebsd || netbsd || openbsd

package sqlite

import (
	"io/fs"
	"syscall"
)

// writable asks the system whether a file or a directory can be written, without
// opening it.
func writable(path string) error {
	const write = 2
	if err := syscall.Access(path, write); err != nil {
		return &fs.PathError{Op: "access", Path: path, Err: err}
	}
	return nil
}
